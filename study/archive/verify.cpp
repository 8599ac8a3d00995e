#include "study/archive/verify.h"

#include "ablations/run/run_setting.h"
#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "harness/lines/step_pace.h"
#include "harness/stats/stats.h"
#include "study/analysis.h"
#include "study/archive/seal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

namespace study {

namespace fs = std::filesystem;
using files::Json;

namespace {

// Everything in which `stored` is not `expected`, by JSON pointer. Numbers may differ by a share of `tolerance`.
class Differences {
 public:
  explicit Differences(std::string file, double tolerance = 0) : file_(std::move(file)), tolerance_(tolerance) {}

  void compare(const Json& stored, const Json& expected, const std::string& field) {
    if (stored.is_object() && expected.is_object()) {
      for (const auto& [key, value] : expected.items()) {
        const std::string inner = field + (Json::json_pointer() / key).to_string();
        if (stored.contains(key)) {
          compare(stored.at(key), value, inner);
        } else {
          findings.push_back({file_, inner, "nothing", dumped(value)});
        }
      }
      for (const auto& [key, value] : stored.items()) {
        if (expected.contains(key)) continue;
        findings.push_back({file_, field + (Json::json_pointer() / key).to_string(), dumped(value), "nothing"});
      }
    } else if (stored.is_array() && expected.is_array()) {
      for (size_t i = 0; i < std::max(stored.size(), expected.size()); ++i) {
        const std::string inner = fmt::format("{}/{}", field, i);
        if (i >= stored.size()) {
          findings.push_back({file_, inner, "nothing", dumped(expected[i])});
        } else if (i >= expected.size()) {
          findings.push_back({file_, inner, dumped(stored[i]), "nothing"});
        } else {
          compare(stored[i], expected[i], inner);
        }
      }
    } else if (!same(stored, expected)) {
      findings.push_back({file_, field, dumped(stored), dumped(expected)});
    }
  }

  std::vector<Finding> findings;

 private:
  [[nodiscard]] bool same(const Json& stored, const Json& expected) const {
    if (tolerance_ > 0 && stored.is_number() && expected.is_number()) {
      const double a = stored.get<double>(), b = expected.get<double>();
      return std::abs(a - b) <= tolerance_ * std::abs(b);
    }
    return dumped(stored) == dumped(expected);  // to the last digit, and 1 is not 1.0
  }

  std::string file_;
  double tolerance_;
};

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  std::ranges::move(more, std::back_inserter(findings));
}

size_t values_in(const Json& json) {
  if (!json.is_structured()) return 1;
  size_t values = 0;
  for (const Json& inner : json) values += values_in(inner);
  return values;
}

// What a command's record derives from the times of its lines.
std::vector<Finding> check_command(const Record& record, const std::string& name) {
  const RunTiming& timing = record.timing;
  const std::vector<double>& seconds = record.command->seconds;
  const std::vector<int64_t>& steps = record.command->steps;
  const size_t intervals = timing.step_ms.size();
  if (timing.warmup_steps >= std::ssize(timing.step_ms) || seconds.size() != intervals + 1 ||
      steps.size() != intervals + 1) {
    return {{name, "/timing",
             fmt::format("{} intervals of warm-up, {} times, {} lines", timing.warmup_steps, intervals, steps.size()),
             "a time for each interval between two lines, and timed steps"}};
  }
  const auto first_timed = static_cast<size_t>(timing.warmup_steps);
  RunTiming expected{.window_ms = 1000 * (seconds.back() - seconds[first_timed])};
  expected.step_ms = harness::step_ms_of(steps, seconds);
  Differences found(name);
  found.compare(Json(timing.step_ms), Json(expected.step_ms), "/timing/step_ms");
  found.compare(Json(timing.window_ms), Json(expected.window_ms), "/timing/window_ms");
  found.compare(Json(record.command->first_step_s), Json(seconds.front()), "/command/first_step_s");
  found.compare(
      json_of(record.summary),
      json_of(summary_of(std::span(timing.step_ms).subspan(first_timed), record.command->tokens_per_step.value_or(0))),
      "/summary");
  return found.findings;
}

// What a record derives from its own steps and observations.
std::vector<Finding> check_record(const Record& record, const std::string& name, const files::Json& computed) {
  const RunTiming& timing = record.timing;
  const std::vector<double>& step_ms = timing.step_ms;
  if (record.command) return check_command(record, name);
  if (timing.warmup_steps >= std::ssize(step_ms) || timing.page_faults.size() != step_ms.size()) {
    return {{name, "/timing",
             fmt::format("{} steps of warm-up, {} times, {} page faults", timing.warmup_steps, step_ms.size(),
                         timing.page_faults.size()),
             "a time and a count for each step, and timed steps"}};
  }
  const auto warmup = static_cast<size_t>(timing.warmup_steps);
  const auto timed_ms = std::span(step_ms).subspan(warmup);
  // The peer's is Python's, which rounds in another order.
  Differences summary(name, record.is_of_peer() ? 1e-12 : 0);
  summary.compare(json_of(record.summary), json_of(summary_of(timed_ms, record.workload.tokens_per_step)), "/summary");
  if (record.is_of_peer()) return summary.findings;

  // A GPU's clock times its steps, and their sum is the window. A CPU's window holds its steps and little else, unless
  // the machine was busy between two of them.
  const double steps_ms = std::accumulate(timed_ms.begin(), timed_ms.end(), 0.0);
  const bool has_device = timing.device_ms.has_value();
  const double whole_ms = timing.device_ms.value_or(timing.window_ms);
  const double most = has_device ? 1 + 1e-6 : 1.01, least = has_device ? 1 - 1e-6 : record.is_disturbed() ? 0.1 : 0.5;
  if (steps_ms > most * whole_ms || steps_ms < least * whole_ms) {
    summary.findings.push_back(
        {name, has_device ? "/timing/device_ms" : "/timing/window_ms", dumped(whole_ms), dumped(steps_ms)});
  }

  // A step's batch is a part of it, by the same clock.
  for (size_t i = 0; !has_device && timing.data_ms && i < step_ms.size(); ++i) {
    const double data_ms = i < timing.data_ms->size() ? timing.data_ms->at(i) : -1;
    if (data_ms >= 0 && data_ms <= step_ms[i]) continue;
    summary.findings.push_back({name, fmt::format("/timing/data_ms/{}", i), dumped(data_ms), dumped(step_ms[i])});
    break;
  }

  Differences rest(name);
  const Json stored = json_of(record);
  for (const auto& [part, expected] : computed.items()) {
    if (stored.contains(part)) rest.compare(stored.at(part), expected, "/" + part);
  }
  append(summary.findings, std::move(rest.findings));
  return summary.findings;
}

}  // namespace

Recomputed recompute(const fs::path& folder, const Study& stored, const ComputeAgain& compute_again) {
  const Plan plan = open_study(folder);
  Recomputed result{.study = {}, .hashes = hashes_of(folder), .findings = {}, .unchecked = {}};
  const Environment here = environment_of_program();
  const PlanIdentity identity = plan_identity(plan);
  size_t other_programs = 0;
  std::map<std::string, const PlannedRun*> planned;
  for (const PlannedRun& run : plan.runs) {
    planned[fmt::format("records/{}.json", run.id)] = &run;
    planned[fmt::format("records/{}.flagged.json", run.id)] = &run;
  }
  for (const auto& [name, hash] : result.hashes) {
    if (!name.starts_with("records/")) continue;
    const auto record = read_document<Record>(folder / name);
    ++result.records;
    const auto run = planned.find(name);
    if (run == planned.end()) result.findings.push_back({name, "", "a record", "none: the plan has no such run"});
    if (name.ends_with(".flagged.json") && !record.is_disturbed()) {
      result.findings.push_back({name, "", "a record without flags", "the first record of a disturbed run"});
    }
    if (!another_plan_of(record, identity).empty()) {
      result.findings.push_back({name, "/plan", dumped(json_of(*record.plan)), dumped(json_of(identity))});
    }
    if (!record.is_ok()) continue;
    const bool is_this_program = are_of_one_program(record.environment, here);
    try {
      const bool is_ours = !record.is_of_peer() && !record.command;
      const Json computed = is_ours && compute_again ? compute_again(record, name, is_this_program) : Json::object();
      append(result.findings, check_record(record, name, computed));
    } catch (const std::exception& error) {  // a field that is not there or of another kind
      result.findings.push_back({name, "", error.what(), "a record that can be computed again"});
    }
    if (run != planned.end()) {
      if (const std::string failure = failure_of(record, plan, *run->second); !failure.empty()) {
        result.findings.push_back({name, "", failure, "the planned run"});
      }
    }
    if (!is_this_program && !record.is_of_peer() && !record.command) ++other_programs;
  }
  if (!plan.commands && !compute_again) {
    result.unchecked.emplace_back("sizes and proofs of records were not computed again: only the full build can");
  } else if (other_programs > 0) {
    result.unchecked.push_back(
        fmt::format("the proofs of {} records were not computed again from their observations, because another version "
                    "of the program made them",
                    other_programs));
  }
  // There and back, so that numbers have the types that JSON gives them.
  result.study = Json::parse(dumped(json_of(analyse(plan, folder, Earlier{stored.created, stored.environment}))));
  return result;
}

std::vector<Finding> compare_study(const Json& study, const Recomputed& recomputed) {
  std::vector<Finding> findings = changed_files(study.at("hashes"), recomputed.hashes);
  Json stored = study;
  stored.erase("sha256");
  stored.erase("hashes");
  Differences differences(study_file);
  differences.compare(stored, recomputed.study, "");
  append(findings, std::move(differences.findings));
  if (const std::string sha256 = own_sha256(study); study.at("sha256") != sha256) {
    findings.push_back({study_file, "/sha256", dumped(study.at("sha256")), dumped(sha256)});
  }
  return findings;
}

Verification verify_study(const fs::path& folder, const ComputeAgain& compute_again) {
  for (const char* name : {"plan.json", study_file}) {
    if (!fs::exists(folder / name)) {
      throw std::invalid_argument(
          fmt::format("{}: has no {}, which is needed to compute the study again", folder.string(), name));
    }
  }
  Verification verification;
  const std::string text = files::read_file(folder / study_file, size_t{64} << 20);
  Json study;
  try {
    study = files::parse_json(text, study_file);
    const auto stored = value_from<Study>(study, study_file);
    append(verification.findings, changed_files(*stored.hashes, hashes_of(folder)));  // the rest may be unreadable
    const std::optional<std::string>& commit = stored.environment.git_commit;
    if (commit != environment_of_program().git_commit) verification.made_by = dumped(json_of(commit));
    const Recomputed recomputed = recompute(folder, stored, compute_again);
    verification.findings = recomputed.findings;
    append(verification.findings, compare_study(study, recomputed));
    verification.unchecked = recomputed.unchecked;
    verification.records = recomputed.records;
    verification.files = recomputed.hashes.size() + 1;
    verification.values = values_in(recomputed.study);
  } catch (const std::invalid_argument& error) {
    verification.findings.push_back({study_file, "", error.what(), "files that can be read"});
  } catch (const Json::exception& error) {
    verification.findings.push_back({study_file, "", error.what(), "a study that can be computed again"});
  }
  return verification;
}

}  // namespace study
