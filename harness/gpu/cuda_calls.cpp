#include "harness/gpu/cuda_calls.h"

#include <algorithm>
#include <string_view>

namespace harness {
namespace {

template <class Predicate>
std::map<std::string, int64_t> where(const std::map<std::string, int64_t>& calls, Predicate&& wanted) {
  std::map<std::string, int64_t> found;
  for (const auto& [name, count] : calls) {
    std::string_view function = name;
    function.remove_prefix(std::min(function.find_first_not_of('_'), function.size()));  // what <<<>>> calls has two
    if (wanted(function)) found.emplace(name, count);
  }
  return found;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

std::map<std::string, int64_t> CudaCalls::kernel_launches() const {
  return where(calls, [](std::string_view name) {
    const bool launches = name.starts_with("cudaLaunch") || name.starts_with("cuLaunch");
    return launches && contains(name, "Kernel");  // KernelEx, CooperativeKernel; a HostFunc is none
  });
}

std::map<std::string, int64_t> CudaCalls::graph_launches() const {
  return where(calls, [](std::string_view name) {
    return name.starts_with("cudaGraphLaunch") || name.starts_with("cuGraphLaunch");
  });
}

std::map<std::string, int64_t> CudaCalls::host_waits() const {
  return where(calls, [](std::string_view name) {
    const bool waits = contains(name, "Synchronize");
    const bool copies = name.starts_with("cudaMemcpy") || name.starts_with("cuMemcpy");
    const bool frees = name.starts_with("cudaFree") || name.starts_with("cuMemFree");
    return waits || ((copies || frees) && !contains(name, "Async"));
  });
}

int64_t sum(const std::map<std::string, int64_t>& calls) {
  int64_t sum = 0;
  for (const auto& [name, count] : calls) sum += count;
  return sum;
}

}  // namespace harness
