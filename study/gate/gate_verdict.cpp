#include "study/gate/gate_verdict.h"

#include "ablations/plan/make_plan.h"
#include "ablations/run/run_setting.h"
#include "ablations/run/study_folder.h"
#include "harness/process/utc.h"
#include "harness/stats/verdict.h"
#include "study/gate/baseline_file.h"
#include "study/gate/compare.h"
#include "study/measured.h"
#include "study/tricks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

namespace study {

namespace fs = std::filesystem;

fs::path folder_of_baselines(const Plan& plan, const fs::path& folder) {
  return plan.gate->saves ? fs::path(plan.gate->baselines) : folder / "baselines";
}

namespace {

struct Measurements {
  Side base, head;
  std::vector<std::string> base_failures, head_failures;
};

// "bundle-main/ladder": records and verdicts hold no whole paths.
std::string short_name(const Rung& rung) {
  if (rung.command) return "commit";  // its hash follows
  const fs::path program = rung.program;
  return (program.parent_path().filename() / program.filename()).string();
}

// Not against a stored baseline.
bool is_side_by_side(const Plan& plan) { return plan.rungs.back().against.has_value(); }

Measurements read_measurements(const Plan& plan, const fs::path& folder) {
  Measurements read;
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const bool base = is_base(plan.rungs, i);
    (base ? read.base : read.head).source = short_name(plan.rungs[i]);
    Sample sample{plan.rungs[i].title, {}, {}};
    for (const PlannedRun& run : plan.runs) {
      const fs::path file = record_file(folder, run.id);
      if (run.rung != i || !fs::exists(file)) continue;  // after a failed run no others are made
      auto record = read_document<Record>(file);
      const std::string failure = why_no_number(record);
      if (failure.empty()) {
        sample.records.push_back(std::move(record));
      } else {
        (base ? read.base_failures : read.head_failures).push_back(fmt::format("run {}: {}", run.id, failure));
      }
    }
    if (!sample.records.empty()) (base ? read.base : read.head).samples.push_back(std::move(sample));
  }
  return read;
}

// "rung master_weights of ladder gpt2, B=16 T=1024"
std::string subject_of(const Plan& plan) {
  if (plan.commands) return plan.rungs.back().title;
  std::vector<std::string> names;
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    std::string name = name_of(plan.rungs[i]);
    if (name.starts_with("head-")) name.erase(0, 5);
    if (!is_base(plan.rungs, i)) names.push_back(std::move(name));
  }
  return fmt::format("{} {} of ladder {}, B={} T={}", names.size() == 1 ? "rung" : "rungs", fmt::join(names, ", "),
                     plan.ladder.name, plan.workload.B, plan.workload.T);
}

// The differences of a comparison's pairs, about `center` where there is one.
std::vector<double> log_ratios(const Sample& base, const Sample& head, std::optional<double> center) {
  std::vector<double> differences;
  for (size_t i = 0; i < std::min(base.records.size(), head.records.size()); ++i) {
    differences.push_back(std::log(head.records[i].summary.median_ms / base.records[i].summary.median_ms) -
                          center.value_or(0));
  }
  return differences;
}

const Sample* find_sample(const Side& side, const std::string& label) {
  const auto found = std::ranges::find(side.samples, label, &Sample::label);
  return found == side.samples.end() ? nullptr : &*found;
}

// By head's label, else by its recipe: a baseline has the label of the ladder that it was measured in.
const Sample* find_base(const Side& base, const Sample& head) {
  if (const Sample* found = find_sample(base, head.label)) return found;
  const std::string recipe = recipe_hash_of(head.records.front());
  const auto found = std::ranges::find_if(
      base.samples, [&](const Sample& sample) { return recipe_hash_of(sample.records.front()) == recipe; });
  return found == base.samples.end() ? nullptr : &*found;
}

// What equal programs would have shown: published by --calibrate under these circumstances, else from these pairs' own
// spread. Against a baseline that is the spread of its sessions. Too few sessions have none: one session, as of a
// calibration, shows no spread.
std::optional<NoiseFloor> noise_floor_of(const Plan& plan, const Measurements& measured, const ComparedRecipe& entry) {
  const Sample* head = find_sample(measured.head, entry.label);
  const Sample* base = head == nullptr ? nullptr : find_base(measured.base, *head);
  if (base == nullptr || head == nullptr) return std::nullopt;
  if (entry.sessions) return NoiseFloor{harness::noise_floor_of_sessions(base->sessions), NoiseSource::sessions};
  if (!is_side_by_side(plan)) return std::nullopt;
  // A calibration uses its own pairs, because it replaces the file.
  const fs::path file = noise_file(plan.gate->baselines, head->records.front());
  if (!plan.gate->calibrates && fs::exists(file)) {
    const auto noise = read_document<Noise>(file);
    if (why_no_noise(noise, head->records.front()).empty()) {
      return NoiseFloor{floor_at(noise, entry.pairs).floor, NoiseSource::calibration};
    }
  }
  const auto differences = log_ratios(*base, *head, std::log(entry.ratio));
  if (differences.size() < 6) return std::nullopt;
  return NoiseFloor{harness::noise_floor(differences, entry.pairs), NoiseSource::these_pairs};
}

int exit_status(GateOutcome outcome) {
  if (outcome == GateOutcome::regression || outcome == GateOutcome::failed) return 1;
  return outcome == GateOutcome::inconclusive || outcome == GateOutcome::unfit ? 3 : 0;
}

// An entry's verdict on time, unless its losses are others.
GateOutcome recipe_outcome(const ComparedRecipe& entry) {
  return entry.loss.is_good() ? outcome_of(entry.verdict) : GateOutcome::regression;
}

// The worst of the entries', and why.
GateOutcome worst_outcome(const Comparison& comparison, std::vector<std::string>& reasons) {
  GateOutcome worst = GateOutcome::same;
  const std::vector order{GateOutcome::same, GateOutcome::improvement, GateOutcome::inconclusive,
                          GateOutcome::regression};
  const auto place = [&](GateOutcome outcome) { return std::ranges::find(order, outcome); };
  for (const ComparedRecipe& entry : comparison.entries) {
    if (entry.verdict != harness::Verdict::same) {
      reasons.push_back(fmt::format("{}: {:.3f} of base's time{}", entry.label, entry.ratio,
                                    entry.lo ? fmt::format(" [{:.3f}-{:.3f}]", *entry.lo, *entry.hi) : ""));
    }
    if (!entry.unusable.empty()) reasons.push_back(fmt::format("{}: not usable: {}", entry.label, entry.unusable));
    if (!entry.loss.is_good()) {
      reasons.push_back(fmt::format("{}: it no longer learns the same: {}", entry.label, entry.loss.message));
    }
    if (place(recipe_outcome(entry)) > place(worst)) worst = recipe_outcome(entry);
  }
  return worst;
}

// One program's losses are the same to the bit in every run. Several threads of a CPU add in the order in which they
// are done.
bool repeats_itself(const files::Json& recipe, int64_t threads) {
  return device_of(recipe) == DeviceKind::cpu ? threads == 1 : files::field_or_null(recipe, "deterministic") == true;
}

void warn(const Plan& plan, const Measurements& measured, const ComparedRecipe& entry,
          const std::optional<NoiseFloor>& noise, std::vector<std::string>& warnings) {
  const std::string& label = entry.label;
  const Sample* head = find_sample(measured.head, label);
  const Sample* base = head == nullptr ? nullptr : find_base(measured.base, *head);
  if (base != nullptr && !base->sessions.empty() && !entry.sessions) {
    warnings.push_back(fmt::format(
        "{}: the baseline has only {} session{}, so a difference between this machine's sessions looks like a change "
        "of the program; it needs {}: run ladder gate --save with the baseline's own program on other days",
        label, base->sessions.size(), base->sessions.size() == 1 ? "" : "s", harness::sessions_to_judge_by));
  }
  const bool found = entry.verdict == harness::Verdict::regression || entry.verdict == harness::Verdict::improvement;
  if (base != nullptr && head != nullptr && !plan.gate->calibrates &&
      is_same_program(base->records.front(), head->records.front())) {
    if (is_side_by_side(plan)) {
      warnings.push_back(fmt::format("{}: base and head are the same program: this measures noise", label));
    } else if (found) {
      warnings.push_back(
          fmt::format("{}: base and head are the same program: this difference is the machine's", label));
    }
  }
  if (noise && noise->floor > plan.gate->min_effect && !found) {
    const bool of_sessions = noise->source == NoiseSource::sessions;
    const char* const units = of_sessions ? "sessions" : "pairs";
    warnings.push_back(
        fmt::format("{}: these {} {} can show changes above {:.1f} % only; you asked for {:g} %: quiet the machine, or "
                    "take more {}",
                    label, of_sessions ? *entry.sessions : entry.pairs, units, 100 * noise->floor,
                    100 * plan.gate->min_effect, units));
  }
  if (!entry.loss.compared) {
    warnings.push_back(fmt::format("{}: {}", label, entry.loss.message));
  } else if (!plan.commands && entry.loss.is_good() && !*entry.loss.identical &&
             repeats_itself(entry.recipe, plan.workload.threads)) {
    warnings.push_back(fmt::format("{}: the losses are no longer the same to the bit: {:.2g} nats apart at most", label,
                                   entry.loss.max_deviation->value()));
  }
  if (entry.memory && entry.memory->verdict == harness::Verdict::regression) {
    warnings.push_back(fmt::format("{}: peak memory is {:.3f} of base's", label, entry.memory->ratio));
  }
}

// Whatever the verdict: what is stored of disturbed runs says so, too.
void warn_of_disturbed(const Measurements& measured, std::vector<std::string>& warnings) {
  size_t disturbed = 0, runs = 0;
  std::string first;
  for (const Side* side : {&measured.base, &measured.head}) {
    for (const Sample& sample : side->samples) {
      runs += sample.records.size();
      for (const Record& record : sample.records) {
        if (!record.is_disturbed()) continue;
        if (++disturbed == 1) {
          first = fmt::format("{} {} {}; {}", side == &measured.base ? "base" : "head", record.id,
                              record.flags->front(), remedy_for(*record.flags));
        }
      }
    }
  }
  if (disturbed == 0) return;
  warnings.push_back(
      fmt::format("{} of {} runs {} disturbed: {}", disturbed, runs, disturbed == 1 ? "was" : "were", first));
}

// The stored baseline that says something of a sample.
std::optional<Baseline> stored_baseline(const fs::path& file, const Sample& sample) {
  if (!fs::exists(file)) return std::nullopt;
  auto baseline = read_document<Baseline>(file);
  if (!other_circumstances(baseline, sample.records.front()).empty()) return std::nullopt;
  check_baseline(baseline, file);
  return baseline;
}

// What head's runs are kept as, for later ones to be judged by. Runs of the baseline's own program become its next
// session, whatever the verdict. Later programs are judged by how far its sessions are apart. Another program replaces
// a baseline of these circumstances only if it is an improvement. Otherwise small slowdowns would add up unseen.
std::vector<KeptFile> files_to_keep(const Plan& plan, const fs::path& folder, const Side& head, GateResult& result) {
  std::vector<KeptFile> files;
  const bool is_last_look = result.verdict != GateOutcome::inconclusive || result.pairs == plan.repeats;
  const bool may_judge =
      exit_status(result.verdict) == 0 && (plan.gate->saves || result.verdict == GateOutcome::improvement);
  const fs::path to = folder_of_baselines(plan, folder);
  const auto improved = [&](const Sample& sample) {
    return result.comparison && std::ranges::any_of(result.comparison->entries, [&](const ComparedRecipe& entry) {
             return entry.label == sample.label && recipe_outcome(entry) == GateOutcome::improvement;
           });
  };
  for (const Sample& sample : head.samples) {
    const Record& record = sample.records.front();
    const fs::path file = baseline_file(to, record);
    const std::optional<Baseline> stored = stored_baseline(file, sample);
    if (stored && is_same_program(stored->records.front(), record)) {
      if (!is_last_look) continue;
      if (const std::string why = why_no_session(*stored, sample); !why.empty()) {
        result.warnings.push_back(
            fmt::format("{}: not counted as a session of the baseline's program: {}", sample.label, why));
        continue;
      }
      files.push_back({file, with_session(*stored, sample)});
      result.added_to.push_back(file.string());
    } else if (may_judge && (!stored || improved(sample))) {
      files.push_back({file, baseline_of(sample)});
      result.saved.push_back(file.string());
    }
  }
  return files;
}

// The noise floors of a calibration.
std::vector<KeptFile> floors_to_keep(const Plan& plan, const fs::path& folder, const Measurements& measured,
                                     GateResult& result) {
  std::vector<KeptFile> files;
  for (const Sample& head : measured.head.samples) {
    const Sample* base = find_sample(measured.base, head.label);
    if (base == nullptr) continue;
    const Record& record = head.records.front();
    result.calibration.push_back(noise_of(log_ratios(*base, head, std::nullopt), record, head.label));
    files.push_back({noise_file(folder_of_baselines(plan, folder), record), result.calibration.back()});
    result.saved.push_back(files.back().path.string());
  }
  return files;
}

// A verdict with its reasons before anything is compared, or none yet.
struct EarlyVerdict {
  std::optional<GateOutcome> verdict;
  std::vector<std::string> reasons;
};

// Whether there is anything to compare. Against a baseline, `measured` gets it for its base.
EarlyVerdict said_before_comparing(const Plan& plan, Measurements& measured) {
  if (!measured.base_failures.empty()) return {GateOutcome::unfit, {"base " + measured.base_failures.front()}};
  if (!measured.head_failures.empty()) {
    return {plan.gate->calibrates ? GateOutcome::unfit : GateOutcome::failed,
            {"head " + measured.head_failures.front()}};
  }
  if (is_side_by_side(plan)) return {};
  for (const Sample& sample : measured.head.samples) {
    const Record& record = sample.records.front();
    const fs::path file = baseline_file(plan.gate->baselines, record);
    if (!fs::exists(file)) continue;
    const auto baseline = read_document<Baseline>(file);
    // One of other circumstances is compared with by force; --save puts a new one in its place.
    if (plan.gate->saves && !plan.gate->force && !other_circumstances(baseline, record).empty()) continue;
    check_baseline(baseline, file);
    measured.base.samples.push_back(sample_of(baseline));
  }
  measured.base.source = fs::path(plan.gate->baselines).filename().string();
  if (!measured.base.samples.empty()) return {};
  if (plan.gate->saves) return {GateOutcome::saved, {}};
  return {GateOutcome::unfit, {"there is no baseline in " + plan.gate->baselines}};
}

// What a calibration makes of a verdict.
EarlyVerdict calibration_verdict(EarlyVerdict said, const GateResult& result) {
  if (said.verdict == GateOutcome::unfit) return said;
  const auto is_unusable = [](const ComparedRecipe& entry) { return !entry.unusable.empty(); };
  if (result.comparison && std::ranges::any_of(result.comparison->entries, is_unusable)) {
    said.verdict = GateOutcome::unfit;
    return said;
  }
  if (said.verdict != GateOutcome::regression && said.verdict != GateOutcome::improvement)
    return {GateOutcome::calibrated, {}};
  said.verdict = GateOutcome::unfit;
  said.reasons.emplace_back(
      "the program differs from itself by more than the least effect, so no noise floor is saved");
  return said;
}

}  // namespace

std::vector<int64_t> early_looks(const Plan& plan) {
  constexpr int64_t fewest = 12;  // an interval of 99.9 % needs 11
  std::vector<int64_t> looks;
  if (plan.gate->calibrates || plan.rungs.size() != 2 || !is_side_by_side(plan)) return looks;
  const int64_t declared = plan.repeats - plan.gate->top_up;
  for (int64_t quarter = 1; quarter < 4; ++quarter) {
    if (quarter * declared / 4 >= fewest) looks.push_back(quarter * declared / 4);
  }
  return looks;
}

bool is_decided_early(const Plan& plan, const fs::path& folder) {
  const Measurements measured = read_measurements(plan, folder);
  if (!measured.base_failures.empty() || !measured.head_failures.empty()) return true;
  if (measured.base.samples.empty() || measured.head.samples.empty()) return false;
  const auto differences = log_ratios(measured.base.samples.front(), measured.head.samples.front(), std::nullopt);
  return harness::is_clear_early(differences, plan.gate->min_effect);
}

Judgement gate_verdict(const Plan& plan, const fs::path& folder, int64_t pairs, bool topped_up) {
  Measurements measured = read_measurements(plan, folder);
  GateResult result;
  result.created = harness::utc_now();
  result.subject = subject_of(plan);
  result.against = is_side_by_side(plan) ? Against::program : Against::baseline;
  result.pairs = pairs;
  result.topped_up = topped_up;
  result.min_effect = plan.gate->min_effect;
  EarlyVerdict said = said_before_comparing(plan, measured);
  if (!said.verdict) {
    result.comparison = compare_sides(measured.base, measured.head,
                                      {.min_effect = plan.gate->min_effect,
                                       .force = plan.gate->force || plan.gate->calibrates,
                                       .interleaved = true});  // or the gate itself warns
    const std::vector<ComparedRecipe>& entries = result.comparison->entries;
    said.verdict = worst_outcome(*result.comparison, said.reasons);
    for (const ComparedRecipe& entry : entries) {
      result.noise.push_back(noise_floor_of(plan, measured, entry));
      if (!plan.gate->calibrates) warn(plan, measured, entry, result.noise.back(), result.warnings);
    }
    const auto knows_sessions = [](const ComparedRecipe& entry) { return entry.sessions.has_value(); };
    if (is_side_by_side(plan) ? is_blocked(plan) : !std::ranges::all_of(entries, knows_sessions)) {
      result.warnings.emplace_back(not_interleaved);
    }
  }
  warn_of_disturbed(measured, result.warnings);
  if (plan.gate->calibrates) said = calibration_verdict(std::move(said), result);
  if (plan.commands) result.found = tricks_in(plan, read_records(plan, folder).runs_of);
  if (!result.found.empty()) {  // the numbers are not true, whatever they say
    said.verdict = GateOutcome::failed;
    std::ranges::transform(result.found, std::inserter(said.reasons, said.reasons.begin()), &Found::text);
  }
  result.verdict = *said.verdict;
  result.exit_status = exit_status(result.verdict);
  result.reasons = std::move(said.reasons);
  std::vector<KeptFile> files;
  if (result.verdict == GateOutcome::calibrated) {
    files = floors_to_keep(plan, folder, measured, result);
  } else if (result.verdict != GateOutcome::failed && result.verdict != GateOutcome::unfit) {
    files = files_to_keep(plan, folder, measured.head, result);
  }
  return {.result = std::move(result), .files = std::move(files)};
}

}  // namespace study
