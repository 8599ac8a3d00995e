// Memory: the host's, taken from the system only where it is written to, so that 139 GiB of it cost nothing.
#include "fake_cuda/memory.h"

#include "fake_cuda/device.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace fake_cuda {
namespace {

struct Block {
  size_t bytes = 0;
  bool of_host = false;
};

std::map<uintptr_t, Block>& blocks() {
  static auto* all = new std::map<uintptr_t, Block>;  // outlives the program's own clean-up
  return *all;
}

size_t used = 0;
constexpr size_t page = 4096;

}  // namespace

size_t total_bytes() {
  static const size_t total = [] {
    const char* asked = std::getenv("FAKE_CUDA_GIB");
    return static_cast<size_t>((asked == nullptr ? 139.0 : std::atof(asked)) * (size_t{1} << 30));
  }();
  return total;
}

size_t free_bytes() { return total_bytes() - used; }

void* take(size_t bytes, bool of_host) {
  if (!of_host && bytes > free_bytes()) return nullptr;
  const size_t mapped = (bytes + page - 1) / page * page;
  void* data = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  blocks()[reinterpret_cast<uintptr_t>(data)] = {mapped, of_host};
  if (!of_host) used += mapped;
  return data;
}

bool give_back(void* data) {
  const auto found = blocks().find(reinterpret_cast<uintptr_t>(data));
  if (found == blocks().end()) return false;
  if (!found->second.of_host) used -= found->second.bytes;
  ::munmap(data, found->second.bytes);
  blocks().erase(found);
  return true;
}

cudaMemoryType type_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto next = blocks().upper_bound(address);
  if (next == blocks().begin()) return cudaMemoryTypeUnregistered;
  const auto& [begin, block] = *--next;
  if (address >= begin + block.bytes) return cudaMemoryTypeUnregistered;
  return block.of_host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
}

void copy(void* to, const void* from, size_t bytes) {
  const bool within = type_of(to) == cudaMemoryTypeDevice && type_of(from) == cudaMemoryTypeDevice;
  if (!within) std::memcpy(to, from, bytes);  // what stays on the device is as empty as what its kernels make
}

void fill(void* to, int value, size_t bytes) {
  if (value != 0 || bytes < 2 * page) {
    std::memset(to, value, bytes);
    return;
  }
  auto* const begin = static_cast<char*>(to);
  const auto address = reinterpret_cast<uintptr_t>(to);
  char* const first = begin + ((page - address % page) % page);
  char* const last = begin + bytes - (address + bytes) % page;
  std::memset(begin, 0, first - begin);
  ::madvise(first, last - first, MADV_DONTNEED);  // reads as zeros, and costs nothing
  std::memset(last, 0, begin + bytes - last);
}

}  // namespace fake_cuda
