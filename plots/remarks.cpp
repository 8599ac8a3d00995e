#include "plots/remarks.h"

#include "files/printable.h"
#include "plots/again.h"
#include "plots/comparison_text.h"
#include "plots/gate_text.h"
#include "plots/headline_text.h"
#include "plots/sentences.h"
#include "study/gate/baseline_file.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

namespace plots {

using files::shortened;

namespace {

void say(std::vector<Remark>& remarks, Severity severity, const char* code, std::string text, std::string fix = "") {
  remarks.push_back({severity, code, std::move(text), std::move(fix)});
}

// The flags of runs that count.
std::vector<std::string> flags_of(const Study& study) {
  std::vector<std::string> flags;
  for (const StudyRung& rung : study.rungs) {
    std::ranges::copy(rung.flags.value_or(std::vector<std::string>{}), std::back_inserter(flags));
  }
  return flags;
}

// Disturbed runs that medians bear.
bool are_few(const std::vector<std::string>& flags, const Study& study) {
  return flags.empty() || 10 * std::ssize(flags) < study.plan.runs_ok;
}

Remark trust_of(const Study& study) {
  int64_t passed = 0, proofs = 0;
  struct Counted {
    int64_t following = 0, all = 0;
  } own, peers;
  for (const StudyRung& rung : study.rungs) {
    proofs += rung.peer ? 0 : std::ssize(rung.proofs);
    passed += rung.peer ? 0 : std::ranges::count(rung.proofs, true, &Proof::passed);
    if (!rung.guard) continue;
    Counted& of = rung.peer ? peers : own;
    ++of.all;
    of.following += rung.guard->passed ? 1 : 0;
  }
  const StudyPlan& plan = study.plan;
  const bool is_whole = plan.runs_ok == static_cast<int64_t>(plan.runs_planned);
  const bool is_of_commands = of_commands(study);
  std::string text = fmt::format("{} of {} runs", plan.runs_ok, plan.runs_planned);
  const auto is_unproven = [](const StudyRung& rung) {
    return !rung.peer && !is_left_out(rung) && rung.proofs.empty();
  };
  if (plan.runs_ok == 0) {
    text += ", nothing measured";
  } else if (why_unusable(study)) {
    text += ", not usable";
  } else if (is_of_commands) {
    const bool none_read = std::ranges::any_of(
        study.rungs, [](const StudyRung& rung) { return rung.command->losses.starts_with("none read"); });
    if (own.all == 0 && study.rungs.size() > 1) {
      text += none_read ? ", losses: none read, not guarded" : ", losses not compared";
    }
  } else {
    const bool is_whole_ladder = passed == proofs && std::ranges::none_of(study.rungs, is_unproven);
    text += is_whole_ladder ? fmt::format(", every rung proven. {} proofs passed", passed)
                            : fmt::format(", {} of {} proofs passed", passed, proofs);
  }
  for (const auto& [of, what] :
       {std::pair(&own, is_of_commands ? "command" : "rung"), std::pair(&peers, "PyTorch mode")}) {
    if (of->all > 0) {
      text += fmt::format(". The losses of {} of {} follow the reference's", of->following, number_of(of->all, what));
    }
  }
  const bool is_good = is_whole && passed == proofs && own.following == own.all && peers.following == peers.all &&
                       are_few(flags_of(study), study) && rungs_without_number(study).empty();
  return {is_good ? Severity::good : Severity::info, "trust", text + ".", ""};
}

void add_disturbances(const Study& study, const std::vector<ReportedRun>& runs, std::vector<Remark>& remarks) {
  const std::vector<std::string> flags = flags_of(study);
  if (const auto unusable = why_unusable(study)) {
    say(remarks, Severity::bad, "unusable",
        fmt::format("Nothing is claimed: {}{}.", unusable->what,
                    flags.empty() ? "" : ": " + shortened(flags.front(), 120)),
        capitalized(unusable->remedy) + (study.from_logs ? "." : " and begin a new study."));
  } else if (!flags.empty()) {
    const bool few = are_few(flags, study);
    say(remarks, few ? Severity::info : Severity::warn, "disturbed",
        fmt::format("{} of {} disturbed: {}.", flags.size(),
                    number_of(study.plan.runs_ok, "run") + (flags.size() == 1 ? " was" : " were"),
                    shortened(flags.front(), 120)),
        few ? "" : capitalized(remedy_for(flags)) + " and measure again.");
  }
  const auto again = std::ranges::count_if(runs, [](const ReportedRun& run) {
    return run.status == RunStatus::ok && run.first_flags && !run.first_flags->empty();
  });
  const auto twice = std::ranges::count_if(
      runs, [](const ReportedRun& run) { return !run.flags.empty() && run.first_flags && !run.first_flags->empty(); });
  if (again > 0) {
    say(remarks, Severity::info, "repeated",
        fmt::format("{} disturbed the first time and made again.",
                    number_of(again, "run") + (again == 1 ? " was" : " were")) +
            (twice > 0 ? fmt::format(" {} disturbed once more.", twice) : ""));
  }
}

// The floor that is for the number of pairs nearest to the study's.
void add_noise(const Study& study, const std::vector<Noise>& noise, std::vector<Remark>& remarks) {
  const int64_t repeats = study.plan.repeats;
  const auto distance = [&](const Noise& one) { return std::abs(floor_at(one, repeats).pairs - repeats); };
  const Noise* nearest = nullptr;
  for (const Noise& one : noise) {
    if (!one.floors.empty() && (nearest == nullptr || distance(one) <= distance(*nearest))) nearest = &one;
  }
  if (nearest == nullptr) return;
  const Floor& floor = floor_at(*nearest, repeats);
  say(remarks, Severity::info, "noise-floor",
      fmt::format("Noise floor here: {} with {} of runs; a larger difference is found in 95 % of studies ({}).",
                  percent(floor.floor), number_of(floor.pairs, "pair"), shortened(nearest->label, 60)));
}

// nullptr: none is such.
const StudyRung* last_of(const Study& study, const auto& is_such) {
  const auto last = std::find_if(study.rungs.rbegin(), study.rungs.rend(), is_such);
  return last == study.rungs.rend() ? nullptr : &*last;
}

// Then its flag was read.
bool is_another_training(const StudyRung& rung) { return rung.training && rung.training->verdict == Sameness::another; }

// What nobody has proven of commands, and what was seen.
void add_looks(const Study& study, std::vector<Remark>& remarks) {
  std::vector<std::string> unseen;
  // A command with PyTorch was looked at; if nothing was seen, a note has said why.
  bool may_be_asked = study.typed && std::ranges::count(study.typed->flags, "--no-look") > 0;
  for (const StudyRung& rung : study.rungs) {
    if (!rung.command) continue;
    if (!rung.command->stated.empty()) {
      std::vector<std::string> said;
      for (const auto& [name, value] : rung.command->stated) said.push_back(name + " " + value);
      say(remarks, Severity::info, "stated",
          fmt::format("Stated by {} itself, unchecked: {}.", in_quotes(rung.title), fmt::join(said, ", ")));
    }
    const bool is_proven = !rung.proofs.empty() && std::ranges::all_of(rung.proofs, &Proof::passed);
    if (&rung == &study.rungs.front() || is_proven) continue;
    if (!rung.command->seen) {
      unseen.push_back(in_quotes(shortened(rung.title, 40)));
      may_be_asked = may_be_asked || !rung.command->versions.contains("torch");
    } else if (rung.command->seen->empty() && !is_another_training(rung)) {
      say(remarks, Severity::warn, "nothing-differs",
          fmt::format("Nothing that can be seen differs with {}: is the flag read?", in_quotes(rung.title)));
    }
  }
  if (unseen.empty() || study.from_logs) return;
  say(remarks, Severity::info, "not-proven",
      fmt::format("Not proven: nobody looked whether {} took effect.", fmt::join(unseen, ", ")),
      may_be_asked ? "`ladder measure --look` asks PyTorch." : "");
}

// Of a mean step, where it matters to one of them.
void add_input_waits(const Study& study, std::vector<Remark>& remarks) {
  constexpr double matters = 0.05;  // of a step
  constexpr size_t most = 4;
  std::vector<std::string> waits;
  double largest = 0;
  bool by_look = false;
  for (const StudyRung& rung : study.rungs) {
    if (!rung.command || !rung.command->input) continue;
    const InputWait& input = *rung.command->input;
    largest = std::max(largest, input.share());
    by_look = by_look || input.by_look;
    if (waits.size() < most) {
      waits.push_back(fmt::format("{} {} of {} ms", in_quotes(rung.title),
                                  input.share() < 0.005 ? "0" : digits3(input.wait_ms), digits3(input.step_ms)));
    }
  }
  if (largest < matters) return;
  say(remarks, Severity::info, "input",
      fmt::format("The host waits for input in a step{}: {}.", by_look ? ", seen by looking at a few" : "",
                  fmt::join(waits, ", ")),
      "More workers of the loader, or batches that are made ahead, may hide it.");
}

// Commands of which the processor works much less than their time tells, beside the first one that was measured. On a
// GPU the processor's work says little.
void add_work(const Study& study, std::vector<Remark>& remarks) {
  constexpr double much = 1.5;
  if (study.device.kind != DeviceKind::cpu) return;
  const StudyRung* first = nullptr;
  std::vector<std::string> works;
  for (const StudyRung& rung : study.rungs) {
    if (!rung.command || !rung.command->cpu_ms || !rung.is_measured()) continue;
    if (first == nullptr) first = &rung;
    const StudyCommand &own = *rung.command, &its = *first->command;
    if (*own.cpu_ms * its.mean_ms * much >= *its.cpu_ms * own.mean_ms || works.size() == 4) continue;
    works.push_back(fmt::format("{} {} of {} ms", in_quotes(rung.title), digits3(*own.cpu_ms), digits3(own.mean_ms)));
  }
  if (works.empty()) return;
  say(remarks, Severity::info, "work",
      fmt::format("The processor works less than the time tells: {} ms of a step of {} in {}, {}.",
                  digits3(*first->command->cpu_ms), digits3(first->command->mean_ms), in_quotes(first->title),
                  fmt::join(works, ", ")),
      "Does it make all of the work? docs/tricks.md lists what can look faster than it is.");
}

std::vector<Remark> remarks_of(const Study& study, const std::vector<ReportedRun>& runs,
                               const std::vector<Noise>& noise) {
  std::vector<Remark> remarks = found_remarks(study.found);
  add_disturbances(study, runs, remarks);
  const auto failed = rungs_without_number(study);
  for (size_t i = 0; i < std::min<size_t>(failed.size(), 3); ++i) {
    say(remarks, Severity::bad, "no-number",
        fmt::format("{}{} has no number: {}.", in_quotes(swept_words(study, *failed[i]) + failed[i]->title),
                    failed[i]->peer && failed[i]->against
                        ? " beside " + in_quotes(study.rungs.at(*failed[i]->against).title)
                        : "",
                    shortened(why_no_number(*failed[i]), 240)));
  }
  if (failed.size() > 3) {
    say(remarks, Severity::bad, "no-number",
        fmt::format("{} more have no number.", number_of(std::ssize(failed) - 3, "rung")));
  }
  if (study.headline && study.headline->planned && *study.headline->planned != study.headline->first) {
    say(remarks, Severity::warn, "reference",
        fmt::format("{} has no number that counts, so {} is the reference.",
                    in_quotes(study.rungs[*study.headline->planned].title),
                    in_quotes(study.rungs[study.headline->first].title)));
  }
  if (study.quick && !why_unusable(study)) {
    say(remarks, Severity::info, "quick", "A quick look: the first and the last rung.",
        "`ladder ablate --resume --out FOLDER` measures the others.");
  }
  if (!study.finished) {
    say(remarks, Severity::info, "unfinished",
        fmt::format("Unfinished: {} of {} planned runs are in.", study.plan.runs_ok, study.plan.runs_planned),
        of_commands(study) ? "`ladder measure --resume --out FOLDER` and the same commands make the others."
                           : "`ladder ablate --resume --out FOLDER` makes the others.");
  }
  if (!why_unusable(study)) {
    for (const std::string& warning : study.warnings) say(remarks, Severity::warn, "warning", capitalized(warning));
  }
  add_looks(study, remarks);
  if (!why_unusable(study)) {
    add_input_waits(study, remarks);
    add_work(study, remarks);
  }
  if (study.environment.git_dirty == true && !of_commands(study)) {
    say(remarks, Severity::info, "changed-program", "The program had changes that were not committed.");
  }
  const auto is_limited = [](const StudyRung& rung) { return rung.clock && rung.clock->is_power_limited(); };
  if (const StudyRung* last = last_of(study, is_limited)) {
    say(remarks, Severity::info, "power-limit",
        fmt::format("{} at the GPU's power limit, which lowers the SM clock: {} at {}.",
                    number_of(std::ranges::count_if(study.rungs, is_limited), "rung"), in_quotes(last->title),
                    clock_words(study, *last)));
  }
  if (study.device.kind == DeviceKind::cpu && !study.from_logs) {
    say(remarks, Severity::info, "cpu", "These are CPU figures; they say nothing about a GPU.");
  }
  if (const StudyRung* last = last_of(study, [](const StudyRung& rung) { return mfu_of(rung).has_value(); })) {
    const Mfu& mfu = *last->mfu;
    say(remarks, Severity::info, "mfu",
        fmt::format("MFU: {}, {:.4g} TFLOP/s ({}).", mfu.formula, mfu.peak_flops.value_or(0) / 1e12,
                    mfu.peak_source.value_or("no source")));
  }
  add_noise(study, noise, remarks);
  remarks.push_back(trust_of(study));
  return sorted(std::move(remarks));
}

// ---- two studies

// By their devices, if these differ.
std::pair<std::string, std::string> names_of_two(const Report& report) {
  const auto named = [&](size_t i) {
    const std::string device = short_device(report.studies.at(i).study.device.name);
    return device.substr(0, device.rfind(", "));
  };
  return named(0) == named(1) ? std::pair<std::string, std::string>("A", "B") : std::pair(named(0), named(1));
}

// The two compared at the last rung that both have.
std::string headline_of_two(const Report& report) {
  for (const ReportedStudy& entry : report.studies) {
    if (const auto unusable = why_unusable(entry.study)) return "Not usable: " + unusable->what;
  }
  if (!report.comparison || report.comparison->entries.empty()) return "The two studies have no rung in common";
  const ComparedRecipe& last = report.comparison->entries.back();
  const std::string name = in_quotes(last.label.starts_with("+ ") ? last.label.substr(2) : last.label);
  const auto [a, b] = names_of_two(report);
  if (!last.unusable.empty()) return fmt::format("Not usable at {}: {}", name, last.unusable);
  switch (last.verdict) {
    case harness::Verdict::regression:
      return fmt::format("{} is {} slower than {} at {}", b, times(last.ratio), a, name);
    case harness::Verdict::improvement:
      return fmt::format("{} is {} faster than {} at {}", b, times(1 / last.ratio), a, name);
    case harness::Verdict::same:
      return fmt::format("{} and {} take the same time at {}", a, b, name);
    case harness::Verdict::inconclusive:
      break;
  }
  return fmt::format("No clear difference at {}: {} takes {} the time of {}", name, b, times(last.ratio), a);
}

// The rungs at which it is the other way than at the last one. Empty: there is none.
std::string other_way(const Comparison& comparison, const std::string& b) {
  using harness::Verdict;
  if (comparison.entries.empty()) return "";
  const Verdict last = comparison.entries.back().verdict;
  const Verdict other = last == Verdict::regression ? Verdict::improvement : Verdict::regression;
  std::vector<std::string> names;
  for (const ComparedRecipe& entry : comparison.entries) {
    if (entry.verdict != other || (last != Verdict::regression && last != Verdict::improvement)) continue;
    names.push_back(fmt::format("{} ({})",
                                in_quotes(entry.label.starts_with("+ ") ? entry.label.substr(2) : entry.label),
                                times(other == Verdict::improvement ? 1 / entry.ratio : entry.ratio)));
  }
  if (names.empty()) return "";
  return fmt::format("{} is {} at {}.", b, other == Verdict::improvement ? "faster" : "slower", fmt::join(names, ", "));
}

}  // namespace

StudySaid said_of(const Study& as_measured, const std::vector<ReportedRun>& runs, const std::vector<Noise>& noise) {
  const Study study = without_claims(as_measured);
  StudySaid said{{.title = title_of(study),
                  .headline = study.found.empty() ? headline_of(study) : headline_of_found,
                  .lines = why_unusable(study) && !study.judgment ? std::vector<std::string>{} : lines_of(study),
                  .remarks = remarks_of(study, runs, noise),
                  .command = command_again(study)},
                 {},
                 {}};
  for (const StudyRung& rung : study.rungs) {
    said.rungs.push_back({.reason = rung.is_measured() && rung.ms_per_step ? "" : why_no_number(rung),
                          .guard = rung.command ? rung.command->losses
                                   : rung.guard ? guard_words(*rung.guard)
                                                : ""});
    if (has_number(rung)) said.alone = commands_of_rung(study, rung);
  }
  return said;
}

Said said_of(const Report& report) {
  const Study &a = report.studies.at(0).study, &b = report.studies.at(1).study;
  Said said{.title = "Two studies beside each other",
            .headline = headline_of_two(report),
            .lines = {},
            .remarks = {},
            .command = ""};
  if (report.comparison) {
    said.lines.push_back(other_way(*report.comparison, names_of_two(report).second));
    said.remarks = remarks_of(*report.comparison, sides_of_studies);
  }
  for (const auto& [side, study] : {std::pair("A", &a), std::pair("B", &b)}) {
    said.lines.push_back(fmt::format("{}: {}: {}.", side, title_of(*study), headline_of(without_claims(*study))));
  }
  std::erase(said.lines, "");
  return said;
}

Report with_said(Report report) {
  for (ReportedStudy& entry : report.studies) {
    std::vector<Noise> noise;
    for (const size_t place : entry.noise) noise.push_back(report.noise.at(place));
    entry.said = said_of(entry.study, entry.runs, noise);
  }
  if (report.studies.size() == 2) report.said = said_of(report);
  for (GateResult& gate : report.gates) gate.said = said_of(gate);
  return report;
}

}  // namespace plots
