#include "ablations/run/reproduce.h"

#include "ablations/run/setting.h"
#include "model/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace ablations {

using files::Json;

namespace {

bool uncommitted(const Json& environment) { return files::field_or_null(environment, "git_dirty") == true; }

// What decides bits beside what setting_of() says: the instructions that libraries choose their kernels by.
std::vector<std::string> instruction_differences(const Json& environment, const Json& other) {
  const auto instructions = [](const Json& of) {
    return Facts{{"cpu features", fact_of(files::field_or_null(files::field_or_null(of, "cpu"), "features"))}};
  };
  return differences(instructions(environment), instructions(other));
}

}  // namespace

RunOptions options_of(const Json& record, const std::string& where) {
  if (record.at("status") != "ok") throw std::invalid_argument(fmt::format("{}: a run that failed", where));
  if (record.at("observations").contains("peer")) {
    throw std::invalid_argument(fmt::format("{}: is a run of PyTorch, not of this program", where));
  }
  try {
    const Json& workload = record.at("workload");
    const Json& timing = record.at("timing");
    RunOptions options{.id = record.at("id"),
                       .model = workload.at("model"),
                       .B = workload.at("batch"),
                       .T = workload.at("context"),
                       .accumulation = workload.at("accumulation"),
                       .positions = workload.value("positions", int64_t{0}),
                       .warmup_steps = timing.at("warmup_steps"),
                       .timed_steps = 0,
                       .seed = workload.at("seed"),
                       .threads = record.at("environment").at("threads"),
                       .data = {},
                       .vocabulary = {},
                       .tokens = {},
                       .recipe = model::recipe_from_json(record.at("recipe"), where),
                       .applied = record.at("optimizations")};
    options.timed_steps = std::ssize(timing.at("step_ms")) - options.warmup_steps;
    if (options.timed_steps < 1 || timing.at("loss").size() != timing.at("step_ms").size()) {
      throw std::invalid_argument(fmt::format("{}: {} steps of warm-up, {} times and {} losses", where,
                                              options.warmup_steps, timing.at("step_ms").size(),
                                              timing.at("loss").size()));
    }
    (void)model::preset(options.model);
    return options;
  } catch (const Json::exception& error) {
    throw std::invalid_argument(fmt::format("{}: lacks what is needed to run it again: {}", where, error.what()));
  }
}

ProgramComparison compare_programs(const Json& environment, const Json& other, model::Device device) {
  ProgramComparison comparison;
  const Json sha256 = files::field_or_null(environment, "program_sha256");
  const bool same_file = !sha256.is_null() && sha256 == files::field_or_null(other, "program_sha256");
  for (const char* field : program_fields(device == model::Device::cuda)) {
    const Json here = files::field_or_null(environment, field), there = files::field_or_null(other, field);
    if (here.is_null() || there.is_null()) continue;
    if (std::string_view(field) == "git_commit" && !same_file && (here == "unknown" || there == "unknown")) {
      comparison.unknown.emplace_back("a program that was not built in a git repository does not know its commit");
    } else if (here != there) {
      comparison.differences.push_back(fmt::format("{}: {} against {}", field, here.dump(), there.dump()));
    }
  }
  if (files::field_or_null(environment, "git_commit").is_null()) {
    comparison.unknown.emplace_back("the record does not name its program's commit");
  }
  if (same_file) return comparison;
  if (uncommitted(environment)) {
    comparison.unknown.emplace_back("the record's program was built with uncommitted changes (git_dirty)");
  }
  if (uncommitted(other)) {
    comparison.unknown.emplace_back("this program was built with uncommitted changes (git_dirty)");
  }
  return comparison;
}

Reproduction compare_losses(const Json& record, const Json& again) {
  const Json& first = record.at("timing").at("loss");
  const Json& second = again.at("timing").at("loss");
  Reproduction reproduction{
      .identical = first == second, .largest_deviation = 0.0, .steps = first.size(), .excuses = {}};
  if (first.size() != second.size()) reproduction.largest_deviation.reset();
  for (size_t i = 0; i < std::min(first.size(), second.size()) && reproduction.largest_deviation; ++i) {
    if (first[i].is_null() && second[i].is_null()) continue;
    if (first[i].is_null() || second[i].is_null()) {
      reproduction.largest_deviation.reset();
    } else {
      reproduction.largest_deviation =
          std::max(*reproduction.largest_deviation, std::abs(first[i].get<double>() - second[i].get<double>()));
    }
  }
  const Json& recipe = record.at("recipe");
  const bool cuda = files::field_or_null(recipe, "device") == "cuda";
  const Json& environment = record.at("environment");
  const Json& here = again.at("environment");
  Setting setting = setting_of(environment, record.at("workload"), recipe);
  const Setting now = setting_of(here, again.at("workload"), recipe);
  if (!setting.positions) setting.positions = now.positions;  // a record that does not say had the model's own
  setting.cores = now.cores;                                  // the threads decide in which order is added
  reproduction.excuses = differences(setting, now);
  if (!cuda) {
    std::ranges::move(instruction_differences(environment, here), std::back_inserter(reproduction.excuses));
  } else if (files::field_or_null(recipe, "deterministic") != true) {
    reproduction.excuses.emplace_back("the recipe is not deterministic, and a GPU adds in a different order each time");
  }
  return reproduction;
}

Json to_json(const Reproduction& reproduction) {
  return {{"identical", reproduction.identical},
          {"steps", reproduction.steps},
          {"largest_deviation", reproduction.largest_deviation ? Json(*reproduction.largest_deviation) : Json()},
          {"excuses", reproduction.excuses}};
}

std::string describe(const Reproduction& reproduction, const std::string& original) {
  if (reproduction.identical) {
    return fmt::format("losses of {} steps: identical to the bit to those of {}", reproduction.steps, original);
  }
  const std::string deviation = reproduction.largest_deviation
                                    ? fmt::format("up to {:.3g} nats per token", *reproduction.largest_deviation)
                                    : "some are not finite or missing";
  const std::string reason = reproduction.excuses.empty()
                                 ? "and nothing known explains it"
                                 : fmt::format("which may be because of: {}", fmt::join(reproduction.excuses, "; "));
  return fmt::format("losses of {} steps: different from those of {}, {}, {}", reproduction.steps, original, deviation,
                     reason);
}

}  // namespace ablations
