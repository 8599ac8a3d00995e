// The machine and the software that a number was measured on, and what about them disturbs measurements. What PyTorch
// and CUDA tell is in libraries.cpp. Only a program with their libraries has it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
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

// What /proc/cpuinfo says of a processor of that architecture ("aarch64"), without the numbers of cores.
Cpu described_cpu(std::istream& cpuinfo, const std::string& architecture);

// Each looks once and remembers. this_machine() is in libraries.cpp. It does not throw: without a driver its
// no_gpu_reason says so.
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

// own_software() leaves out what PyTorch and CUDA tell. software() has it, too (libraries.cpp).
Software own_software();
Software software();

// `ladder` has no PyTorch. Beside it lies the program that trains, whose name has this at its end.
inline constexpr std::string_view trainer_suffix = "-gpt2";
// The file of the program that trains, from the file of `ladder`.
std::filesystem::path trainer_of(const std::filesystem::path& program);
// Whether this program trains, or one that does lies beside it.
bool can_train();

// What may change while a program runs.
struct Conditions {
  std::string governor, transparent_huge_pages;  // empty: the kernel does not say
  std::array<double, 3> load_average{};
};

Conditions conditions();

// Environment variables that this process was started with, by name, through which libraries choose kernels, bind
// threads or allocate memory. They are all that ATen, MKL, oneDNN, OpenMP, cuBLAS, cuDNN and the C library read. Of
// preloaded libraries it gives the file names. It leaves out variables for logging. It also leaves out OMP_NUM_THREADS,
// because `threads` sets the number of threads. with_threads: with all that set one, for programs of others. Children
// inherit all of them.
std::map<std::string, std::string> kernel_switches(bool with_threads = false);

// The commit this program was built from, "0123456789ab" or "unknown", and whether there were changes on top of it.
std::string program_version();

// Whether measuring goes on beside other work: LADDER_BUSY is set.
bool may_be_busy();

// Whether other programs use the processors now. The load average alone stays high for a minute after they have ended.
bool other_work_runs();

// One line for each thing that disturbs measurements now: load, frequency governor, memory short.
std::vector<std::string> disturbances();

// The next three are in libraries.cpp. How many threads this process's operations use.
int operation_threads();
// The current CUDA device's. Throws std::runtime_error where CUDA does not tell.
std::string current_bus_id();
// The device's name for its lock (harness/process/locks.h): "cpu", or "gpu-0000:3b:00.0" for the current CUDA device. A
// GPU is named by its place on the bus, because device numbers depend on CUDA_VISIBLE_DEVICES.
std::string lock_name(bool on_cuda);

}  // namespace harness
