// A file in memory for readers that take a path.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace fuzz {

class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("input", MFD_CLOEXEC)) { check(descriptor_ >= 0); }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;  // owns a file descriptor
  MemoryFile& operator=(const MemoryFile&) = delete;

  void write(std::string_view bytes) const {  // in place of what it held
    check(ftruncate(descriptor_, 0) == 0);
    check(pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  [[nodiscard]] std::filesystem::path path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  static void check(bool good) {
    if (!good) throw std::system_error(errno, std::generic_category(), "a file in memory");
  }

  int descriptor_;
};

// True when `read` returns, false when it throws std::invalid_argument; std::logic_error where that has no message.
// (One handler, in main.cpp, makes one printable line of any message.)
inline bool taken(const std::function<void()>& read) {
  try {
    read();
    return true;
  } catch (const std::invalid_argument& error) {
    if (*error.what() == '\0') throw std::logic_error("a refusal without a reason");
    return false;
  }
}

}  // namespace fuzz
