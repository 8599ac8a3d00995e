#include "ablations/gpt2/reproduce.h"

#include "ablations/run/run_setting.h"
#include "ablations/techniques/techniques.h"
#include "model/config.h"
#include "text/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <stdexcept>

namespace ablations {

namespace {

// What decides bits beside what setting_of() says: the instructions that libraries choose their kernels by.
std::vector<std::string> instruction_differences(const Environment& environment, const Environment& other) {
  const auto instructions = [](const Environment& of) {
    const auto& features = of.cpu.features;
    return Facts{{"cpu features", features ? std::optional(json_of(*features).dump()) : std::nullopt}};
  };
  return differences(instructions(environment), instructions(other));
}

// In the last place of a float32, as losses are.
double ulps_between(double first, double second) {
  const auto size = static_cast<float>(std::abs(first));
  return std::abs(first - second) / (std::nextafter(size, std::numeric_limits<float>::infinity()) - size);
}

}  // namespace

RunOptions options_of(const Record& record, const std::string& where) {
  if (!record.is_ok()) throw std::invalid_argument(fmt::format("{}: a run that failed", where));
  if (record.is_of_peer()) {
    throw std::invalid_argument(fmt::format("{}: is a run of PyTorch, not of this program", where));
  }
  const Workload& workload = record.workload;
  const RunTiming& timing = record.timing;
  RunOptions options{.id = record.id,
                     .model = workload.model,
                     .B = workload.B,
                     .T = workload.T,
                     .accumulation = workload.accumulation,
                     .ranks = workload.ranks,
                     .positions = workload.positions,
                     .warmup_steps = timing.warmup_steps,
                     .timed_steps = std::ssize(timing.step_ms) - timing.warmup_steps,
                     .seed = workload.seed,
                     .random_windows = workload.random_windows,
                     .threads = record.environment.threads.value_or(0),
                     .data = {},
                     .vocabulary = {},
                     .tokens = {},
                     .cold_cache = record.data && record.data->cold,
                     .recipe = model::recipe_from_json(record.recipe, where),
                     .applied = record.optimizations};
  if (options.timed_steps < 1 || timing.loss.size() != timing.step_ms.size()) {
    throw std::invalid_argument(fmt::format("{}: {} steps of warm-up, {} times and {} losses", where,
                                            options.warmup_steps, timing.step_ms.size(), timing.loss.size()));
  }
  (void)model::preset(options.model);
  return options;
}

files::Json computed_again(const Record& record, const std::string& where, bool is_this_program) {
  const RunTiming& timing = record.timing;
  const Workload::Data& data = record.workload.data;
  RunOptions options = options_of(record, where);
  options.data = data.source;
  files::Json computed{{"workload", json_of(workload_of(options, data.sha256, data.tokens))}};
  if (!is_this_program) return computed;
  const std::vector<double> faults(timing.page_faults.begin(), timing.page_faults.end());
  const RunFacts facts{
      .observations = value_from<Observations>(record.observations, where),
      .page_faults_per_step = harness::median(std::span(faults).subspan(static_cast<size_t>(timing.warmup_steps))),
      .peak_bytes = record.memory.peak_bytes,
      .attentions = model::preset(options.model).n_layer * options.accumulation};
  computed["least_work"] = json_of(least_work_of(options));
  computed["proofs"] = json_of(prove(options.recipe, facts));
  return computed;
}

ProgramComparison compare_programs(const Environment& environment, const Environment& other, bool cuda) {
  ProgramComparison comparison;
  const Facts facts = program_facts(environment, cuda), others = program_facts(other, cuda);
  const std::optional<std::string> sha256 = facts.at("program_sha256");
  const bool same_file = sha256 && sha256 == others.at("program_sha256");
  for (const auto& [name, here] : facts) {
    const std::optional<std::string>& there = others.at(name);
    if (!here || !there) continue;
    if (name == "git_commit" && !same_file && (here == "unknown" || there == "unknown")) {
      comparison.unknown.emplace_back("a program that was not built in a git repository does not know its commit");
    } else if (here != there) {
      comparison.differences.push_back(fmt::format("{}: \"{}\" against \"{}\"", name, *here, *there));
    }
  }
  if (!environment.git_commit) comparison.unknown.emplace_back("the record does not name its program's commit");
  if (same_file) return comparison;
  if (environment.git_dirty == true) {
    comparison.unknown.emplace_back("the record's program was built with uncommitted changes (git_dirty)");
  }
  if (other.git_dirty == true) {
    comparison.unknown.emplace_back("this program was built with uncommitted changes (git_dirty)");
  }
  return comparison;
}

Reproduction compare_losses(const Record& record, const Record& again) {
  const auto &first = record.timing.loss, &second = again.timing.loss;
  Reproduction reproduction{
      .identical = first == second, .largest_deviation = 0.0, .steps = first.size(), .excuses = {}};
  double ulps = 0;
  if (first.size() != second.size()) reproduction.largest_deviation.reset();
  for (size_t i = 0; i < std::min(first.size(), second.size()) && reproduction.largest_deviation; ++i) {
    if (!first[i] && !second[i]) continue;
    if (!first[i] || !second[i]) {
      reproduction.largest_deviation.reset();
    } else {
      reproduction.largest_deviation = std::max(*reproduction.largest_deviation, std::abs(*first[i] - *second[i]));
      ulps = std::max(ulps, ulps_between(*first[i], *second[i]));
    }
  }
  if (!reproduction.identical && reproduction.largest_deviation) reproduction.largest_ulps = ulps;
  Setting setting = setting_of(record);
  const Setting now = setting_of(again.environment, again.workload, record.recipe);
  if (!setting.positions) setting.positions = now.positions;  // a record that does not say had the model's own
  setting.cores = now.cores;                                  // the threads decide in which order is added
  reproduction.excuses = differences(setting, now);
  if (!record.is_on_gpu()) {
    std::ranges::move(instruction_differences(record.environment, again.environment),
                      std::back_inserter(reproduction.excuses));
    const model::Recipe recipe = model::recipe_from_json(record.recipe, "the record");
    const bool is_small =
        reproduction.largest_deviation && *reproduction.largest_deviation <= expected_losses(recipe).tolerance;
    if (!reproduction.identical && is_small && again.environment.threads != 1) {
      reproduction.excuses.emplace_back("several threads may add in a different order each time");
    }
  } else if (files::field_or_null(record.recipe, "deterministic") != true) {
    reproduction.excuses.emplace_back("the recipe is not deterministic, and a GPU adds in a different order each time");
  }
  return reproduction;
}

std::string describe(const Reproduction& reproduction, const std::string& original) {
  if (reproduction.identical) {
    return fmt::format("losses of {}: identical to the bit to those of {}", number_of(reproduction.steps, "step"),
                       original);
  }
  const std::string deviation =
      reproduction.largest_deviation
          ? fmt::format("up to {:.3g} nats per token ({:.3g} units in the last place)", *reproduction.largest_deviation,
                        reproduction.largest_ulps.value_or(0))
          : "some are not finite or missing";
  const std::string reason = reproduction.excuses.empty()
                                 ? "and nothing known explains it"
                                 : fmt::format("which may be because of: {}", fmt::join(reproduction.excuses, "; "));
  return fmt::format("losses of {}: different from those of {}, {}, {}", number_of(reproduction.steps, "step"),
                     original, deviation, reason);
}

}  // namespace ablations
