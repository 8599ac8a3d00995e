#include "plots/seen.h"

#include "ablations/techniques/techniques.h"
#include "files/printable.h"
#include "files/resources.h"
#include "plots/sentences.h"
#include "study/attribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace plots {

namespace fs = std::filesystem;
using files::Json;
using model::Device;

namespace {

using Bytes = Seen::Pair<double>;

// The best that the CPU has for products: "AVX2".
std::string instructions(const std::vector<std::string>& features) {
  for (const auto& [feature, name] : {std::pair("amx_bf16", "AMX"), std::pair("avx512_bf16", "AVX512_BF16"),
                                      std::pair("avx512f", "AVX-512"), std::pair("avx2", "AVX2")}) {
    if (std::ranges::find(features, feature) != features.end()) return name;
  }
  return "";
}

std::string device_of(const Study& study) {
  const std::string best = study.device.kind == Device::cpu
                               ? instructions(study.environment.cpu.features.value_or(std::vector<std::string>{}))
                               : "";
  return files::printable(study.device.name) + (best.empty() ? "" : ", " + best);
}

// "bf16, B=1 T=128"
std::string shape_of(const Study& study, const StudyRung& rung) {
  const std::string autocast = rung.recipe.value("autocast", "off");
  const std::string matmul = rung.recipe.value("matmul_precision", "highest");
  const std::string type = autocast != "off"     ? autocast
                           : matmul == "highest" ? "float32"
                           : matmul == "high"    ? "TF32"
                                                 : "float32 by oneDNN";
  const Workload& all = study.workload;
  const auto [B, T] = rung.workload ? std::pair(rung.workload->B, rung.workload->T) : std::pair(all.B, all.T);
  const std::string model = all.model == "gpt2-124m" ? "" : files::printable(all.model) + ", ";
  return fmt::format("{}{}, B={} T={}", model, files::printable(type), B, T);
}

std::optional<Bytes> pair_of(std::optional<double> below, std::optional<double> own) {
  return below && own ? std::optional(Bytes{.below = *below, .own = *own}) : std::nullopt;
}

std::optional<double> activations_of(const StudyRung& rung) {
  const RunMemory memory = rung.memory.value_or(RunMemory{});
  if (!memory.activations_bytes) return std::nullopt;
  return static_cast<double>(*memory.activations_bytes + memory.weight_copies_bytes.value_or(0));
}

std::optional<double> median_ms(const StudyRung& rung) {
  return rung.ms_per_step ? std::optional(rung.ms_per_step->median) : std::nullopt;
}

Seen seen_of(const Study& study, const StudyRung& rung) {
  return {.device = device_of(study), .shape = shape_of(study, rung), .kind = study.device.kind, .ms = median_ms(rung)};
}

void set_ratio(const Ratio& ratio, Seen& seen) {
  seen.ratio = ratio.ratio;
  seen.lo = ratio.lo;
  seen.hi = ratio.hi;
}

Seen seen_between(const Study& study, const StudyRung& below, const StudyRung& rung) {
  Seen seen = seen_of(study, rung);
  const Optimization* const own = find_optimization(rung.optimization.value_or(""));
  if (own != nullptr && study.device.kind == Device::cuda && study.created < own->rewritten)
    seen.shape += ", an older program";
  set_ratio(*rung.speedup_against, seen);
  seen.below_ms = median_ms(below);
  seen.activations = pair_of(activations_of(below), activations_of(rung));
  seen.peak = pair_of(below.peak_memory_bytes, rung.peak_memory_bytes);
  if (below.batches && rung.batches) seen.batch = {below.batches->ms.median, rung.batches->ms.median};
  return seen;
}

std::vector<Seen> seen_in_ladder(const Study& study, const std::string& optimization) {
  const StudyRung* below = nullptr;
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer || !rung.is_measured()) continue;
    if (rung.optimization == optimization) {
      if (below == nullptr) return {seen_of(study, rung)};
      if (rung.speedup_against) return {seen_between(study, *below, rung)};
    }
    below = &rung;
  }
  return {};
}

std::vector<Seen> seen_in_sweep(const Study& study, const std::string& optimization) {
  std::vector<Seen> found;
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer || rung.optimization != optimization || !rung.is_measured() || !rung.against) continue;
    if (rung.speedup_against) found.push_back(seen_between(study, study.rungs.at(*rung.against), rung));
  }
  return found;
}

std::string order_words(Method method) {
  switch (method) {
    case Method::shapley:
      return "averaged over all orders";
    case Method::leave_one_out:
      return "on top of all others";
    case Method::one_at_a_time:
      return "alone";
    case Method::cumulative:
      break;
  }
  return "on top of those before it";
}

std::vector<Seen> seen_by_worth(const Study& study, const std::string& optimization) {
  const std::optional<Method> method = method_of(study.mode);
  std::vector<Seen> found;
  for (const Worth& worth : study.attribution) {
    if (worth.method != method || worth.optimization != optimization || !worth.ratio) continue;
    found.push_back(seen_of(study, study.rungs.front()));
    found.back().shape += ", " + order_words(worth.method);
    found.back().ms = std::nullopt;
    set_ratio({{worth.lo, worth.hi}, *worth.ratio, worth.repeats}, found.back());
  }
  return found;
}

// ---- From PyTorch beside them

struct PeerRuns {
  Times ms;
  std::optional<int64_t> kernels;  // that a step launches
  double compile_s = 0;            // the longest of all
};

PeerRuns runs_of(const RecordedStudy& recorded, const StudyRung& peer) {
  PeerRuns runs;
  for (const StudyRun& run : recorded.study.runs) {
    if (run.rung != peer.index || run.status != RunStatus::ok || !run.median_ms) continue;
    runs.ms[run.repeat] = *run.median_ms;
    if (!run.record || recorded.folder.empty()) continue;
    const auto record = read_document<Record>(recorded.folder / *run.record);
    runs.compile_s = std::max(runs.compile_s, record.compile_seconds().value_or(0));
    int64_t launches = 0;
    const Json profile = record.observations.value("profile", Json::object());
    for (const char* call : {"cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx"}) {
      launches += profile.value(call, int64_t{0});
    }
    if (launches > 0) runs.kernels = launches;
  }
  return runs;
}

// ---- From micro benchmarks

double in_milliseconds(const Json& benchmark) {
  static const std::map<std::string, double> units{{"ns", 1e-6}, {"us", 1e-3}, {"ms", 1}, {"s", 1e3}};
  return benchmark.value("real_time", 0.0) * units.at(benchmark.value("time_unit", "ns"));
}

// The times of `name`, forward and backward added up, by what follows the name: "float32/cpu/manual_time".
std::map<std::string, double> times_by_setting(const Json& micro, const std::string& name) {
  std::map<std::string, double> times;
  for (const Json& benchmark : micro.at("benchmarks")) {
    std::string rest = benchmark.value("name", "");
    if (!rest.starts_with(name + "/") || benchmark.contains("aggregate_name")) continue;
    rest = rest.substr(name.size() + 1);
    for (const std::string phase : {"forward/", "backward/"}) {
      if (rest.starts_with(phase)) rest = rest.substr(phase.size());
    }
    if (const double ms = in_milliseconds(benchmark); ms > 0) times[rest] += ms;  // 0: it was not measured
  }
  return times;
}

}  // namespace

std::vector<Seen> seen_in(const Study& study, const std::string& optimization) {
  if (of_commands(study)) return {};  // a piece may be called as an optimization is
  if (study.mode == Mode::cumulative) return seen_in_ladder(study, optimization);
  return study.mode == Mode::sweep ? seen_in_sweep(study, optimization) : seen_by_worth(study, optimization);
}

std::vector<Seen> seen_alone(const Json& micro, const Optimization& optimization) {
  const Json& context = micro.at("context");
  const std::string processor = context.value("cpu", "");
  const Json cpu = Json::parse(processor, nullptr, /*allow_exceptions=*/false);
  if (optimization.micro.empty() || !cpu.is_object()) return {};
  const std::map<std::string, double> below = times_by_setting(micro, optimization.micro_below);
  std::vector<Seen> found;
  for (const auto& [setting, ms] : times_by_setting(micro, optimization.micro)) {
    const bool on_cpu = setting.find("/cpu/") != std::string::npos;
    const std::string what = setting.substr(0, setting.find('/'));  // a number type, or a batch's size
    const auto before = below.find(setting);
    // Without instructions for it bf16 is emulated.
    const bool emulated = on_cpu && what == "bf16" && processor.find("bf16") == std::string::npos;
    if (before == below.end() || emulated) continue;
    const std::string best = instructions(cpu.value("features", std::vector<std::string>{}));
    Seen seen{
        .device = on_cpu ? files::printable(fmt::format("{}, {} threads{}", cpu.value("model", ""),
                                                        context.value("threads", "?"), best.empty() ? "" : ", " + best))
                         : files::printable(context.value("gpu", "a GPU")),
        .shape = files::printable(what),
        .kind = on_cpu ? Device::cpu : Device::cuda};
    (what.find('x') == std::string::npos ? seen.alone : seen.batch) = {before->second, ms};
    found.push_back(std::move(seen));
  }
  return found;
}

std::vector<Seen> seen_compiled(const RecordedStudy& recorded) {
  const Study& study = recorded.study;
  std::vector<Seen> found;
  for (const StudyRung& own : study.rungs) {
    std::map<std::string, const StudyRung*> peers;
    for (const PeerRatio& peer : own.peers.value_or(std::vector<PeerRatio>{})) {
      if (study.rungs.at(peer.rung).is_measured()) peers[peer.peer] = &study.rungs.at(peer.rung);
    }
    const StudyRung *eager = peers["pytorch-eager"], *compiled = peers["pytorch-compile"];
    if (compiled == nullptr) continue;
    Seen seen = seen_of(study, *compiled);
    seen.shape += ", the recipe of " + files::printable(own.title);
    const PeerRuns runs = runs_of(recorded, *compiled);
    if (runs.compile_s > 0) seen.compile_s = runs.compile_s;
    if (eager != nullptr) {
      const PeerRuns before = runs_of(recorded, *eager);
      if (const auto ratio = paired(before.ms, runs.ms)) {
        set_ratio({bounds(*ratio), ratio->center, ratio->n}, seen);
      }
      seen.below_ms = median_ms(*eager);
      seen.peak = pair_of(eager->peak_memory_bytes, compiled->peak_memory_bytes);
      if (before.kernels && runs.kernels) seen.kernels = {*before.kernels, *runs.kernels};
    }
    found.push_back(std::move(seen));
  }
  return found;
}

std::optional<Seen> seen_of_ladder(const Study& study, const std::string& until) {
  if (study.mode != Mode::cumulative || !study.headline) return std::nullopt;
  const StudyRung& first = study.rungs.at(study.headline->first);
  const auto found = std::ranges::find_if(study.rungs, [&](const StudyRung& rung) {
    return !rung.peer && rung.optimization == until && rung.is_measured() && rung.speedup_first;
  });
  if (found == study.rungs.end()) return std::nullopt;
  const StudyRung& last = *found;
  Seen seen = seen_of(study, last);
  set_ratio(*last.speedup_first, seen);
  seen.below_ms = median_ms(first);
  seen.peak = pair_of(first.peak_memory_bytes, last.peak_memory_bytes);
  return seen;
}

Evidence recorded_evidence() {
  const fs::path folder = files::resource_root() / "results" / "evidence";
  std::vector<fs::path> found;
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  Evidence evidence;
  for (const fs::path& file : found) {
    const std::string name = file.filename().string();
    if (name == "study.json") {
      evidence.studies.push_back({read_document<Study>(file), file.parent_path()});
    } else if (name.ends_with(".trace.json")) {
      if (auto trace = read_document<TraceDocument>(file); trace.summary.on_gpu()) {
        evidence.traces.push_back(std::move(trace));
      }
    } else if (name.starts_with("micro") && name.ends_with(".json")) {
      evidence.micro.push_back(files::read_any_json(file));
    }
  }
  if (evidence.studies.empty()) {
    throw std::invalid_argument(
        fmt::format("{}: no studies are here; a clone of the repository has them", files::printable(folder.string())));
  }
  return evidence;
}

}  // namespace plots
