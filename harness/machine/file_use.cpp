#include "harness/machine/file_use.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

namespace harness {

namespace {

class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& file) : descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (descriptor >= 0) ::close(descriptor);
  }
  OpenFile(const OpenFile&) = delete;  // closes once
  OpenFile& operator=(const OpenFile&) = delete;

  const int descriptor;
};

}  // namespace

std::optional<ReadCount> ReadCount::now() {
  const OpenFile io("/proc/self/io");
  std::array<char, 1024> text{};
  const ssize_t got = io.descriptor < 0 ? -1 : ::read(io.descriptor, text.data(), text.size() - 1);
  if (got <= 0) return std::nullopt;
  ReadCount count;
  count.own_bytes_ = got;
  int found = 0;
  std::istringstream lines(text.data());
  for (std::string name; lines >> name;) {
    int64_t value = 0;
    if (!(lines >> value)) break;
    for (const auto& [wanted, place] : {std::pair{"rchar:", &count.so_far_.bytes},
                                        {"syscr:", &count.so_far_.calls},
                                        {"read_bytes:", &count.so_far_.storage_bytes}}) {
      if (name != wanted) continue;
      *place = value;
      ++found;
    }
  }
  return found == 3 ? std::optional(count) : std::nullopt;
}

Reads ReadCount::since(const ReadCount& earlier) const {
  return {.bytes = so_far_.bytes - earlier.so_far_.bytes - earlier.own_bytes_,
          .calls = so_far_.calls - earlier.so_far_.calls - 1,
          .storage_bytes = so_far_.storage_bytes - earlier.so_far_.storage_bytes};
}

std::optional<int64_t> cached_bytes(const std::filesystem::path& path) {
  const OpenFile file(path);
  struct stat status {};
  if (file.descriptor < 0 || ::fstat(file.descriptor, &status) != 0) return std::nullopt;
  // To others mincore says that all of it is there.
  if (status.st_uid != ::geteuid() && ::access(path.c_str(), W_OK) != 0) return std::nullopt;
  const auto size = static_cast<size_t>(status.st_size), page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (size == 0) return 0;
  void* const bytes = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor, 0);
  if (bytes == MAP_FAILED) return std::nullopt;
  std::vector<unsigned char> resident((size + page - 1) / page);
  const bool known = ::mincore(bytes, size, resident.data()) == 0;
  ::munmap(bytes, size);
  if (!known) return std::nullopt;
  const auto pages = std::ranges::count_if(resident, [](unsigned char one) { return (one & 1) != 0; });
  return std::min(static_cast<int64_t>(size), static_cast<int64_t>(pages) * static_cast<int64_t>(page));
}

void drop_from_page_cache(const std::filesystem::path& path) {
  const OpenFile file(path);
  if (file.descriptor < 0) throw std::system_error(errno, std::generic_category(), path.string());
  ::fdatasync(file.descriptor);  // what is not written yet stays
  (void)::posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_DONTNEED);
}

std::optional<Mapping> mapping_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  std::ifstream maps("/proc/self/smaps");
  std::optional<Mapping> found;
  for (std::string line; std::getline(maps, line);) {
    int64_t kib = 0;
    if (found) {
      if (std::sscanf(line.c_str(), "Rss: %" SCNd64 " kB", &kib) != 1) continue;
      found->resident_bytes = kib * 1024;
      return found;
    }
    // "7f3a5c000000-7f3a5c400000 r--p 00000000 fe:00 131 /path"
    const size_t dash = line.find('-');
    uint64_t begin = 0, end = 0, offset = 0, inode = 0;
    std::array<char, 8> rights{};
    unsigned int major = 0, minor = 0;
    if (dash == std::string::npos || std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64,
                                                 &begin, &end, rights.data(), &offset, &major, &minor, &inode) != 7) {
      continue;
    }
    // Inodes are numbered by device, and file systems name devices in more than one way.
    const bool is_it = inode == static_cast<uint64_t>(status.st_ino) && line.ends_with(path.filename().string());
    if (is_it) found = Mapping{line.substr(0, dash), 0};
  }
  return found;
}

}  // namespace harness
