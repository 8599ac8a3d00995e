// A file in memory for readers that take a path.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace fuzz {

class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;  // owns a file descriptor
  MemoryFile& operator=(const MemoryFile&) = delete;

  void write(std::string_view bytes) const;  // in place of what it held
  [[nodiscard]] std::filesystem::path path() const;

 private:
  int descriptor_;
};

// True when `read` returns, false when it throws std::invalid_argument; std::logic_error where that has no message.
// (One handler, in main.cpp, makes one printable line of any message.)
bool taken(const std::function<void()>& read);

}  // namespace fuzz
