#include "ablations/run/run_setting.h"

#include "files/sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>
#include <utility>

namespace ablations {

using files::Json;

namespace {

// "none", or "MKL_CBWR=COMPATIBLE, OMP_PROC_BIND=close"; none where they are not known.
std::optional<std::string> switches_text(const Environment& environment) {
  if (!environment.kernel_switches) return std::nullopt;
  std::string text;
  for (const auto& [name, value] : *environment.kernel_switches) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  }
  return text.empty() ? "none" : text;
}

std::optional<std::string> dtype_of(const Json& recipe) {
  const Json autocast = files::field_or_null(recipe, "autocast");
  if (!autocast.is_string()) return std::nullopt;
  return autocast == "off" ? "float32" : autocast.get<std::string>();
}

std::optional<std::string> git_dirty_text(const Environment& environment) {
  if (!environment.git_dirty) return std::nullopt;
  return *environment.git_dirty ? "true" : "false";
}

}  // namespace

Setting setting_of(const Environment& environment, const Workload& workload, const Json& recipe) {
  Setting setting = machine_setting(environment, device_of(recipe) == DeviceKind::cuda);
  setting.model = workload.model;
  setting.batch = workload.B;
  setting.context = workload.T;
  setting.accumulation = workload.accumulation;
  setting.positions = workload.positions;
  setting.dtype = dtype_of(recipe);
  if (workload.random_windows) setting.windows = "random";
  return setting;
}

Setting setting_of(const Record& record) {
  if (record.command) return machine_setting(record.environment, record.is_on_gpu());
  Setting setting = setting_of(record.environment, record.workload, record.recipe);
  if (record.data && record.data->cold) setting.page_cache = "cold";
  return setting;
}

Setting machine_setting(const Environment& environment, bool cuda) {
  Setting setting;
  setting.torch = environment.torch;
  if (cuda) {
    if (environment.gpu) setting.device = environment.gpu->name;
    setting.driver = environment.driver.value_or(std::nullopt);
    setting.driver_cuda = environment.driver_cuda.value_or(std::nullopt);
    setting.cuda = environment.cuda.value_or(std::nullopt);
  } else {
    setting.device = environment.cpu.model;
    setting.threads = environment.threads;
    setting.cores = environment.cpu.logical_cores;
    setting.cpu_capability = environment.torch_cpu_capability;
  }
  setting.kernel_switches = switches_text(environment);
  return setting;
}

Facts program_facts(const Environment& environment, bool cuda) {
  Facts facts{{"git_commit", environment.git_commit},
              {"program_sha256", environment.program_sha256.value_or(std::nullopt)},
              {"torch", environment.torch},
              {"compiler", environment.compiler},
              {"compiler_flags", environment.compiler_flags},
              {"mkl", environment.mkl},
              {"onednn", environment.onednn}};
  if (cuda) {
    const std::optional<int64_t> cudnn = environment.cudnn.value_or(std::nullopt);
    facts["cuda"] = environment.cuda.value_or(std::nullopt);
    facts["cudnn"] = cudnn ? std::optional(std::to_string(*cudnn)) : std::nullopt;
  }
  return facts;
}

bool are_of_one_program(const Environment& environment, const Environment& other) {
  if (!environment.git_commit || environment.git_commit != other.git_commit) return false;
  const bool is_committed =
      environment.git_dirty == false && other.git_dirty == false && *environment.git_commit != "unknown";
  const std::optional<std::string> sha256 = environment.program_sha256.value_or(std::nullopt);
  return is_committed || (sha256 && sha256 == other.program_sha256.value_or(std::nullopt));
}

Facts study_facts(const Environment& environment, const Workload& workload, bool cuda) {
  Facts facts = machine_setting(environment, cuda).facts();
  for (const auto& [name, fact] : program_facts(environment, cuda)) facts[name] = fact;
  facts["git_dirty"] = git_dirty_text(environment);
  facts["text"] = workload.data.sha256;
  return facts;
}

Facts study_facts(const Record& record, bool cuda) { return study_facts(record.environment, record.workload, cuda); }

std::string recipe_hash(const Json& recipe, const Workload& workload) {
  // Only what is not the default, so that a new field of recipes leaves old hashes as they are.
  const Json edits = recipe_diff(plain_recipe(), recipe);
  Json size{{"model", workload.model},
            {"batch", workload.B},
            {"context", workload.T},
            {"accumulation", workload.accumulation}};
  if (workload.ranks) size["ranks"] = *workload.ranks;
  if (workload.random_windows) size["random_windows"] = true;
  return files::sha256_hex(Json{{"recipe", edits}, {"size", size}}.dump()).substr(0, 12);
}

std::string command_hash(const std::string& text, const std::string& unit) {
  const std::string what = unit == "run" ? "whole run of command " : "command ";
  return files::sha256_hex(what + text).substr(0, 12);
}

namespace fs = std::filesystem;

// "Flash-Attn" is installed in flash_attn.
static std::string as_folder(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return c == '-' ? '_' : std::tolower(c); });
  return name;
}

std::map<std::string, std::string> versions_of(const std::set<fs::path>& code) {
  std::map<std::string, std::string> versions;
  std::map<fs::path, std::set<std::string>> packages;  // by the folder that they are installed in
  for (const fs::path& file : code) {
    const std::string name = file.filename().string(), path = file.string();
    const size_t python = name.find("python3.");
    if (python == 0 || (python == 3 && name.starts_with("lib"))) {
      const size_t digits = name.find_first_not_of("0123456789", python + 8);
      versions["python"] = name.substr(python + 6, digits == std::string::npos ? digits : digits - python - 6);
    }
    for (const std::string folder : {"/site-packages/", "/dist-packages/"}) {
      const size_t at = path.find(folder), begin = at + folder.size();
      if (at == std::string::npos) continue;
      packages[path.substr(0, begin)].insert(as_folder(path.substr(begin, path.find('/', begin) - begin)));
    }
  }
  for (const auto& [folder, names] : packages) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {  // torch-2.11.0.dist-info
      const std::string stem = entry.path().stem().string();
      const size_t dash = stem.rfind('-');
      if (entry.path().extension() != ".dist-info" || dash == std::string::npos || versions.size() >= 50) continue;
      const std::string name = as_folder(stem.substr(0, dash));
      if (names.contains(name)) versions[name] = stem.substr(dash + 1);
    }
  }
  return versions;
}

}  // namespace ablations
