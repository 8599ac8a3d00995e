#include "ablations/run/used_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>
#include <utility>

namespace ablations {

const harness::VisibleGpus& visible_gpus() {
  static const harness::VisibleGpus nvidia = harness::visible_gpus();
  return nvidia.gpus.empty() ? harness::amd_gpus() : nvidia;
}

UsedGpus::UsedGpus() {
  for (const harness::VisibleGpu& gpu : harness::visible_gpus().gpus) {
    auto& one = gpus_.emplace_back(gpu, std::make_unique<harness::NvmlDevice>(gpu.bus_id));
    one.before = static_cast<int64_t>(one.device->other_processes({}).value.value_or(0));
  }
}

void UsedGpus::look(const std::vector<pid_t>& processes) {
  int64_t bytes = 0;
  for (One& one : gpus_) {
    const harness::Reading held = one.device->bytes_of(processes);
    // In a container the driver's process ids may be others: then a new process is taken for the measured one.
    one.is_used |= held.value.has_value() || one.device->other_processes({}).value.value_or(0) > one.before;
    bytes += static_cast<int64_t>(held.value.value_or(0));
  }
  peak_bytes_ = std::max(peak_bytes_, bytes);
  amd_->look(processes);
}

bool UsedGpus::answer_late() { return !harness::amd_gpus().gpus.empty(); }

void UsedGpus::begin(const std::vector<pid_t>& processes) {
  for (One& one : gpus_) {
    if (!one.is_used) continue;
    one.monitor = std::make_unique<harness::Monitor>(one.gpu.bus_id);
    one.monitor->begin(processes);
  }
  amd_->begin(processes);
}

void UsedGpus::end() {
  for (One& one : gpus_) {
    if (one.monitor) one.watch = one.monitor->end();
  }
  amd_->end();
}

void UsedGpus::wait_until_free() const {
  const auto is_free = [](const One& one) {
    return !one.is_used || one.device->other_processes({}).value.value_or(0) <= static_cast<double>(one.before);
  };
  for (int i = 0; i < 100 && !std::ranges::all_of(gpus_, is_free); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

std::vector<std::string> UsedGpus::names() const {
  std::vector<std::string> names;
  for (const One& one : gpus_) {
    if (one.is_used) names.push_back(one.gpu.name);
  }
  for (const auto& [gpu, watch] : amd_->used()) names.push_back(harness::amd_gpus().gpus[gpu].name);
  return names;
}

void UsedGpus::complete(Record& record, int64_t tokens) const {
  for (const One& one : gpus_) {
    if (!one.is_used) continue;
    if (!record.monitor) record.monitor = results::summary_of(one.watch, tokens);
    for (const std::string& flag : harness::flags(one.watch)) record.flags->push_back(flag);
  }
  for (const auto& [gpu, watch] : amd_->used()) {
    if (!record.monitor) record.monitor = results::summary_of(watch, tokens);
    for (const std::string& flag : harness::flags(watch)) record.flags->push_back(flag);
  }
}

int64_t nodes_of(const std::vector<pid_t>& processes) {
  constexpr std::pair<const char*, const char*> sizes[] = {{"WORLD_SIZE", "LOCAL_WORLD_SIZE"},
                                                           {"WORLD_SIZE", "LOCAL_SIZE"},
                                                           {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}};
  int64_t nodes = 1;
  for (const pid_t pid : processes) {
    std::map<std::string, int64_t> numbers;  // among its variables
    std::ifstream variables(fmt::format("/proc/{}/environ", pid)), name(fmt::format("/proc/{}/comm", pid));
    for (std::string variable; std::getline(variables, variable, '\0');) {
      const size_t equals = std::min(variable.find('='), variable.size());
      numbers[variable.substr(0, equals)] =
          std::strtoll(variable.c_str() + std::min(equals + 1, variable.size()), nullptr, 10);
    }
    for (const auto& [all, local] : sizes) {
      if (numbers[local] > 0) nodes = std::max(nodes, numbers[all] / numbers[local]);
    }
    std::string program;
    if (std::getline(name, program) && program == "srun") nodes = std::max(nodes, numbers["SLURM_NNODES"]);
  }
  return nodes;
}

}  // namespace ablations
