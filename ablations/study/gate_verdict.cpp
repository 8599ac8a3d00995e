#include "ablations/study/gate_verdict.h"

#include "ablations/plan/gate_plan.h"
#include "ablations/run/setting.h"
#include "ablations/run/study_folder.h"
#include "ablations/study/baseline.h"
#include "ablations/study/compare.h"
#include "ablations/study/measured.h"
#include "harness/utc.h"
#include "harness/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace ablations {

namespace fs = std::filesystem;
using harness::Json;

fs::path folder_of_baselines(const Plan& plan, const fs::path& folder) {
  return plan.gate->saves ? fs::path(plan.gate->baselines) : folder / "baselines";
}

namespace {

struct Measurements {
  Side base, head;
  std::vector<std::string> base_faults, head_faults;
};

// "bundle-main/ladder": records and verdicts hold no whole paths.
std::string short_name(const fs::path& program) {
  return (program.parent_path().filename() / program.filename()).string();
}

// Not against a stored baseline.
bool is_side_by_side(const Plan& plan) { return plan.rungs.back().against.has_value(); }

Measurements read_measurements(const Plan& plan, const fs::path& folder) {
  Measurements read;
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const bool base = is_base(plan.rungs, i);
    (base ? read.base : read.head).source = short_name(plan.rungs[i].program);
    Arm arm{plan.rungs[i].title, {}, {}};
    for (const PlannedRun& run : plan.runs) {
      const fs::path file = record_file(folder, run.id);
      if (run.rung != i || !fs::exists(file)) continue;  // after a failed run no others are made
      Json record = harness::read_json(file, "record");
      const std::string fault = why_no_number(record);
      if (fault.empty()) {
        arm.records.push_back(std::move(record));
      } else {
        (base ? read.base_faults : read.head_faults).push_back(fmt::format("run {}: {}", run.id, fault));
      }
    }
    if (!arm.records.empty()) (base ? read.base : read.head).arms.push_back(std::move(arm));
  }
  return read;
}

// The differences of a comparison's pairs, about `center` where there is one.
std::vector<double> log_ratios(const Arm& base, const Arm& head, std::optional<double> center) {
  std::vector<double> differences;
  for (size_t i = 0; i < std::min(base.records.size(), head.records.size()); ++i) {
    differences.push_back(std::log(head.records[i].at("summary").at("median_ms").get<double>() /
                                   base.records[i].at("summary").at("median_ms").get<double>()) -
                          center.value_or(0));
  }
  return differences;
}

const Arm* find_arm(const Side& side, const std::string& label) {
  const auto found = std::ranges::find(side.arms, label, &Arm::label);
  return found == side.arms.end() ? nullptr : &*found;
}

// A baseline's label is that of the ladder it was measured in; the recipe may have another one in head's.
const Arm* find_base(const Side& base, const Arm& head) {
  if (const Arm* found = find_arm(base, head.label)) return found;
  const std::string recipe = recipe_hash_of(head.records.front());
  const auto found =
      std::ranges::find_if(base.arms, [&](const Arm& arm) { return recipe_hash_of(arm.records.front()) == recipe; });
  return found == base.arms.end() ? nullptr : &*found;
}

// What equal programs would have shown: published by --calibrate under these circumstances, else from these pairs' own
// spread. Against a baseline that is the spread of its sessions, and of too few there is none: in one session, as of a
// calibration, nothing shows how far two are apart.
Json noise_of(const Plan& plan, const Measurements& measured, const Json& entry) {
  const Arm* head = find_arm(measured.head, entry.at("label"));
  const Arm* base = head == nullptr ? nullptr : find_base(measured.base, *head);
  const auto pairs = entry.at("pairs").get<int64_t>();
  if (base == nullptr || head == nullptr) return nullptr;
  if (!entry.at("sessions").is_null()) {
    return {{"floor", harness::noise_floor_of_sessions(base->sessions)}, {"source", "sessions"}};
  }
  if (!is_side_by_side(plan)) return nullptr;
  const fs::path file = noise_file(plan.gate->baselines, head->records.front());
  // Of a calibration its own pairs tell: the file is what it replaces.
  if (!plan.gate->calibrates && fs::exists(file) && other_circumstances(file, "noise", head->records.front()).empty()) {
    return {{"floor", floor_at(harness::read_json(file, "noise"), pairs)}, {"source", "calibration"}};
  }
  const auto differences = log_ratios(*base, *head, std::log(entry.at("ratio").get<double>()));
  if (differences.size() < 6) return nullptr;
  return {{"floor", harness::noise_floor(differences, pairs)}, {"source", "these pairs"}};
}

int exit_status(const std::string& verdict) {
  if (verdict == "REGRESSION" || verdict == "FAILED") return 1;
  return verdict == "INCONCLUSIVE" || verdict == "UNFIT" ? 3 : 0;
}

// An entry's verdict on time, unless its losses are others.
std::string verdict_of(const Json& entry) {
  const Json& loss = entry.at("loss");
  const bool learns = !loss.at("compared").get<bool>() || loss.at("passed").get<bool>();
  return learns ? entry.at("verdict").get<std::string>() : "REGRESSION";
}

// The worst of the entries', and why.
std::string judge(const Json& comparison, Json& reasons) {
  std::string worst = "SAME";
  const std::vector<std::string> order{"SAME", "IMPROVEMENT", "INCONCLUSIVE", "REGRESSION"};
  const auto place = [&](const std::string& verdict) { return std::ranges::find(order, verdict); };
  for (const Json& entry : comparison.at("entries")) {
    const std::string label = entry.at("label");
    if (entry.at("verdict") != "SAME") {
      reasons.push_back(fmt::format(
          "{}: {:.3f} of base's time{}", label, entry.at("ratio").get<double>(),
          entry.at("lo").is_null()
              ? ""
              : fmt::format(" [{:.3f}-{:.3f}]", entry.at("lo").get<double>(), entry.at("hi").get<double>())));
    }
    const Json& loss = entry.at("loss");
    if (loss.at("compared").get<bool>() && !loss.at("passed").get<bool>()) {
      reasons.push_back(
          fmt::format("{}: it no longer learns the same: {}", label, loss.at("message").get<std::string>()));
    }
    const std::string verdict = verdict_of(entry);
    if (place(verdict) > place(worst)) worst = verdict;
  }
  return worst;
}

// One program's losses are the same to the bit in every run.
bool repeats_itself(const Json& recipe) { return recipe.at("device") == "cpu" || recipe.at("deterministic") == true; }

void warn(const Plan& plan, const Measurements& measured, const Json& entry, const Json& noise, Json& warnings) {
  const std::string label = entry.at("label");
  const Arm* head = find_arm(measured.head, label);
  const Arm* base = head == nullptr ? nullptr : find_base(measured.base, *head);
  if (base != nullptr && !base->sessions.empty() && entry.at("sessions").is_null()) {
    warnings.push_back(fmt::format(
        "{}: the baseline knows {} session{}, so not how far this machine's sessions are apart, which is taken for the "
        "program's; from {} on it does: ladder gate --save of the baseline's own program on other days",
        label, base->sessions.size(), base->sessions.size() == 1 ? "" : "s", harness::sessions_to_judge_by));
  }
  const std::string verdict = entry.at("verdict");
  if (base != nullptr && head != nullptr && (verdict == "REGRESSION" || verdict == "IMPROVEMENT") &&
      is_same_program(base->records.front(), head->records.front())) {
    warnings.push_back(fmt::format("{}: base and head are the same program, by commit and file", label));
  }
  if (!noise.is_null() && noise.at("floor").get<double>() > plan.gate->min_effect) {
    const std::string source = noise.at("source");
    const bool of_sessions = source == "sessions";
    warnings.push_back(fmt::format(
        "{}: the least effect of {:g} % lies under the noise floor of {} {} here, {:.1f} %{}: more {} or a larger "
        "effect, or it finds less and is inconclusive more often",
        label, 100 * plan.gate->min_effect, entry.at(of_sessions ? "sessions" : "pairs").get<int64_t>(),
        of_sessions ? "sessions" : "pairs", 100 * noise.at("floor").get<double>(),
        of_sessions ? "" : " (" + source + ")", of_sessions ? "sessions" : "pairs"));
  }
  const Json& loss = entry.at("loss");
  if (!loss.at("compared").get<bool>()) {
    warnings.push_back(fmt::format("{}: {}", label, loss.at("message").get<std::string>()));
  } else if (loss.at("passed").get<bool>() && !loss.at("identical").get<bool>() && repeats_itself(entry.at("recipe"))) {
    warnings.push_back(fmt::format("{}: the losses are no longer the same to the bit: {:.2g} nats apart at most", label,
                                   loss.at("max_deviation").get<double>()));
  }
  if (const Json& memory = entry.at("memory"); !memory.is_null() && memory.at("verdict") == "REGRESSION") {
    warnings.push_back(fmt::format("{}: peak memory is {:.3f} of base's", label, memory.at("ratio").get<double>()));
  }
}

// Whatever the verdict: what is stored of disturbed runs says so, too.
void warn_of_disturbed(const Measurements& measured, Json& warnings) {
  for (const Side* side : {&measured.base, &measured.head}) {
    for (const Arm& arm : side->arms) {
      size_t runs = 0;
      std::string first;
      for (const Json& record : arm.records) {
        const Json flags = record.value("flags", Json::array());
        if (flags.empty()) continue;
        if (++runs == 1) first = fmt::format("{} {}", record.at("id").get<std::string>(), flags[0].get<std::string>());
      }
      if (runs == 0) continue;
      warnings.push_back(fmt::format("{}: {} of {} runs {} disturbed: {} {}", arm.label, runs, arm.records.size(),
                                     runs == 1 ? "was" : "were", side == &measured.base ? "base" : "head", first));
    }
  }
}

// The file of a baseline that says something of an arm; empty where there is none.
fs::path baseline_of(const fs::path& folder, const Arm& arm) {
  const fs::path file = baseline_file(folder, arm.records.front());
  return fs::exists(file) && other_circumstances(file, "baseline", arm.records.front()).empty() ? file : fs::path();
}

// What head's runs are kept as, for later ones to be judged by. Runs of the baseline's own program are one more session
// of it, whatever the verdict: how far its sessions are apart is what others are judged by. Of another program, where
// there is a baseline of these circumstances, only an improvement takes its place: slowdowns that are each too small to
// matter would add up unseen.
std::vector<KeptFile> files_to_keep(const Plan& plan, const fs::path& folder, const Side& head, Json& verdict) {
  std::vector<KeptFile> files;
  const std::string word = verdict.at("verdict");
  const bool is_last_look = word != "INCONCLUSIVE" || verdict.at("pairs") == plan.repeats;
  const bool may_judge = exit_status(word) == 0 && (plan.gate->saves || word == "IMPROVEMENT");
  const fs::path to = folder_of_baselines(plan, folder);
  const auto improved = [&](const Arm& arm) {
    const Json& comparison = verdict.at("comparison");
    return !comparison.is_null() && std::ranges::any_of(comparison.at("entries"), [&](const Json& entry) {
      return entry.at("label") == arm.label && verdict_of(entry) == "IMPROVEMENT";
    });
  };
  for (const Arm& arm : head.arms) {
    const fs::path stored = baseline_of(to, arm);
    if (!stored.empty() && is_same_program(read_baseline(stored).records.front(), arm.records.front())) {
      if (!is_last_look) continue;
      if (const std::string why = why_no_session(stored, arm); !why.empty()) {
        verdict["warnings"].push_back(
            fmt::format("{}: not counted as a session of the baseline's program: {}", arm.label, why));
        continue;
      }
      files.push_back({stored, "baseline", with_session(stored, arm)});
      verdict["added_to"].push_back(stored.string());
    } else if (may_judge && (stored.empty() || improved(arm))) {
      files.push_back({baseline_file(to, arm.records.front()), "baseline", baseline_json(arm)});
      verdict["saved"].push_back(files.back().path.string());
    }
  }
  return files;
}

// The noise floors of a calibration.
std::vector<KeptFile> floors_to_keep(const Plan& plan, const fs::path& folder, const Measurements& measured,
                                     Json& verdict) {
  std::vector<KeptFile> files;
  for (const Arm& head : measured.head.arms) {
    const Arm* base = find_arm(measured.base, head.label);
    if (base == nullptr) continue;
    const fs::path to = folder_of_baselines(plan, folder);
    files.push_back({noise_file(to, head.records.front()), "noise",
                     noise_json(log_ratios(*base, head, std::nullopt), head.records.front(), head.label)});
    verdict["calibration"].push_back(files.back().document);
    verdict["saved"].push_back(files.back().path.string());
  }
  return files;
}

// What is said so far: a verdict with its reasons, or none yet.
struct Said {
  std::string verdict;
  Json reasons = Json::array();
};

// Whether there is anything to compare. Against a baseline, `measured` gets it for its base.
Said said_before_comparing(const Plan& plan, Measurements& measured) {
  const auto say = [](const std::string& verdict, const std::string& reason) {
    return Said{.verdict = verdict, .reasons = Json::array({reason})};
  };
  if (!measured.base_faults.empty()) return say("UNFIT", "base " + measured.base_faults.front());
  if (!measured.head_faults.empty()) {
    return say(plan.gate->calibrates ? "UNFIT" : "FAILED", "head " + measured.head_faults.front());
  }
  if (is_side_by_side(plan)) return {};
  for (const Arm& arm : measured.head.arms) {
    const Json& record = arm.records.front();
    const fs::path file = baseline_file(plan.gate->baselines, record);
    if (!fs::exists(file)) continue;
    // One of other circumstances is compared with by force; --save puts a new one in its place.
    if (plan.gate->saves && !plan.gate->force && !other_circumstances(file, "baseline", record).empty()) continue;
    measured.base.arms.push_back(read_baseline(file));
  }
  measured.base.source = fs::path(plan.gate->baselines).filename().string();
  if (!measured.base.arms.empty()) return {};
  if (plan.gate->saves) return {.verdict = "SAVED"};
  return say("UNFIT", "there is no baseline in " + plan.gate->baselines);
}

// What a calibration makes of a verdict.
Said said_of_itself(const Said& said) {
  if (said.verdict == "UNFIT") return said;
  if (said.verdict != "REGRESSION" && said.verdict != "IMPROVEMENT") return {.verdict = "CALIBRATED"};
  Said unfit{.verdict = "UNFIT", .reasons = said.reasons};
  unfit.reasons.push_back(
      "the program differs from itself by more than the least effect: no noise floor is made of that");
  return unfit;
}

}  // namespace

Judgement gate_verdict(const Plan& plan, const fs::path& folder, int64_t pairs, bool topped_up) {
  Measurements measured = read_measurements(plan, folder);
  Json warnings = Json::array(), noise = Json::array(), comparison;
  Said said = said_before_comparing(plan, measured);
  if (said.verdict.empty()) {
    comparison = compare_sides(measured.base, measured.head,
                               {.min_effect = plan.gate->min_effect,
                                .force = plan.gate->force || plan.gate->calibrates,
                                .interleaved = true});  // or the gate itself warns
    said.verdict = judge(comparison, said.reasons);
    for (const Json& entry : comparison.at("entries")) {
      noise.push_back(noise_of(plan, measured, entry));
      if (!plan.gate->calibrates) warn(plan, measured, entry, noise.back(), warnings);
    }
    const auto knows_sessions = [](const Json& entry) { return !entry.at("sessions").is_null(); };
    if (is_side_by_side(plan) ? is_blocked(plan) : !std::ranges::all_of(comparison.at("entries"), knows_sessions)) {
      warnings.push_back(not_interleaved);
    }
  }
  warn_of_disturbed(measured, warnings);
  if (plan.gate->calibrates) said = said_of_itself(said);
  Judgement judgement{.verdict = {{"kind", "gate"},
                                  {"schema_version", 1},
                                  {"created", harness::utc_now()},
                                  {"verdict", said.verdict},
                                  {"exit_status", exit_status(said.verdict)},
                                  {"against", is_side_by_side(plan) ? "program" : "baseline"},
                                  {"pairs", pairs},
                                  {"topped_up", topped_up},
                                  {"min_effect", plan.gate->min_effect},
                                  {"reasons", said.reasons},
                                  {"warnings", warnings},
                                  {"noise", noise},
                                  {"calibration", Json::array()},
                                  {"saved", Json::array()},
                                  {"added_to", Json::array()},
                                  {"comparison", comparison}},
                      .files = {}};
  if (said.verdict == "CALIBRATED") {
    judgement.files = floors_to_keep(plan, folder, measured, judgement.verdict);
  } else if (said.verdict != "FAILED" && said.verdict != "UNFIT") {
    judgement.files = files_to_keep(plan, folder, measured.head, judgement.verdict);
  }
  return judgement;
}

}  // namespace ablations
