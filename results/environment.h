// The machine and the software a number was measured on: "environment" of records, studies, traces and counters. Older
// records, and those of PyTorch, say less than today's.
#pragma once

#include "results/fields.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

struct Environment {
  // No value: its source does not say. A value of none: there is none, such as a driver on a machine without a GPU.
  template <class T>
  using Maybe = std::optional<std::optional<T>>;

  struct Cpu {
    std::optional<std::string> model;
    std::optional<int64_t> online_cores;   // of the machine
    std::optional<int64_t> logical_cores;  // that the process may use
    std::optional<std::vector<std::string>> features;

    static void fields(auto&& field) {
      field("model", &Cpu::model, None::absent);
      field("online_cores", &Cpu::online_cores, None::absent);
      field("logical_cores", &Cpu::logical_cores, None::absent);
      field("features", &Cpu::features, None::absent);
    }
  };
  struct Gpu {
    std::string name;
    std::optional<int64_t> compute_capability;  // 90 for 9.0
    std::optional<int64_t> memory_bytes;

    static void fields(auto&& field) {
      field("name", &Gpu::name);
      field("compute_capability", &Gpu::compute_capability, None::absent);
      field("memory_bytes", &Gpu::memory_bytes, None::absent);
    }
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
  files::Json others = files::Json::object();

  static void fields(auto&& field) {
    field("cpu", &Environment::cpu, None::defaulted);
    field("gpu", &Environment::gpu);
    field("no_gpu_reason", &Environment::no_gpu_reason, None::absent);
    field("driver", &Environment::driver, None::absent);
    field("driver_cuda", &Environment::driver_cuda, None::absent);
    field("cuda", &Environment::cuda, None::absent);
    field("cudnn", &Environment::cudnn, None::absent);
    field("torch", &Environment::torch, None::absent);
    field("mkl", &Environment::mkl, None::absent);
    field("onednn", &Environment::onednn, None::absent);
    field("torch_cpu_capability", &Environment::torch_cpu_capability, None::absent);
    field("compiler", &Environment::compiler, None::absent);
    field("compiler_flags", &Environment::compiler_flags, None::absent);
    field("git_commit", &Environment::git_commit, None::absent);
    field("git_dirty", &Environment::git_dirty, None::absent);
    field("program_sha256", &Environment::program_sha256, None::absent);
    field("threads", &Environment::threads, None::absent);
    field("kernel_switches", &Environment::kernel_switches, None::absent);
    field("governor", &Environment::governor, None::absent);
    field("transparent_huge_pages", &Environment::transparent_huge_pages, None::absent);
    field("load_average", &Environment::load_average, None::absent);
    field("kernel", &Environment::kernel, None::absent);
  }
};

// Of this process, now: all of it, and what a program without PyTorch's and CUDA's libraries knows.
Environment environment_here();
Environment environment_of_program();

// Compiled once, in the source beside this.
extern template files::Json json_of(const Environment&);
extern template Environment value_from(const files::Json&, const std::string&);

}  // namespace ablations
