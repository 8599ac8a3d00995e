// `ladder gate`: did the program become slower? Compares two programs, or a program and stored runs of an earlier one.
// Runs are interleaved, in fresh processes. There is one verdict, and an exit status that can block a merge.
//
//   FOLDER/plan.json, records/, logs/      as a study's (ablations/run/study_folder.h): "base-NAME" and "head-NAME"
//   FOLDER/gate.json                       the verdict (results/schemas/gate.v1.json)
//   FOLDER/unsaved.json                    what it saves as baselines, until it has
//   FOLDER/summary.md, gate.html, charts/  the same for people
#include "ablations/gpt2/child.h"
#include "ablations/gpt2/ladder_file.h"
#include "ablations/gpt2/memory.h"
#include "ablations/plan/make_plan.h"
#include "ablations/run/study_folder.h"
#include "cli/gate_run.h"
#include "cli/gpt2/commands.h"
#include "cli/gpt2/request.h"
#include "cli/place.h"
#include "files/files.h"
#include "files/printable.h"
#include "files/sha256.h"
#include "harness/machine/machine.h"
#include "harness/process/unfit.h"
#include "harness/stats/verdict.h"
#include "model/config.h"
#include "model/data.h"
#include "plots/gate_text.h"
#include "study/analysis.h"
#include "study/gate/baseline_file.h"
#include "study/gate/gate_verdict.h"
#include "text/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>

namespace cli {

namespace fs = std::filesystem;
using files::Json;

namespace {

constexpr const char* earlier_attempt = "went on after";

// The path to start for a bundle's folder or a program. This program is started by its path, too, so that both sides
// are alike.
std::string program_of(const char* flag, const std::string& named) {
  if (named.empty()) {
    std::string own = fs::read_symlink("/proc/self/exe").string();
    if (own.ends_with(harness::trainer_suffix)) own.resize(own.size() - harness::trainer_suffix.size());
    return own;
  }
  fs::path program = fs::absolute(named);
  if (fs::is_directory(program)) program /= "ladder";
  if (!fs::is_regular_file(program) || ::access(program.c_str(), X_OK) != 0) {
    throw std::invalid_argument(
        fmt::format("{} {}: {} is not a program; give a bundle's folder or the path of a ladder program", flag, named,
                    program.string()));
  }
  return program.string();
}

// Of the file that trains.
std::string sha256_of(const std::string& program) {
  const fs::path trainer = harness::trainer_of(program);
  return files::sha256_of_file(fs::exists(trainer) ? trainer : fs::path(program));
}

// The rungs to measure: those that are named, else the ladder's default.
std::vector<size_t> chosen_rungs(const Ladder& ladder, const std::vector<Rung>& rungs,
                                 const std::vector<std::string>& names) {
  if (names.empty()) return {default_rung(ladder, rungs)};
  std::vector<size_t> chosen;
  for (const std::string& name : names) {
    const size_t rung = find_rung(rungs, name, "--rung", ladder.name);
    if (std::ranges::find(chosen, rung) == chosen.end()) chosen.push_back(rung);
  }
  return chosen;
}

// Recipe, size and circumstances of a run before it is made: used to find its baseline and to check it.
Record expected_record(const Plan& plan, const Rung& rung) {
  Record record;
  record.recipe = rung.recipe;
  record.environment = environment_here();
  record.environment.threads = plan.workload.threads;
  record.workload = planned_workload(plan);
  record.workload.data.sha256 =
      model::load_tokens(plan.workload.tokens, model::preset(plan.workload.model).vocabulary).sha256;
  record.timing.warmup_steps = plan.warmup_steps;
  record.summary.n = plan.timed_steps;
  return record;
}

// Throws harness::Unfit if a rung has no baseline of these circumstances and `saves` will not make one. Returns how
// many runs the smallest baseline has, or 0 if one is missing.
int64_t runs_in_baselines(const Plan& plan) {
  int64_t least = 0;
  bool missing = false;
  for (const Rung& rung : plan.rungs) {
    const Record expected = expected_record(plan, rung);
    const fs::path file = baseline_file(plan.gate->baselines, expected);
    if (!fs::exists(file)) {
      missing = true;
      if (plan.gate->saves) continue;
      throw harness::Unfit(fmt::format(
          "there is no baseline for \"{}\" on this device ({}); ladder gate --baselines {} --save makes one",
          rung.title, file.string(), plan.gate->baselines));
    }
    const auto baseline = read_document<Baseline>(file);
    const std::vector<std::string> differing = other_circumstances(baseline, expected);
    if (!differing.empty() && !plan.gate->force) {
      missing = true;  // --save makes a new one
      if (plan.gate->saves) continue;
      throw harness::Unfit(
          fmt::format("the baseline of \"{}\" was made under other circumstances ({}): {}; ladder gate --baselines {} "
                      "--save replaces it, --force compares anyway",
                      rung.title, file.string(), fmt::join(differing, "; "), plan.gate->baselines));
    }
    check_baseline(baseline, file);
    const auto steps = differing.empty() ? other_steps(baseline, expected) : std::vector<std::string>{};
    // --save must not overwrite it, either: no run would have been compared with it.
    if (!steps.empty() && !plan.gate->force) {
      throw harness::Unfit(
          fmt::format("the baseline of \"{}\" has other steps ({}): {}; --baselines names another folder, --force "
                      "compares anyway",
                      rung.title, file.string(), fmt::join(steps, "; ")));
    }
    const int64_t runs = std::ssize(baseline.records);
    least = least == 0 ? runs : std::min(least, runs);
  }
  return missing ? 0 : least;
}

Plan gate_plan(const GateFlags& flags) {
  int64_t pairs = pairs_of(flags);
  Plan plan = make_plan(
      {.workload = flags.workload, .ladder = flags.ladder, .repeats = 1, .order_seed = 0, .limit_s = flags.limit_s},
      OwnAre::as_listed);
  const bool both = flags.calibrate || !flags.base.empty();
  plan.gate = terms_of(flags, pairs);
  const std::string head = program_of("--head", flags.head);
  const std::string base = flags.calibrate ? head : both ? program_of("--base", flags.base) : "";
  std::vector<Rung> arms;
  const Ladder ladder = load_ladder(chosen_ladder(flags.ladder));
  for (const size_t rung : chosen_rungs(ladder, plan.rungs, flags.rungs)) add_arms(arms, plan.rungs[rung], base, head);
  const std::string head_sha256 = sha256_of(head), base_sha256 = base.empty() ? "" : sha256_of(base);
  for (size_t i = 0; i < arms.size(); ++i) arms[i].program_sha256 = is_base(arms, i) ? base_sha256 : head_sha256;
  plan.rungs = std::move(arms);
  plan.workload.tokens = check_workload(plan);
  plan.reference = 0;
  plan.id = "gate-" + plan.id;
  if (!both) {
    const int64_t stored = runs_in_baselines(plan);
    if (stored > 0 && stored < pairs + plan.gate->top_up) {
      pairs = std::min(pairs, stored);
      plan.gate->top_up = stored - pairs;
      fmt::print(stderr, "note: a baseline has only {}, so there are no more pairs\n", number_of(stored, "run"));
    }
    if (stored == 0) {  // a new baseline needs all runs at once
      pairs += plan.gate->top_up;
      plan.gate->top_up = 0;
    }
  }
  plan.repeats = pairs + plan.gate->top_up;
  plan.runs = abba(plan.rungs, plan.repeats, flags.blocked);
  return plan;
}

Plan open_gate(const fs::path& folder) {
  Plan plan = open_study(folder);
  if (!plan.gate) {
    throw std::invalid_argument(
        fmt::format("{}: is a study, not a gate; resume it with: ladder ablate --resume", folder.string()));
  }
  return plan;
}

// A plan names programs to run and a folder to write into. Anybody may have prepared it, so the flags must name them
// again. They must be those that the gate began with.
void take_programs(Plan& plan, const fs::path& folder, const GateFlags& flags) {
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    Rung& rung = plan.rungs[i];
    const bool by_base_flag = is_base(plan.rungs, i) && !plan.gate->calibrates;
    const char* const flag = by_base_flag ? "--base" : "--head";
    const std::string& named = by_base_flag ? flags.base : flags.head;
    const std::string program = program_of(flag, named);
    const bool is_same =
        rung.program_sha256.empty() ? program == rung.program : sha256_of(program) == rung.program_sha256;
    if (!is_same && named.empty()) {
      throw std::invalid_argument(
          fmt::format("{}: its plan names the program {}, but a folder cannot decide which program is run; "
                      "name it with {} PATH",
                      folder.string(), rung.program, flag));
    }
    if (!is_same) {
      throw std::invalid_argument(fmt::format("{} {}: is not the program that this gate began with, {}{}", flag, named,
                                              rung.program,
                                              program == rung.program ? ", whose content was different" : ""));
    }
    rung.program = program;
  }
}

void check_baselines_are_named(const Plan& plan, const fs::path& folder, const GateFlags& flags) {
  const fs::path named = fs::weakly_canonical(fs::absolute(flags.baselines));
  if (!plan.gate->saves || fs::weakly_canonical(plan.gate->baselines) == named) return;
  throw std::invalid_argument(
      fmt::format("{}: its plan saves baselines into {}, but a folder cannot decide where files are written; "
                  "name it with --baselines {}",
                  folder.string(), plan.gate->baselines, plan.gate->baselines));
}

// The command that resumes the gate of these flags.
std::string resume_command(const GateFlags& flags, const fs::path& out) {
  std::string words = "ladder gate --resume --out " + files::printable(out.string());
  for (const auto& [flag, value] : {std::pair{"--base", flags.base}, {"--head", flags.head}}) {
    if (!value.empty()) words += fmt::format(" {} {}", flag, files::printable(value));
  }
  const bool names_baselines = flags.baselines != usual_baselines;
  return words + (names_baselines ? " --baselines " + files::printable(flags.baselines) : "");
}

std::optional<GateResult> stored_result(const fs::path& folder) {
  const fs::path file = folder / "gate.json";
  return fs::exists(file) ? std::optional(read_document<GateResult>(file)) : std::nullopt;
}

bool measured_nothing(const GateResult& result) {
  return result.verdict == GateOutcome::unfit || result.verdict == GateOutcome::failed;
}

// The result of a gate that has ended; none if a run is missing. Judging it again would compare its saved baseline with
// itself.
std::optional<GateResult> ended_result(const Plan& plan, const fs::path& folder) {
  std::optional<GateResult> result = stored_result(folder);
  if (!result || measured_nothing(*result)) return std::nullopt;
  const auto is_missing = [&](const PlannedRun& run) {
    return run.repeat < result->pairs && !fs::exists(record_file(folder, run.id));
  };
  if (std::ranges::any_of(plan.runs, is_missing)) return std::nullopt;
  return result;
}

Unsaved read_unsaved(const fs::path& file) {
  const Json json = files::parse_json(files::read_file(file), file.string());
  try {
    return value_from<Unsaved>(json, "it");
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(
        fmt::format("{}: was not written by a gate ({}); delete it to resume without it", file.string(), error.what()));
  }
}

// Saves the baselines of a gate that was interrupted while saving. The verdict stays: some are saved already and would
// be compared with themselves.
void save_unsaved(const Plan& plan, const fs::path& folder) {
  const Unsaved unsaved = read_unsaved(folder / unsaved_file);
  const std::optional<GateResult> result = ended_result(plan, folder);
  if (result && unsaved.verdict_of == result->created) {
    check_records_are_of(plan, folder, Unnamed::refused);
    save(gate_verdict(first_pairs(plan, result->pairs), folder, result->pairs, result->topped_up).files);
  }
  fs::remove(folder / unsaved_file);
}

// Failures of an earlier attempt, which --resume keeps in the verdict although their runs are made again.
std::vector<std::string> earlier_failures(const fs::path& folder) {
  std::vector<std::string> lines;
  const std::optional<GateResult> before = stored_result(folder);
  if (!before) return lines;
  std::ranges::copy_if(before->warnings, std::back_inserter(lines),
                       [](const std::string& warning) { return warning.starts_with(earlier_attempt); });
  if (!measured_nothing(*before)) return lines;
  for (const std::string& reason : before->reasons) {
    lines.push_back(fmt::format("{} {}: {}", earlier_attempt, name_of(before->verdict), reason));
  }
  return lines;
}

}  // namespace

int gate_of_programs(const GateFlags& flags) {
  fs::path out = flags.out.empty() ? fs::path() : files::named_folder(flags.out);
  Plan plan;
  if (flags.resume) {
    plan = open_gate(out);
    check_has_no_links(out);
    if (fs::exists(out / unsaved_file)) {
      check_baselines_are_named(plan, out, flags);
      check_goes_on_here(plan, out, environment_here());
      save_unsaved(plan, out);
    }
    if (const auto result = ended_result(plan, out))
      return show(*result, out, printed_as(flags.json, flags.markdown, false));
    check_baselines_are_named(plan, out, flags);
    check_goes_on_here(plan, out, environment_here());
    take_programs(plan, out, flags);
    check_reads_elsewhere(out, inputs_of(plan));
    (void)check_workload(plan);
    if (!plan.rungs.back().against) (void)runs_in_baselines(plan);
  } else {
    plan = gate_plan(flags);
    if (out.empty()) out = fs::path("gates") / plan.id;
    check_may_begin(out);
  }
  const Occupied devices = occupy(devices_of(plan, plan.runs), "ladder gate", out, flags.wait);
  if (!flags.resume) {
    create_study(plan, out);
    for (const std::string& line : harness::disturbances()) fmt::print(stderr, "note: {}\n", line);
  }
  const Rung& head = plan.rungs.back();
  if (head.against) fmt::print(stderr, "base: {}\n", files::printable(plan.rungs[*head.against].program));
  fmt::print(stderr, "head: {}\n", files::printable(head.program));
  const std::vector<std::string> failures = earlier_failures(out);
  const Programs programs{};  // each rung names its own
  return run_gate(
      plan, out, [&](const Plan& part) { return children(part, out, programs); }, failures,
      "resume with: " + resume_command(flags, out), printed_as(flags.json, flags.markdown, false));
}

}  // namespace cli
