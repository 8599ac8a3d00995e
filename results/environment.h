// The machine and the software a number was measured on: "environment" of records, studies, traces and counters. That
// of a peer says less.
#pragma once

#include "results/fields.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace results {

struct Environment {
  // No value: its source does not say. A value of none: there is none, such as a driver on a machine without a GPU.
  template <class T>
  using Maybe = std::optional<std::optional<T>>;

  struct Cpu {
    std::optional<std::string> model;
    std::optional<int64_t> online_cores;   // of the machine
    std::optional<int64_t> logical_cores;  // that the process may use
    std::optional<std::vector<std::string>> features;

    LADDER_FIELDS(Cpu, (model, absent), (online_cores, {.none = None::absent, .least = 1, .most = 1000000}),
                  (logical_cores, {.none = None::absent, .least = 1, .most = 1000000}), (features, absent))
  };
  struct Gpu {
    std::string name;
    std::optional<int64_t> compute_capability;  // 90 for 9.0
    std::optional<int64_t> memory_bytes;

    LADDER_FIELDS(Gpu, name, (compute_capability, absent), (memory_bytes, absent))
  };

  Cpu cpu;
  std::optional<Gpu> gpu;
  Maybe<std::string> no_gpu_reason;  // in words, where there is no usable CUDA device
  Maybe<std::string> driver, driver_cuda, cuda;
  Maybe<int64_t> cudnn;
  std::optional<std::string> torch, mkl, onednn, torch_cpu_capability;
  std::optional<std::string> compiler, compiler_flags;
  std::optional<std::string> git_commit;
  std::optional<bool> git_dirty;      // changes on top of it
  Maybe<std::string> program_sha256;  // none where the commit says what the program is
  std::optional<int64_t> threads;
  std::optional<std::map<std::string, std::string>> kernel_switches;
  Maybe<std::string> governor, transparent_huge_pages;
  std::optional<std::vector<double>> load_average;
  std::optional<std::string> kernel;  // of the operating system
  std::optional<std::string> python;  // of a peer

  LADDER_FIELDS(Environment, cpu, gpu, (no_gpu_reason, absent), (driver, absent), (driver_cuda, absent), (cuda, absent),
                (cudnn, absent), (torch, absent), (mkl, absent), (onednn, absent), (torch_cpu_capability, absent),
                (compiler, absent), (compiler_flags, absent), (git_commit, absent), (git_dirty, absent),
                (program_sha256, absent), (threads, {.none = None::absent, .least = 1}), (kernel_switches, absent),
                (governor, absent), (transparent_huge_pages, absent),
                (load_average, {.none = None::absent, .least = 0, .most = 1e9, .items = 1}), (kernel, absent),
                (python, absent))
};

// The environment of this process, now. The second: what a program without PyTorch's and CUDA's libraries knows of it.
Environment environment_here();
Environment environment_of_program();

LADDER_COMPILED_ONCE(Environment)

}  // namespace results
