#include "fuzz/input.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace fuzz {
namespace {

void check(bool good) {
  if (!good) throw std::system_error(errno, std::generic_category(), "a file in memory");
}

}  // namespace

MemoryFile::MemoryFile() : descriptor_(memfd_create("input", MFD_CLOEXEC)) { check(descriptor_ >= 0); }

MemoryFile::~MemoryFile() { close(descriptor_); }

void MemoryFile::write(std::string_view bytes) const {
  check(ftruncate(descriptor_, 0) == 0);
  check(pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
}

std::filesystem::path MemoryFile::path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

bool taken(const std::function<void()>& read) {
  try {
    read();
    return true;
  } catch (const std::invalid_argument& error) {
    if (*error.what() == '\0') throw std::logic_error("a refusal without a reason");
    return false;
  }
}

}  // namespace fuzz
