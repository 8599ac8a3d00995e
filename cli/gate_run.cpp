#include "cli/gate_run.h"

#include "cli/draw.h"
#include "files/files.h"
#include "files/printable.h"
#include "plots/again.h"
#include "plots/gate_text.h"
#include "text/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <variant>

namespace cli {

namespace fs = std::filesystem;

int64_t pairs_of(const GateFlags& flags) { return flags.pairs.value_or(flags.calibrate ? 16 : 8); }

GateTerms terms_of(const GateFlags& flags, int64_t pairs) {
  return {.min_effect = flags.min_effect,
          .top_up = flags.calibrate ? 0 : flags.top_up.value_or(pairs),
          .baselines = fs::absolute(flags.baselines).string(),
          .calibrates = flags.calibrate,
          .saves = flags.save,
          .force = flags.force};
}

Plan first_pairs(Plan plan, int64_t pairs) {
  std::erase_if(plan.runs, [&](const PlannedRun& run) { return run.repeat >= pairs; });
  return plan;
}

void save(const std::vector<KeptFile>& files) {
  for (const KeptFile& file : files) {
    fs::create_directories(file.path.parent_path());
    std::visit([&](const auto& document) { write_document(file.path, document); }, file.document);
  }
}

namespace {

void write_and_save(const Judgement& judgement, const fs::path& folder) {
  const Unsaved unsaved{.verdict_of = judgement.result.created};
  if (!judgement.files.empty()) files::write_file(folder / unsaved_file, files::ascii_text(json_of(unsaved)));
  remove_drawn_gate(folder);
  write_document(folder / "gate.json", judgement.result);
  save(judgement.files);
  fs::remove(folder / unsaved_file);
}

}  // namespace

int show(const GateResult& result, const fs::path& out, Printed as) {
  (void)show_gate(result, out, as);
  tell_github(result);
  return result.exit_status;
}

int run_gate(const Plan& plan, const fs::path& out, const std::function<RunMaker(const Plan&)>& maker,
             const std::vector<std::string>& failures, const std::string& interrupted, Printed as) {
  const int64_t declared = plan.repeats - plan.gate->top_up;
  Judgement judgement;
  GateResult& result = judgement.result;
  std::vector<int64_t> looks = early_looks(plan);
  looks.insert(looks.end(), {declared, plan.repeats});
  for (const int64_t pairs : looks) {
    const Plan part = first_pairs(plan, pairs);
    fmt::print(stderr, "{} of {} into {}\n", number_of(std::ssize(part.runs), "run"),
               number_of(plan.warmup_steps + plan.timed_steps, "step"), files::printable(out.string()));
    if (carry_out(part, out, maker(part), 0).interrupted) {
      fmt::print(stderr, "completed runs are saved; {}\n", interrupted);
      return 130;
    }
    const bool is_early = pairs < declared;
    if (is_early && !is_decided_early(part, out)) continue;
    judgement = gate_verdict(part, out, pairs, pairs > declared);
    if (is_early) {
      fmt::print(stderr, "clear after {} of {} pairs, by an interval of 99.9 %\n", pairs, declared);
      break;
    }
    if (result.verdict != GateOutcome::inconclusive || pairs == plan.repeats) break;
    fmt::print(stderr, "inconclusive after {} pairs: the declared top-up of {} follows\n", pairs, plan.repeats - pairs);
  }
  for (const std::string& line : failures) {
    const auto is_reason = [&](const std::string& reason) { return line.ends_with(": " + reason); };
    if (std::ranges::none_of(result.reasons, is_reason)) result.warnings.push_back(line);
  }
  result.said = said_of(result);
  if (plan.typed) result.said.command = gate_command(*plan.typed);
  write_and_save(judgement, out);
  try {
    files::write_file(out / "summary.md", gate_markdown(result));
  } catch (const std::system_error& error) {  // the verdict still counts
    fmt::print(stderr, "ladder: the summary was not written: {}\n", files::printable(error.what()));
  }
  return show(result, out, as);
}

}  // namespace cli
