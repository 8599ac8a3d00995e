#include "cli/experiment.h"

#include "ablations/run/command_metric.h"
#include "ablations/run/command_trial.h"
#include "ablations/run/study_folder.h"
#include "cli/take_looks.h"
#include "files/printable.h"
#include "harness/process/utc.h"
#include "results/ledger.h"
#include "study/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

namespace cli {

namespace fs = std::filesystem;
using files::printable;
using harness::Decision;

namespace {

// docs/power.md: of gains of two noises of a run, these keep nine of ten.
constexpr int64_t usual_most_pairs = 16;
constexpr int64_t fewest_pairs = 2;  // one pair shows no noise

Ledger ledger_at(const fs::path& file) {
  if (fs::exists(file)) return read_document<Ledger>(file);
  return {.created = harness::utc_now()};
}

std::string metric_name(const Plan& plan) {
  return plan.commands->metric ? plan.commands->metric->name : "ms/" + plan.rungs[0].command->trial.unit();
}

LedgerEntry entry_of(const Plan& plan, const fs::path& out) {
  const Environment here = environment_of_commands();
  const std::vector<std::string>& gpus = plan.rungs[0].command->trial.gpus;
  return {.started = harness::utc_now(),
          .base = plan.rungs[0].command->trial.commit,
          .head = plan.rungs[1].command->trial.commit,
          .command = plan.rungs[0].command->text,
          .device = gpus.empty() ? here.cpu.model.value_or("an unknown processor") : gpus.front(),
          .metric = metric_name(plan),
          .expectation = *plan.commands->expects,
          .folder = out.string()};
}

// One line, what was found and the verdict first.
std::string json_line(const Judgment& judgment, const std::vector<Found>& found,
                      const std::optional<Expectation>& expected, const fs::path& out) {
  nlohmann::ordered_json line;
  for (const Found& one : found) line["found"].push_back(one.text);
  line.update({{"verdict", name_of(judgment.verdict)},
               {"ratio", judgment.pairs > 0 ? nlohmann::ordered_json(judgment.ratio) : nullptr},
               {"interval", nullptr},
               {"reasons", judgment.reasons},
               {"next", judgment.next},
               {"pairs", judgment.pairs},
               {"runs", judgment.runs},
               {"evidence", judgment.evidence},
               {"needed", judgment.needed},
               {"error_spent", expected ? expected->level : 0},
               {"experiment", nullptr},
               {"folder", out.string()}});
  if (judgment.lo && judgment.hi) line["interval"] = {*judgment.lo, *judgment.hi};
  if (expected && expected->number) line["experiment"] = *expected->number;
  return line.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

// Of a study in OUT, whose page is drawn.
void show(const StudyFiles& study, const fs::path& out, const Expectation& expected, const GateFlags& flags) {
  const Drawn drawn = try_draw_report(study, out);
  if (flags.json) {
    fmt::print("{}\n", json_line(*study.study.judgment, study.study.found, expected, out));
    return;
  }
  (void)show_study(study.study, printed_as(false, flags.markdown, false));
  if (!flags.markdown) fmt::print("{}", drawn.said);
}

std::optional<Metric> metric_in(const GateFlags& flags) {
  if (flags.metric.empty()) return std::nullopt;
  return metric_of(flags.metric, flags.better, flags.until);
}

Expectation expectation_in(const GateFlags& flags) {
  const std::optional<Metric> metric = metric_in(flags);
  Expectation expected = expectation_of(flags.expect, !metric || metric->pattern.empty());
  expected.most_pairs = flags.pairs.value_or(usual_most_pairs);
  if (flags.budget_s) expected.budget_s = static_cast<double>(*flags.budget_s);
  return expected;
}

}  // namespace

void check_experiment(const GateFlags& flags) {
  (void)expectation_in(flags);
  if (!flags.ledger.empty()) (void)ledger_at(flags.ledger);
}

void make_experiment(const GateFlags& flags, const std::vector<CommitSide>& sides, Plan& plan) {
  if (const std::optional<Metric> metric = metric_in(flags)) compare_by(*metric, plan);
  plan.commands->expects = expectation_in(flags);
  plan.repeats = plan.commands->expects->most_pairs;
  for (size_t i = 0; i < sides.size(); ++i) {
    plan.rungs[i].title = fmt::format("{} {}", sides[i].name, sides[i].commit.substr(0, 7));
  }
}

void tell_no_run(const GateFlags& flags, Decision verdict, const std::string& why) {
  if (!flags.json) return;
  Judgment judgment{.verdict = verdict, .reasons = {why}};
  judgment.next = verdict == Decision::discard ? "go back to base" : "mend what the reason says, and begin again";
  fmt::print("{}\n", json_line(judgment, {}, std::nullopt, {}));
  std::fflush(stdout);
}

int run_experiment(Plan plan, const fs::path& out, const GateFlags& flags,
                   const std::vector<std::set<fs::path>>& code) {
  const fs::path file = flags.ledger.empty() ? fs::path() : fs::absolute(flags.ledger);
  Expectation expected = *plan.commands->expects;
  std::optional<Ledger> ledger;
  LedgerEntry entry = entry_of(plan, out);
  if (!file.empty()) {
    ledger = ledger_at(file);
    const harness::PooledNoise noise = noise_of(*ledger, entry);
    expected.number = std::ssize(ledger->experiments) + 1;
    expected.level = level_of_next(*ledger);
    expected.noise_squares = noise.squares;
    expected.noise_freedom = noise.freedom;
    entry.expectation = expected;
    plan.commands->expects = expected;
    ledger->experiments.push_back(entry);
    write_document(file, *ledger);  // an interrupted experiment has spent its error, too
  }
  write_document(out / "plan.json", plan);
  if (plan.commands->guards_losses && !flags.no_look) take_looks(plan, out, /*all=*/false);
  const double pair_s = run_s(plan, plan.rungs[0].command->trial) + run_s(plan, plan.rungs[1].command->trial);
  const auto begun = std::chrono::steady_clock::now();
  const auto is_enough = [&](int64_t pairs) {
    if (pairs >= fewest_pairs) {
      const Judgment so_far = *study::analyse(plan, out).judgment;
      fmt::print(stderr, "{}\n", printable(so_far.reasons.front()));
      const bool repeats_itself =
          std::ranges::all_of(so_far.gains, [&](double gain) { return gain == so_far.gains[0]; });
      if (so_far.verdict != Decision::undecided || so_far.pairs < pairs || repeats_itself) return true;
    }
    const double used_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    return expected.budget_s && used_s + pair_s > *expected.budget_s;
  };
  if (carry_out(plan, out, commands(plan, out, code), 0, {}, is_enough).interrupted) {
    fmt::print(stderr, "interrupted; the ledger counts it as an experiment without a verdict\n");
    return 130;
  }
  const StudyFiles study = computed_study(plan, out);
  write_document(out / "study.json", study.study);
  if (ledger) {
    ledger->experiments.back().judgment = study.study.judgment;
    write_document(file, *ledger);
  }
  show(study, out, expected, flags);
  return results::exit_status(study.study.judgment->verdict);
}

}  // namespace cli
