#include "cli/command.h"
#include "files/printable.h"
#include "harness/process/process.h"
#include "harness/process/unfit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace cli {
namespace {

// Opens 0, 1 and 2 where the caller has closed them. Otherwise the next file that is opened would get that number, and
// the program would print into it.
void own_standard_descriptors() {
  int fd = -1;
  do fd = ::open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

// What cannot be printed there is lost, and ends nothing: the disk is full, the terminal or the reader is gone.
void let_standard_error_fail() {
  cookie_io_functions_t lossy{};
  lossy.write = [](void* /*cookie*/, const char* text, size_t size) -> ssize_t {
    struct sigaction before {};
    ::sigaction(SIGPIPE, nullptr, &before);
    if (before.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, size);
    if (before.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_DFL);
    return static_cast<ssize_t>(size);
  };
  stderr = ::fopencookie(nullptr, "w", lossy);
  std::setvbuf(stderr, nullptr, _IONBF, 0);
}

// "PATH: cannot create directories: No such file or directory", where the library puts the path last.
std::string fault_of_path(const std::filesystem::filesystem_error& error) {
  constexpr std::string_view begin = "filesystem error: ";
  std::string what = error.what();
  if (what.starts_with(begin)) what.erase(0, begin.size());
  if (what.starts_with("cannot create director")) what.replace(0, what.find(':'), "this folder cannot be created");
  return error.path1().string() + ": " + what.substr(0, what.find(" ["));
}

}  // namespace

int exit_status(const std::function<int()>& program) {
  const auto fail = [](const char* message, int status) {
    std::fflush(stdout);
    fmt::print(stderr, "ladder: {}\n", files::shortened(files::printable(message), 1000));
    return harness::interrupted() ? 130 : status;
  };
  own_standard_descriptors();
  let_standard_error_fail();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that reaches its size limit gives an error, like a full disk
  std::signal(SIGCHLD, SIG_DFL);  // some programs leave it ignored, which would hide how children end
  try {
    const int status = program();
    // What is still in the buffer may find the disk full.
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "standard output");
    return status;
  } catch (const std::invalid_argument& error) {
    return fail(error.what(), 2);
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(fault_of_path(error).c_str(), 2);
  } catch (const std::system_error& error) {
    return fail(error.what(), 2);
  } catch (const harness::Unfit& error) {
    return fail(error.what(), 3);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", 1);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}

}  // namespace cli
