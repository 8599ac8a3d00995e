// The one handler of errors. The exit status is 2 for unusable input, 3 for what this machine cannot do, else 1.
#include "cli/command.h"
#include "files/printable.h"
#include "harness/observe/library_calls.h"
#include "harness/process/unfit.h"
#include "harness/process/working_directory.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace {

// Opens 0, 1 and 2 if the caller has closed them. Otherwise the program would print into the next file that it opens.
void own_standard_descriptors() {
  int fd = -1;
  do fd = ::open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

// "PATH: cannot create directories: No such file or directory", where the library puts the path last.
std::string fault_of_path(const std::filesystem::filesystem_error& error) {
  constexpr std::string_view begin = "filesystem error: ";
  std::string what = error.what();
  if (what.starts_with(begin)) what.erase(0, begin.size());
  return error.path1().string() + ": " + what.substr(0, what.find(" ["));
}

}  // namespace

int main(int argc, char** argv) {
  const auto fail = [](const char* message, int status) {
    std::fflush(stdout);
    fmt::print(stderr, "ladder: {}\n", files::shortened(files::printable(message), 1000));
    return status;
  };
  own_standard_descriptors();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that reaches its size limit gives an error, like a full disk
  std::signal(SIGCHLD, SIG_DFL);  // some programs leave it ignored, which would hide how children end
  for (const std::string& name : harness::silence_libraries()) {
    fmt::print(stderr, "note: {} is ignored: the library would print among the results on standard output\n",
               files::printable(name));
  }
  try {
    const int status = ablations::run_command_line(argc, argv);
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
  } catch (const c10::Error& error) {
    std::string text = error.what_without_backtrace();
    if (text.starts_with("CUDA ")) {  // hints for those who debug or set up PyTorch follow
      text.resize(std::min({text.size(), text.find('\n'), text.find(" Of the allocated memory")}));
    }
    return fail(text.c_str(), 1);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", 1);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}
