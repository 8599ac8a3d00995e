// How a process uses a file, as the kernel tells it: what it read, what the page cache holds, where the file is mapped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace harness {

// What calls such as read and pread read from any file, pipe or device. A mapped file is read without calls.
// storage_bytes is what a disk had to give for both.
struct Reads {
  int64_t bytes = 0, calls = 0;
  int64_t storage_bytes = 0;  // from a disk
};

// What this process has read so far (/proc/self/io).
class ReadCount {
 public:
  // None where the kernel does not say.
  [[nodiscard]] static std::optional<ReadCount> now();
  // Since `earlier`, without the counting itself.
  [[nodiscard]] Reads since(const ReadCount& earlier) const;

 private:
  Reads so_far_;
  int64_t own_bytes_ = 0;  // that counting read, in one call, after `so_far_`
};

// How many bytes of the file the page cache holds, in whole pages. None where the kernel does not say. It tells only
// those who may write the file (mincore).
std::optional<int64_t> cached_bytes(const std::filesystem::path& file);

// Asks the kernel to take the file out of the page cache. It keeps what is mapped and touched, and some file systems
// keep all: cached_bytes tells. Throws std::system_error if the file cannot be opened.
void drop_from_page_cache(const std::filesystem::path& file);

// Where a file lies in this process's memory.
struct Mapping {
  std::string address;         // "7f3a5c000000"
  int64_t resident_bytes = 0;  // of its pages
};

// The first mapping of the file (/proc/self/smaps); none where there is none.
std::optional<Mapping> mapping_of(const std::filesystem::path& file);

}  // namespace harness
