// The machine and the software that a number was measured on, and what about them disturbs measurements. What PyTorch
// and CUDA tell (libraries.cpp) only a program knows that has their libraries.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harness {

struct Cpu {
  std::string model;
  int online_cores = 0;   // of the machine
  int logical_cores = 0;  // that this process may use: its affinity and its control groups (control_groups.h)
  std::vector<std::string> features;  // of those that matter, as /proc/cpuinfo calls them
  [[nodiscard]] bool has(const std::string& feature) const;
};

struct Gpu {
  std::string name;
  int compute_capability = 0;  // 90 for 9.0
  int64_t memory_bytes = 0;
};

struct Machine {
  Cpu cpu;
  std::optional<Gpu> gpu;
  std::string no_gpu_reason;  // in words, when there is no usable CUDA device
};

// Each looks once and remembers. this_machine() is libraries.cpp's: without a driver its CUDA part says so; it does not
// throw.
const Cpu& this_cpu();
const Machine& this_machine();

struct Software {
  std::string driver, driver_cuda, cuda;  // of NVIDIA; empty: none
  std::optional<int64_t> cudnn;           // none without a GPU
  std::string torch, mkl, onednn, torch_cpu_capability;
  std::string compiler, compiler_flags;
  std::string git_commit;                     // "unknown" where the program was built outside of git
  bool git_dirty = false;                     // changes on top of it
  std::optional<std::string> program_sha256;  // of the program that trains; none where its commit says what it is
  std::string kernel;                         // of the operating system
};

// Without what PyTorch and CUDA tell, and with it (libraries.cpp).
Software own_software();
Software software();

// The program that trains has the name of `ladder`, which has no PyTorch, with this at its end. It lies beside it.
inline constexpr std::string_view trainer_suffix = "-gpt2";
// Of a program's file.
std::filesystem::path trainer_of(const std::filesystem::path& program);

// What may change while a program runs.
struct Conditions {
  std::string governor, transparent_huge_pages;  // empty: the kernel does not say
  std::array<double, 3> load_average{};
};

Conditions conditions();

// Variables that this process was started with, by name, through which libraries choose kernels, bind threads or
// allocate memory: all that ATen, MKL, oneDNN, OpenMP, cuBLAS, cuDNN and the C library read, and the file names of
// preloaded libraries. Excepted are those for logging, and OMP_NUM_THREADS, because the number of threads is set by
// `threads`. Children inherit them.
std::map<std::string, std::string> kernel_switches();

// The commit this program was built from, "0123456789ab" or "unknown", and whether there were changes on top of it.
std::string program_version();

// Whether other programs use the processors now. The load average alone stays high for a minute after they have ended.
bool other_work_runs();

// One line for each thing that disturbs measurements now: load, frequency governor, memory short.
std::vector<std::string> disturbances();

// The three below are libraries.cpp's. The threads of this process's operations.
int operation_threads();
// Of the current CUDA device; throws std::runtime_error where CUDA does not tell.
std::string current_bus_id();
// The device's name for its lock (harness/process/locks.h): "cpu", or "gpu-0000:3b:00.0", the current CUDA device by
// its place on the bus, because the numbers of devices depend on CUDA_VISIBLE_DEVICES.
std::string lock_name(bool on_cuda);

}  // namespace harness
