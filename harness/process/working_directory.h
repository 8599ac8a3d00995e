// For the file of main() only. If the working directory has been deleted, MKL ends the process while libraries are
// loaded, with an error that does not say why. This check runs before that, so it may only use system calls.
#pragma once

#include <linux/limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace harness {

__attribute__((no_sanitize("address", "undefined"))) inline void check_working_directory(int, char** argv, char**) {
  char path[PATH_MAX];
  if (::syscall(SYS_getcwd, path, sizeof path) >= 0 || errno != ENOENT) return;
  const std::string_view program(argv[0]), name = program.substr(program.rfind('/') + 1);
  for (const std::string_view words :
       {name, std::string_view(": the working directory has been deleted; change to another one\n")}) {
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, words.data(), words.size());
  }
  ::_exit(2);
}

[[gnu::section(".preinit_array"), gnu::used]] static void (*const look_first)(int, char**,
                                                                              char**) = &check_working_directory;

}  // namespace harness
