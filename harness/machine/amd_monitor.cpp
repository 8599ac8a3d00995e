#include "harness/machine/amd_monitor.h"

#include "files/json_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

extern char** environ;

namespace harness {

namespace {

using files::Json;

constexpr size_t most_of_answer = 16 << 20;  // of an answer
constexpr const char* end_of_metric = "ladder: metric";
constexpr const char* end_of_answer = "ladder: process";
constexpr const char* ask_for_ever =
    "while :; do amd-smi metric --json; echo; echo 'ladder: metric'; "
    "amd-smi process --json; echo; echo 'ladder: process'; sleep 1; done 2>/dev/null";

bool has_amd_smi() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((std::filesystem::path(folder) / "amd-smi").c_str(), X_OK) == 0) return true;
  }
  return false;
}

Json parsed(const std::string& text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }

// What it says of one GPU: a list of these, which newer versions call "gpu_data".
Json of_gpu(const std::string& text, size_t gpu) {
  Json all = parsed(text);
  if (all.is_object()) all = all.value("gpu_data", Json());
  if (!all.is_array()) return Json();
  for (const Json& one : all) {
    if (one.is_object() && one.value("gpu", Json()) == gpu) return one;
  }
  return Json();
}

Json field(Json json, std::initializer_list<const char*> names) {
  for (const char* name : names) json = json.is_object() ? json.value(name, Json()) : Json();
  return json;
}

// {"value": 542, "unit": "W"}; "N/A" where the chip does not tell.
Reading reading(const Json& of, std::initializer_list<const char*> names) {
  const Json found = field(of, names), value = field(found, {"value"});
  if (value.is_number()) return {value.get<double>(), ""};
  return {{},
          fmt::format("amd-smi tells none: {}", found.is_string() ? found.get<std::string>().substr(0, 20) : "N/A")};
}

std::string output_of(const char* command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command, "re"), ::pclose);
  std::string text;
  std::array<char, 4096> block{};
  for (size_t got = 0;
       pipe && text.size() < most_of_answer && (got = std::fread(block.data(), 1, block.size(), pipe.get())) > 0;)
    text.append(block.data(), got);
  return text;
}

VisibleGpus asked() {
  VisibleGpus found;
  if (!has_amd_smi()) return found;
  const std::string text = output_of("amd-smi static --asic --bus --vram --driver --json 2>/dev/null");
  for (size_t gpu = 0;; ++gpu) {
    const Json one = of_gpu(text, gpu);
    if (!one.is_object()) return found;
    const auto word = [&](std::initializer_list<const char*> names) {
      const Json value = field(one, names);
      return value.is_string() ? value.get<std::string>() : std::string();
    };
    const std::string name = word({"asic", "market_name"});
    found.driver = word({"driver", "version"});
    found.gpus.push_back({.name = name.empty() ? "AMD GPU" : name,
                          .bus_id = word({"bus", "bdf"}),
                          .memory_bytes = static_cast<int64_t>(
                              std::clamp(reading(one, {"vram", "size"}).value.value_or(0), 0.0, 1e9) * (1 << 20))});
  }
}

}  // namespace

const VisibleGpus& amd_gpus() {
  static const VisibleGpus found = asked();
  return found;
}

GpuSample amd_sample(const std::string& metric, size_t gpu) {
  const Json one = of_gpu(metric, gpu);
  const Reading hotspot = reading(one, {"temperature", "hotspot"});
  return {{"sm_clock_mhz", reading(one, {"clock", "gfx_0", "clk"})},
          {"memory_clock_mhz", reading(one, {"clock", "mem_0", "clk"})},
          {"power_w", reading(one, {"power", "socket_power"})},
          {"temperature_c", hotspot.value ? hotspot : reading(one, {"temperature", "edge"})},
          {"utilization_percent", reading(one, {"usage", "gfx_activity"})},
          {"clocks_event_reasons", {{}, "amd-smi tells no reasons"}}};
}

std::vector<pid_t> amd_processes(const std::string& process, size_t gpu) {
  std::vector<pid_t> pids;
  const Json list = field(of_gpu(process, gpu), {"process_list"});
  if (!list.is_array()) return pids;
  for (const Json& one : list) {
    const Json pid = field(one, {"process_info", "pid"});
    if (pid.is_number_unsigned() && pid.get<uint64_t>() < (1U << 31)) pids.push_back(pid.get<pid_t>());
  }
  return pids;
}

AmdMonitor::AmdMonitor() {
  if (amd_gpus().gpus.empty()) return;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::string shell = "/bin/sh", flag = "-c", script = ask_for_ever;
  std::array<char*, 4> words{shell.data(), flag.data(), script.data(), nullptr};
  const int error = ::posix_spawn(&asker_, "/bin/sh", &actions, &attributes, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  ::close(ends[1]);
  if (error != 0) asker_ = 0;
  reader_ = std::jthread([this, from = ends[0]] { read(from); });
}

AmdMonitor::~AmdMonitor() {
  if (asker_ == 0) return;
  ::kill(-asker_, SIGKILL);
  ::waitpid(asker_, nullptr, 0);
}

// Until what asks is gone.
void AmdMonitor::read(int from) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::fdopen(from, "r"), std::fclose);
  Answer answer;
  std::string text;
  std::array<char, 4096> block{};
  while (pipe && std::fgets(block.data(), block.size(), pipe.get()) != nullptr) {
    const std::string_view line(block.data());
    if (line.starts_with(end_of_metric)) {
      answer.metric = std::exchange(text, "");
    } else if (line.starts_with(end_of_answer)) {
      answer.process = std::exchange(text, "");
      answer.when = Clock::now();
      const std::lock_guard lock(mutex_);
      answers_.push_back(std::exchange(answer, {}));
      if (answers_.size() > 1000) answers_.erase(answers_.begin(), answers_.begin() + 500);
      answered_.notify_all();
    } else if (text.size() < most_of_answer) {
      text += line;
    }
  }
}

void AmdMonitor::look(std::vector<pid_t> measured) {
  const std::lock_guard lock(mutex_);
  measured_ = std::move(measured);
}

void AmdMonitor::begin(std::vector<pid_t> measured) {
  const std::lock_guard lock(mutex_);
  measured_ = std::move(measured);
  begun_ = ended_ = Clock::now();
}

void AmdMonitor::end() {
  constexpr std::chrono::seconds patience{6};
  std::unique_lock lock(mutex_);
  if (asker_ != 0) {
    answered_.wait_for(lock, patience, [this] { return !answers_.empty() && answers_.back().when > begun_; });
  }
  ended_ = Clock::now();
}

std::vector<std::pair<size_t, GpuWatch>> AmdMonitor::used() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<size_t, GpuWatch>> found;
  const std::set<pid_t> measured(measured_.begin(), measured_.end());
  const auto is_measured = [&](pid_t pid) { return measured.contains(pid); };
  for (size_t gpu = 0; gpu < amd_gpus().gpus.size(); ++gpu) {
    GpuWatch watch{.seconds = std::chrono::duration<double>(ended_ - begun_).count()};
    watch.energy_j.note = "amd-smi is asked for none";
    double others = 0;
    bool is_used = false;
    for (const Answer& answer : answers_) {
      const std::vector<pid_t> pids = amd_processes(answer.process, gpu);
      const auto own = std::ranges::count_if(pids, is_measured);
      is_used = is_used || own > 0;
      if (answer.when < begun_ || answer.when > ended_) continue;
      others = std::max(others, static_cast<double>(std::ssize(pids) - own));
      watch.samples.push_back(amd_sample(answer.metric, gpu));
    }
    watch.other_processes.value = others;
    if (watch.samples.empty()) watch.unavailable = "amd-smi did not answer while its steps were timed";
    if (is_used) found.emplace_back(gpu, std::move(watch));
  }
  return found;
}

}  // namespace harness
