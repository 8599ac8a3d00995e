#include "ablations/report/remarks.h"

#include "ablations/gate/baseline.h"
#include "ablations/report/again.h"
#include "ablations/report/comparison.h"
#include "ablations/report/gate.h"
#include "ablations/report/sentences.h"
#include "ablations/text/figures.h"
#include "ablations/text/text.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

namespace ablations {

using files::shortened;

namespace {

using Rungs = std::vector<const StudyRung*>;

bool has_number(const StudyRung& rung) { return !rung.peer && rung.is_measured() && rung.ms_per_step; }

std::string in_quotes(const std::string& name) { return fmt::format("\u201c{}\u201d", shortened(name, 40)); }

// "± 0.6 %" of an interval that lies near its middle, else "1.04× – 1.11×". Empty: there is none, or it tells nothing.
std::string spread(double ratio, const Bounds& bounds) {
  if (!bounds.lo || !bounds.hi || tells_nothing(*bounds.lo, *bounds.hi)) return "";
  const double half = std::max(*bounds.hi - ratio, ratio - *bounds.lo) / ratio;
  return half < 0.1 ? fmt::format("\u00b1 {:.2g} %", 100 * half) : times_between(*bounds.lo, *bounds.hi);
}

// "1.08× ± 0.6 %", "1.08× (one run)"
std::string ratio_words(double ratio, const Bounds& bounds) {
  const std::string interval = spread(ratio, bounds);
  return times(ratio) + (interval.empty() ? " (no interval)" : " " + interval);
}

// What the reference is. A rung that only moves the work to a GPU is float32 there.
std::string reference_words(const StudyRung& reference) {
  return reference.optimization == "gpu" ? "float32 on the same GPU" : in_quotes(reference.title);
}

Rungs rungs_without_number(const Study& study) {
  Rungs rungs;
  for (const StudyRung& rung : study.rungs) {
    const bool is_left_out = rung.status == RungStatus::not_applicable || rung.status == RungStatus::not_measured;
    if (!rung.is_measured() && !is_left_out && rung.status != RungStatus::missing) rungs.push_back(&rung);
  }
  return rungs;
}

// ---- other programs

// Of the last rung that could be compared: the fastest first. In a sweep of the last at the largest size.
struct Peers {
  const StudyRung* own = nullptr;
  std::vector<const PeerRatio*> ratios;
};

Peers peers_of(const Study& study) {
  Peers found;
  for (const StudyRung& rung : study.rungs) {
    std::vector<const PeerRatio*> ratios;
    if (!rung.peers || !has_number(rung)) continue;
    for (const PeerRatio& peer : *rung.peers) {
      if (peer.ratio) ratios.push_back(&peer);
    }
    if (!ratios.empty()) found = {&rung, std::move(ratios)};
  }
  std::ranges::stable_sort(found.ratios, {}, [](const PeerRatio* peer) { return *peer->ratio; });
  return found;
}

bool is_slower(const PeerRatio& peer) { return peer.hi && *peer.hi < 1; }

std::string peer_headline(const Study& study, const Peers& peers) {
  const PeerRatio& fastest = *peers.ratios.front();
  const std::string name = study.rungs[fastest.rung].title;
  const bool is_clear = fastest.lo && fastest.hi && (*fastest.lo > 1 || *fastest.hi < 1);
  if (is_clear) return fmt::format("{} as fast as {}", times(*fastest.ratio), name);
  return fastest.lo ? fmt::format("No clear difference from {}", name)
                    : fmt::format("{} as fast as {}, one run each", times(*fastest.ratio), name);
}

std::string peers_line(const Study& study, const Peers& peers) {
  if (peers.own == nullptr) {
    return study.mode == Mode::cumulative
               ? "Next to PyTorch: not measured; `ladder ablate --with-peer pytorch` runs it beside the last rung."
               : "";
  }
  std::vector<std::string> parts;
  for (const PeerRatio* peer : peers.ratios) {
    parts.push_back(fmt::format("{} of {}", ratio_words(*peer->ratio, *peer), study.rungs[peer->rung].title));
  }
  return fmt::format(
      "Speed next to PyTorch{}: {}.",
      varied_size(study) ? fmt::format(" at {}{}", swept_words(study, *peers.own), peers.own->title) : "",
      fmt::join(parts, " \u00b7 "));
}

// ---- headlines

// An optimization's worth.
struct NamedRatio {
  std::string name;
  Ratio ratio;

  [[nodiscard]] std::string words() const { return name + " " + times(ratio.ratio); }
};

// By the method of the study's mode, or, of a ladder, against the rung before; the largest first.
std::vector<NamedRatio> worths_of(const Study& study) {
  std::vector<NamedRatio> worths;
  if (study.mode == Mode::cumulative) {
    for (const StudyRung& rung : study.rungs) {
      if (has_number(rung) && rung.speedup_against)
        worths.push_back({shortened(rung.title, 40), *rung.speedup_against});
    }
  }
  for (const Worth& worth : study.attribution.value_or(std::vector<Worth>{})) {
    if (worth.method != method_of(study.mode) || !worth.ratio) continue;
    worths.push_back({shortened(worth.title, 40), {{worth.lo, worth.hi}, *worth.ratio, worth.repeats}});
  }
  std::ranges::stable_sort(worths, std::ranges::greater{}, [](const NamedRatio& one) { return one.ratio.ratio; });
  return worths;
}

std::vector<std::string> named(const std::vector<NamedRatio>& worths, Direction direction, size_t most) {
  std::vector<std::string> names;
  for (const NamedRatio& one : worths) {
    if (direction_of(one.ratio) == direction && names.size() < most) names.push_back(one.words());
  }
  return names;
}

// Only what intervals tell apart from nothing is ranked.
std::string worth_headline(const Study& study) {
  const std::vector<NamedRatio> worths = worths_of(study);
  if (worths.empty()) return "No optimization has a number";
  const NamedRatio &most = worths.front(), &least = worths.back();
  if (std::ranges::none_of(worths, [](const NamedRatio& one) { return one.ratio.lo.has_value(); })) {
    return fmt::format("From {} to {}, one run each", most.words(), least.words());
  }
  switch (direction_of(most.ratio)) {
    case Direction::faster: {
      const auto may_be_as_much = [&](const NamedRatio& other) { return other.ratio.hi >= most.ratio.lo; };
      const auto rivals = std::ranges::count_if(worths, may_be_as_much) - 1;
      return fmt::format(
          "{}{}", most.words(),
          rivals == 0 ? " is worth most" : fmt::format(", not told apart from {}", number_of(rivals, "other")));
    }
    case Direction::slower:
      return fmt::format("No optimization helps; {} costs most time", least.words());
    case Direction::unclear:
    case Direction::unknown:
      break;
  }
  return "No optimization makes a clear difference";
}

std::string sweep_headline(const Study& study) {
  const StudyRung* best = nullptr;
  for (const StudyRung& rung : study.rungs) {
    if (!has_number(rung) || !rung.tokens_per_s) continue;
    if (best == nullptr || rung.tokens_per_s->median > best->tokens_per_s->median) best = &rung;
  }
  return best == nullptr ? "No rung has a number"
                         : fmt::format("Up to {} tokens/s, at {}({})", count(best->tokens_per_s->median),
                                       swept_words(study, *best), shortened(best->title, 40));
}

std::string why_no_speedup(const Study& study) {
  const auto measured = std::ranges::count_if(study.rungs, has_number);
  if (measured > 1) return "no rung could be compared with the reference rung";
  if (measured == 1)
    return fmt::format("only {} has a number", in_quotes(std::ranges::find_if(study.rungs, has_number)->title));
  const Rungs others = rungs_without_number(study);
  return others.empty() ? "no rung has a number"
                        : fmt::format("no rung has a number ({})", status_words(*others.front()));
}

std::string speedup_headline(const Lead& lead) {
  const std::string ratio = times(lead.speedup->ratio), reference = reference_words(*lead.reference);
  switch (direction_of(*lead.speedup)) {
    case Direction::unknown:
      return fmt::format("{} the speed of {}, without an interval", ratio, reference);
    case Direction::unclear:
      return "No clear change from " + reference;
    case Direction::slower:
      return fmt::format("Slower: {} the speed of {}", ratio, reference);
    case Direction::faster:
      break;
  }
  return fmt::format("{} faster than {}", ratio, reference);
}

// A program beside the last rung that is clearly faster is said before anything else.
std::string headline_of(const Study& study) {
  if (const auto disturbance = disturbance_of_most(study)) return "Not usable: " + disturbance->what;
  const Peers peers = peers_of(study);
  const std::optional<Lead> lead = lead_of(study);
  const bool is_behind = peers.own != nullptr && study.mode == Mode::cumulative && is_slower(*peers.ratios.front());
  if (is_behind || (!lead && peers.own != nullptr && !varied_size(study))) return peer_headline(study, peers);
  if (lead) return speedup_headline(*lead);
  if (method_of(study.mode)) return worth_headline(study);
  return study.mode == Mode::sweep ? sweep_headline(study) : "No valid speedup: " + why_no_speedup(study);
}

// ---- lines

std::optional<double> mfu_of(const StudyRung& rung) {
  return rung.mfu && *rung.mfu ? (*rung.mfu)->value : std::nullopt;
}

// "3.6 → 44.9", or the second alone where the first is not known or no other.
std::string from_to(const std::string& before, const std::string& after) {
  return before.empty() || before == after ? after : before + " \u2192 " + after;
}

// Of the rung that the study leads with, from its reference; of a study with one rung, of that.
std::string figures_line(const Study& study) {
  const std::optional<Lead> lead = lead_of(study);
  const StudyRung* first = lead ? lead->reference : nullptr;
  const StudyRung* last = lead ? lead->rung : nullptr;
  if (!lead && std::ranges::count_if(study.rungs, has_number) == 1) {
    last = &*std::ranges::find_if(study.rungs, has_number);
  }
  if (last == nullptr || !last->ms_per_step) return "";
  const auto both = [&](const auto& text) { return from_to(first == nullptr ? "" : text(*first), text(*last)); };
  std::vector<std::string> parts{
      both([](const StudyRung& rung) { return rung.ms_per_step ? digits3(rung.ms_per_step->median) : ""; }) +
      " ms per step"};
  if (last->tokens_per_s) parts.push_back(count(last->tokens_per_s->median) + " tokens/s");
  if (mfu_of(*last)) {
    parts.push_back("MFU " + both([](const StudyRung& rung) { return mfu_of(rung) ? percent(*mfu_of(rung)) : ""; }));
  }
  if (last->peak_memory_bytes) {
    parts.push_back(both([](const StudyRung& rung) {
                      return rung.peak_memory_bytes ? fmt::format("{:.1f}", gib(*rung.peak_memory_bytes)) : "";
                    }) +
                    " GiB");
  }
  if (lead) {
    const std::string interval = spread(lead->speedup->ratio, *lead->speedup);
    if (!interval.empty()) {
      parts.push_back(fmt::format("{} {} ({:.4g} %, {} of runs)", times(lead->speedup->ratio), interval,
                                  100 * study.statistics.confidence, number_of(lead->speedup->pairs, "pair")));
    }
  }
  return fmt::format("{}", fmt::join(parts, " \u00b7 "));
}

std::vector<std::string> lines_of(const Study& study) {
  std::vector<std::string> lines{figures_line(study)};
  const std::vector<NamedRatio> worths = worths_of(study);
  const std::vector<std::string> faster = named(worths, Direction::faster, 4);
  std::vector<NamedRatio> least(worths.rbegin(), worths.rend());
  const std::vector<std::string> slower = named(least, Direction::slower, 3);
  if (!faster.empty()) lines.push_back(fmt::format("Most of it: {}.", fmt::join(faster, " \u00b7 ")));
  if (!slower.empty()) lines.push_back(fmt::format("Slower here: {}.", fmt::join(slower, " \u00b7 ")));
  if (study.headline && study.headline->fastest) {
    lines.push_back(fmt::format("At the ladder's last rung, {}, {} is left.",
                                in_quotes(study.rungs[study.headline->last].title),
                                times(study.headline->speedup.ratio)));
  }
  lines.push_back(peers_line(study, peers_of(study)));
  std::erase(lines, "");
  return lines;
}

// ---- remarks

// The flags of runs that count.
std::vector<std::string> flags_of(const Study& study) {
  std::vector<std::string> flags;
  for (const StudyRung& rung : study.rungs) {
    std::ranges::copy(rung.flags.value_or(std::vector<std::string>{}), std::back_inserter(flags));
  }
  return flags;
}

Remark trust_of(const Study& study) {
  int64_t passed = 0, proofs = 0, following = 0, guarded = 0;
  for (const StudyRung& rung : study.rungs) {
    proofs += rung.peer ? 0 : std::ssize(rung.proofs);
    passed += rung.peer ? 0 : std::ranges::count(rung.proofs, true, &Proof::passed);
    guarded += rung.guard ? 1 : 0;
    following += rung.guard && rung.guard->passed ? 1 : 0;
  }
  const StudyPlan& plan = study.plan;
  const bool is_whole = plan.runs_ok == static_cast<int64_t>(plan.runs_planned);
  std::string text =
      fmt::format("{} of {} runs, {}", plan.runs_ok, plan.runs_planned,
                  passed == proofs ? "every rung proven" : fmt::format("{} of {} proofs passed", passed, proofs));
  if (passed == proofs) text += fmt::format(". {} proofs passed", passed);
  if (guarded > 0) text += fmt::format(". The losses of {} of {} rungs follow the reference", following, guarded);
  const bool is_good = is_whole && passed == proofs && following == guarded && flags_of(study).empty();
  return {is_good ? Severity::good : Severity::info, "trust", text + ".", ""};
}

void add_disturbances(const Study& study, const std::vector<ReportedRun>& runs, std::vector<Remark>& remarks) {
  const std::vector<std::string> flags = flags_of(study);
  if (const auto disturbance = disturbance_of_most(study)) {
    remarks.push_back({Severity::bad, "unusable",
                       "Most runs were disturbed, so nothing is claimed: " + shortened(flags.front(), 120) + ".",
                       capitalized(disturbance->remedy) + " and begin a new study."});
  } else if (!flags.empty()) {
    remarks.push_back({Severity::warn, "disturbed",
                       fmt::format("{} of {} disturbed: {}.", flags.size(),
                                   number_of(study.plan.runs_ok, "run") + (flags.size() == 1 ? " was" : " were"),
                                   shortened(flags.front(), 120)),
                       capitalized(remedy_for(flags)) + " and measure again."});
  }
  const auto again = std::ranges::count_if(runs, [](const ReportedRun& run) {
    return run.status == RunStatus::ok && run.first_flags && !run.first_flags->empty();
  });
  if (again > 0) {
    remarks.push_back({Severity::info, "repeated",
                       fmt::format("{} disturbed the first time and made again.",
                                   number_of(again, "run") + (again == 1 ? " was" : " were")),
                       ""});
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
  remarks.push_back({Severity::info, "noise-floor",
                     fmt::format("This machine shows a difference of {} with {} of runs, in 95 % of studies ({}).",
                                 percent(floor.floor), number_of(floor.pairs, "pair"), shortened(nearest->label, 60)),
                     ""});
}

std::vector<Remark> remarks_of(const Study& study, const std::vector<ReportedRun>& runs,
                               const std::vector<Noise>& noise) {
  std::vector<Remark> remarks;
  add_disturbances(study, runs, remarks);
  const Rungs failed = rungs_without_number(study);
  for (size_t i = 0; i < std::min<size_t>(failed.size(), 3); ++i) {
    remarks.push_back(
        {Severity::bad, "no-number",
         fmt::format("{} has no number: {}.", in_quotes(swept_words(study, *failed[i]) + failed[i]->title),
                     shortened(why_no_number(*failed[i]), 240)),
         ""});
  }
  if (failed.size() > 3) {
    remarks.push_back({Severity::bad, "no-number",
                       fmt::format("{} more have no number.", number_of(std::ssize(failed) - 3, "rung")), ""});
  }
  if (study.headline && study.headline->planned && *study.headline->planned != study.headline->first) {
    remarks.push_back({Severity::warn, "reference",
                       fmt::format("{} has no number that counts, so {} is the reference.",
                                   in_quotes(study.rungs[*study.headline->planned].title),
                                   in_quotes(study.rungs[study.headline->first].title)),
                       ""});
  }
  if (study.quick) {
    remarks.push_back({Severity::info, "quick", "A quick look: a few rungs of the ladder.",
                       "`ladder ablate --resume --out FOLDER` measures the others."});
  }
  if (!study.finished) {
    remarks.push_back(
        {Severity::warn, "unfinished",
         fmt::format("Unfinished: {} of {} planned runs are in.", study.plan.runs_ok, study.plan.runs_planned),
         "`ladder ablate --resume --out FOLDER` makes the others."});
  }
  for (const std::string& warning : study.warnings) remarks.push_back({Severity::warn, "warning", warning, ""});
  if (study.environment.git_dirty == true) {
    remarks.push_back({Severity::info, "changed-program", "The program had changes that were not committed.", ""});
  }
  const auto is_limited = [](const StudyRung& rung) { return rung.clock && rung.clock->is_power_limited(); };
  const auto last = std::find_if(study.rungs.rbegin(), study.rungs.rend(), is_limited);
  if (last != study.rungs.rend()) {
    remarks.push_back({Severity::info, "power-limit",
                       fmt::format("{} at the GPU's power limit, which lowers the SM clock: {} at {}.",
                                   number_of(std::ranges::count_if(study.rungs, is_limited), "rung"),
                                   in_quotes(last->title), clock_words(study, *last)),
                       ""});
  }
  if (study.device.kind == model::Device::cpu) {
    remarks.push_back({Severity::info, "cpu", "These are CPU figures; they say nothing about a GPU.", ""});
  }
  if (const auto last = std::find_if(study.rungs.rbegin(), study.rungs.rend(),
                                     [](const StudyRung& rung) { return mfu_of(rung).has_value(); });
      last != study.rungs.rend()) {
    const Mfu& mfu = **last->mfu;
    remarks.push_back({Severity::info, "mfu",
                       fmt::format("MFU: {}, {:.4g} TFLOP/s ({}).", mfu.formula, mfu.peak_flops.value_or(0) / 1e12,
                                   mfu.peak_source.value_or("no source")),
                       ""});
  }
  add_noise(study, noise, remarks);
  remarks.push_back(trust_of(study));
  return sorted(std::move(remarks));
}

// ---- two studies

// The two compared at the last rung that both have.
std::string headline_of_two(const Report& report) {
  for (const ReportedStudy& entry : report.studies) {
    if (const auto disturbance = disturbance_of_most(entry.study)) return "Not usable: " + disturbance->what;
  }
  if (!report.comparison || report.comparison->entries.empty()) return "The two studies have no rung in common";
  const ComparedRecipe& last = report.comparison->entries.back();
  const std::string name = in_quotes(last.label.starts_with("+ ") ? last.label.substr(2) : last.label);
  switch (last.verdict) {
    case harness::Verdict::regression:
      return fmt::format("B is {} slower than A at {}", times(last.ratio), name);
    case harness::Verdict::improvement:
      return fmt::format("B is {} faster than A at {}", times(1 / last.ratio), name);
    case harness::Verdict::same:
      return "A and B take the same time at " + name;
    case harness::Verdict::inconclusive:
      break;
  }
  return fmt::format("No clear difference at {}: B takes {} A's time", name, times(last.ratio));
}

// The rungs at which it is the other way than at the last one. Empty: there is none.
std::string other_way(const Comparison& comparison) {
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
  return fmt::format("B is {} at {}.", other == Verdict::improvement ? "faster" : "slower", fmt::join(names, ", "));
}

}  // namespace

StudySaid said_of(const Study& as_measured, const std::vector<ReportedRun>& runs, const std::vector<Noise>& noise) {
  const Study study = without_claims(as_measured);
  StudySaid said{{.title = title_of(study),
                  .headline = headline_of(study),
                  .lines = disturbance_of_most(study) ? std::vector<std::string>{} : lines_of(study),
                  .remarks = remarks_of(study, runs, noise),
                  .command = command_again(study)},
                 {},
                 {}};
  for (const StudyRung& rung : study.rungs) {
    said.rungs.push_back({.reason = rung.is_measured() && rung.ms_per_step ? "" : why_no_number(rung),
                          .guard = rung.guard ? guard_words(*rung.guard) : ""});
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
    said.lines.push_back(other_way(*report.comparison));
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

}  // namespace ablations
