#include "harness/machine/machine.h"

#include "files/files.h"
#include "files/printable.h"
#include "files/sha256.h"
#include "harness/machine/control_groups.h"
#include "harness/machine/processor_time.h"
#include "version.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace harness {

namespace fs = std::filesystem;

namespace {

constexpr const char* governor_file = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";

std::string first_line(const char* file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

Cpu look_at_cpu() {
  std::ifstream stream("/proc/cpuinfo");
  utsname system{};
  uname(&system);
  Cpu cpu = described_cpu(stream, system.machine);
  cpu_set_t allowed;
  cpu.online_cores = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  cpu.logical_cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : cpu.online_cores;
  // Rounded down: with one thread too many, all of them would be stopped in turn.
  if (const auto limit = cpu_limit()) cpu.logical_cores = std::clamp(static_cast<int>(*limit), 1, cpu.logical_cores);
  return cpu;
}

std::array<double, 3> load_average() {
  std::array<double, 3> load{};
  if (getloadavg(load.data(), 3) != 3) load = {};
  return load;
}

}  // namespace

Cpu described_cpu(std::istream& cpuinfo, const std::string& architecture) {
  Cpu cpu;
  std::string numbers;
  for (std::string line; std::getline(cpuinfo, line) && !line.empty();) {  // those of the first core
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) cpu.model = value;
    if (line.starts_with("CPU implementer") || line.starts_with("CPU part")) numbers += " " + value;
    if (!line.starts_with("flags")) continue;
    std::istringstream flags(value);
    for (std::string flag; flags >> flag;) {
      for (const char* relevant : {"avx2", "avx_ne_convert", "avx512f", "avx512_bf16", "amx_bf16", "amx_fp16"}) {
        if (flag == relevant) cpu.features.push_back(flag);
      }
    }
  }
  if (cpu.model.empty()) cpu.model = architecture + " processor" + numbers;  // ARM's have numbers, and no names
  return cpu;
}

bool Cpu::has(const std::string& feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

const Cpu& this_cpu() {
  static const Cpu cpu = look_at_cpu();
  return cpu;
}

namespace {

constexpr bool has_changes = LADDER_GIT_DIRTY != 0;

// The file of the program that trains: the one beside this, or this.
fs::path trains() {
  std::error_code unknown;
  const fs::path beside = trainer_of(fs::read_symlink("/proc/self/exe", unknown));
  return fs::exists(beside, unknown) ? beside : fs::path("/proc/self/exe");
}

const std::optional<std::string>& program_sha256() {
  static const auto sha256 = has_changes || std::string_view(LADDER_GIT_COMMIT) == "unknown"
                                 ? std::optional(files::sha256_of_file(trains()))
                                 : std::nullopt;
  return sha256;
}

}  // namespace

Software own_software() {
  utsname system{};
  uname(&system);
  return {.driver = first_line("/sys/module/nvidia/version"),
          .compiler = __VERSION__,
          .compiler_flags = LADDER_COMPILER_FLAGS,
          .git_commit = LADDER_GIT_COMMIT,
          .git_dirty = has_changes,
          .program_sha256 = program_sha256(),
          .kernel = fmt::format("{} {}", system.sysname, system.release)};
}

Conditions conditions() {
  return {.governor = first_line(governor_file),
          .transparent_huge_pages = first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
          .load_average = load_average()};
}

namespace {

// "libjemalloc.so.2" of a list of paths: the folders differ between machines.
std::string file_names(std::string paths) {
  std::ranges::replace(paths, ':', ' ');
  std::istringstream stream(paths);
  std::string names;
  for (std::string path; stream >> path;) names += (names.empty() ? "" : " ") + path.substr(path.rfind('/') + 1);
  return names;
}

}  // namespace

std::map<std::string, std::string> kernel_switches(bool with_threads) {
  // By the beginnings of their names, because each release of these libraries adds new ones.
  constexpr std::string_view families[] = {"ATEN_",
                                           "MKL_",
                                           "MKLDNN_",
                                           "ONEDNN_",
                                           "DNNL_",
                                           "OMP_",
                                           "GOMP_",
                                           "KMP_",
                                           "CUBLAS_",
                                           "CUBLASLT_",
                                           "CUDNN_",
                                           "NVIDIA_TF32_OVERRIDE",
                                           "TORCH_ALLOW_TF32_",
                                           "TORCH_BLAS_PREFER_",
                                           "TORCH_CUDNN_",
                                           "DISABLE_ADDMM_CUDA_LT",
                                           "CUDA_LAUNCH_BLOCKING",
                                           "CUDA_DEVICE_MAX_CONNECTIONS",
                                           "PYTORCH_CUDA_ALLOC_CONF",
                                           "PYTORCH_ALLOC_CONF",
                                           "PYTORCH_NO_CUDA_MEMORY_CACHING",
                                           "LD_PRELOAD",
                                           "GLIBC_TUNABLES",
                                           "MALLOC_",
                                           "TCMALLOC_",
                                           "MIMALLOC_",
                                           "THP_MEM_ALLOC_ENABLE"};
  std::map<std::string, std::string> switches;
  // As this process was started: this program and PyTorch set some of them later.
  std::ifstream started_with("/proc/self/environ", std::ios::binary);
  for (std::string entry; std::getline(started_with, entry, '\0');) {
    const size_t end = std::min(entry.find('='), entry.size());
    const std::string name = entry.substr(0, end);
    const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
    const bool of_family =
        std::ranges::any_of(families, [&](std::string_view family) { return name.starts_with(family); });
    const bool counts = (of_family && name != "OMP_NUM_THREADS") || (with_threads && has("THREADS"));
    if (!counts || has("_VERBOSE") || has("_LOG") || has("_DISPLAY_")) continue;
    const std::string value = entry.substr(std::min(end + 1, entry.size()));
    if (value.empty()) continue;
    switches[files::printable(name)] = files::printable(name == "LD_PRELOAD" ? file_names(value) : value);
  }
  return switches;
}

fs::path trainer_of(const fs::path& program) { return program.string() += trainer_suffix; }

bool can_train() {
  std::error_code unknown;
  return fs::canonical(trains(), unknown).string().ends_with(trainer_suffix);
}

std::string program_version() {
  return fmt::format("{:.12}{}", LADDER_GIT_COMMIT, has_changes ? " with uncommitted changes" : "");
}

bool may_be_busy() {
  const char* const set = std::getenv("LADDER_BUSY");
  return set != nullptr && *set != '\0';
}

bool other_work_runs() { return load_average()[0] > 0.25 * this_cpu().online_cores && share_in_use(0.2) > 0.1; }

std::vector<std::string> disturbances() {
  std::vector<std::string> lines;
  if (other_work_runs()) {
    const int cores = this_cpu().online_cores;
    const std::string who = busiest_other(0.2);
    lines.push_back(fmt::format("load average {:.2f} on {} core{}: {}; stop it, or wait a minute", load_average()[0],
                                cores, cores == 1 ? "" : "s", who.empty() ? "other work is running" : who));
  }
  if (const auto quota = cpu_limit(); quota && *quota < this_cpu().online_cores) {
    lines.push_back(
        fmt::format("a CPU quota of {:g} processors (docker run --cpus, a pod's limit) stops more threads than "
                    "that in the middle of a step",
                    *quota));
  }
  const std::string governor = first_line(governor_file);
  if (!governor.empty() && governor != "performance") {
    lines.push_back(
        fmt::format("frequency governor \"{}\": clocks follow the load; \"performance\" is steadier "
                    "(cpupower frequency-set -g performance)",
                    governor));
  }
  if (const auto available = available_memory(); available && *available < int64_t{6} << 30) {
    lines.push_back(
        fmt::format("{:.1f} GiB of memory available: end other programs, or measure a smaller model or batch",
                    static_cast<double>(*available) / static_cast<double>(int64_t{1} << 30)));
  }
  return lines;
}
}  // namespace harness
