#include "ablations/report/findings.h"

#include "ablations/profile/roofline.h"
#include "ablations/report/sentences.h"
#include "ablations/report/trust.h"
#include "ablations/report/unusable.h"
#include "ablations/text/figures.h"
#include "ablations/text/text.h"
#include "files/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ablations {

using files::shortened;

namespace {

constexpr size_t title_length = 84;  // of a title that names rungs

using RungPointers = std::vector<const StudyRung*>;

bool has_number(const StudyRung& rung) { return rung.is_measured() && rung.ms_per_step; }

// Without those of other programs.
RungPointers own_rungs(const Study& study, const std::function<bool(const StudyRung&)>& has) {
  RungPointers rungs;
  for (const StudyRung& rung : study.rungs) {
    if (!rung.peer && has(rung)) rungs.push_back(&rung);
  }
  return rungs;
}

// From the reference to the rung that the study leads with, where both have what the chart shows.
std::optional<std::pair<const StudyRung*, const StudyRung*>> change(const Study& study, const RungPointers& shown) {
  const std::optional<Lead> lead = lead_of(study);
  if (!lead) return std::nullopt;
  const auto is_shown = [&](const StudyRung* rung) { return std::ranges::find(shown, rung) != shown.end(); };
  if (!is_shown(lead->reference) || !is_shown(lead->rung)) return std::nullopt;
  return std::pair{lead->reference, lead->rung};
}

std::string in_quotes(const std::string& name, size_t length) {
  return fmt::format("\u201c{}\u201d", shortened(name, length));
}

std::string without_plus(const std::string& label) { return label.starts_with("+ ") ? label.substr(2) : label; }

std::string ladder_finding(const Study& study) {
  const std::optional<Lead> lead = lead_of(study);
  const std::string words = headline_words(study);
  if (!lead || !has_number(*lead->reference) || !has_number(*lead->rung)) return shortened(words, title_length);
  const std::string at = study.headline->fastest ? " at " + in_quotes(lead->rung->title, 30) : "";
  return fmt::format("{}{}, {} \u2192 {} per step", words, at, digits3(lead->reference->ms_per_step->median),
                     in_ms(lead->rung->ms_per_step->median));
}

// An optimization's worth.
struct NamedRatio {
  std::string name;
  Ratio ratio;

  [[nodiscard]] std::string quoted() const { return in_quotes(name, 30); }
  [[nodiscard]] std::string with_ratio() const { return quoted() + " " + times(ratio.ratio); }
};

bool is_clear(const NamedRatio& one) {
  const Direction direction = direction_of(one.ratio);
  return direction == Direction::slower || direction == Direction::faster;
}

bool may_be_equal(const Ratio& a, const Ratio& b) {
  return !a.lo || !a.hi || !b.lo || !b.hi || (*a.lo <= *b.hi && *b.lo <= *a.hi);
}

// The others that may be as much as this one.
std::vector<const NamedRatio*> rivals(const std::vector<NamedRatio>& worths, const NamedRatio& one) {
  std::vector<const NamedRatio*> list;
  for (const NamedRatio& other : worths) {
    if (&other != &one && may_be_equal(other.ratio, one.ratio)) list.push_back(&other);
  }
  return list;
}

// What may be nothing is not called worth most, and only what intervals tell apart is ranked.
std::string most_and_least(const std::vector<NamedRatio>& worths) {
  const NamedRatio& least = worths.back();
  std::vector<const NamedRatio*> clear;
  for (const NamedRatio& one : worths) {
    if (is_clear(one)) clear.push_back(&one);
  }
  if (clear.empty()) return "No optimization makes a clear difference";
  const NamedRatio& most = *clear.front();
  if (direction_of(most.ratio) == Direction::slower) {
    const NamedRatio& last = *clear.back();
    return fmt::format("No optimization clearly helps; {} clearly costs time, {}", last.quoted(),
                       times(last.ratio.ratio));
  }
  const std::vector<const NamedRatio*> equals = rivals(worths, most);
  const bool is_doubtful = std::ranges::any_of(equals, [](const NamedRatio* one) { return !is_clear(*one); });
  if (&most == &least || is_doubtful) return fmt::format("{} is worth {}", most.quoted(), times(most.ratio.ratio));
  std::string words;
  if (equals.empty()) {
    words = fmt::format("{} is worth most, {}", most.quoted(), times(most.ratio.ratio));
  } else {
    words = fmt::format("{} or {} is worth most", most.with_ratio(),
                        equals.size() == 1 ? equals[0]->with_ratio() : fmt::format("one of {} others", equals.size()));
  }
  if (!rivals(worths, least).empty()) return words;
  return fmt::format("{}; {} least, {}{}", words, least.quoted(), times(least.ratio.ratio),
                     is_clear(least) ? "" : ", no clear difference");
}

std::string attribution_finding(const Study& study) {
  std::vector<NamedRatio> worths;
  for (const Worth& worth : study.attribution.value_or(std::vector<Worth>{})) {
    if (worth.method != method_of(study.mode) || !worth.ratio) continue;
    worths.push_back({worth.title, {{worth.lo, worth.hi}, *worth.ratio, worth.repeats}});
  }
  if (worths.empty()) return "No optimization has a number";
  std::ranges::stable_sort(worths, std::ranges::greater{}, [](const NamedRatio& one) { return one.ratio.ratio; });
  const auto lacks_interval = [](const NamedRatio& one) { return !no_interval(one.ratio).empty(); };
  if (!std::ranges::all_of(worths, lacks_interval)) return most_and_least(worths);
  const NamedRatio &largest = worths.front(), &least = worths.back();
  const NamedRatio& most_repeats =
      *std::ranges::max_element(worths, {}, [](const NamedRatio& one) { return one.ratio.pairs; });
  return fmt::format("{}, {}",
                     worths.size() == 1 ? largest.with_ratio()
                                        : fmt::format("From {} to {}", largest.with_ratio(), least.with_ratio()),
                     no_interval(most_repeats.ratio));
}

const StudyRung& fastest_of(const RungPointers& rungs) {
  return **std::ranges::max_element(rungs, {}, [](const StudyRung* rung) { return rung->tokens_per_s->median; });
}

std::string sweep_finding(const Study& study, const RungPointers& with_speed) {
  const StudyRung& best = fastest_of(with_speed);
  const Median& rate = *best.tokens_per_s;
  const char* doubt = !rate.lo || !rate.hi                ? " (no interval)"
                      : tells_nothing(*rate.lo, *rate.hi) ? " (interval unknown)"
                                                          : "";
  return shortened(
      fmt::format("Up to {} tokens/s{}, at {}({})", count(rate.median), doubt, swept_words(study, best), best.title),
      title_length);
}

struct PeerPair {
  const StudyRung *own, *peer;
  Ratio ratio;
};

std::vector<PeerPair> compared_with_peers(const Study& study) {
  std::vector<PeerPair> pairs;
  for (const StudyRung& own : study.rungs) {
    for (const PeerRatio& pair : own.peers.value_or(std::vector<PeerRatio>{})) {
      const StudyRung& peer = study.rungs.at(pair.rung);
      if (!pair.ratio || !has_number(own) || !has_number(peer)) continue;
      pairs.push_back({&own, &peer, {{pair.lo, pair.hi}, *pair.ratio, pair.pairs.value_or(0)}});
    }
  }
  return pairs;
}

// Of the last rung that could be compared, with the fastest of its peers. The title names the rung if it is not the
// ladder's last. Times for which the title has no room are left to the bars.
std::string peers_finding(const Study& study) {
  std::vector<PeerPair> pairs = compared_with_peers(study);
  if (pairs.empty()) return "No rung could be compared with PyTorch";
  std::erase_if(pairs, [own = pairs.back().own](const PeerPair& pair) { return pair.own != own; });
  const auto& [own, peer, ratio] =
      *std::ranges::min_element(pairs, {}, [](const PeerPair& pair) { return pair.ratio.ratio; });
  std::string name = shortened(peer->title, 30);
  const RungPointers all = own_rungs(study, [](const StudyRung&) { return true; });
  if (study.mode != Mode::cumulative || own != all.back()) {
    name += " at " + in_quotes(swept_words(study, *own) + own->title, 30);
  }
  const std::string speedup = times(ratio.ratio) + " as fast", doubt = no_interval(ratio);
  std::string words = speedup + " as " + name;
  if (!doubt.empty()) {
    words = shortened(words, title_length - doubt.size() - 2) + ", " + doubt;
  } else if (direction_of(ratio) == Direction::unclear) {
    words = fmt::format("No clear difference from {}, {}", name, speedup);
  }
  const std::string whole = fmt::format("{}, {} against {} per step", words, in_ms(own->ms_per_step->median),
                                        in_ms(peer->ms_per_step->median));
  return files::length(whole) <= title_length ? whole : shortened(words, title_length);
}

std::optional<double> mfu_of(const StudyRung& rung) {
  return rung.mfu && *rung.mfu ? (*rung.mfu)->value : std::nullopt;
}

std::string throughput_finding(const Study& study, const RungPointers& with_speed) {
  if (const auto from_to = change(study, with_speed)) {
    const auto& [first, last] = *from_to;
    std::string words =
        fmt::format("{} \u2192 {} tokens/s", count(first->tokens_per_s->median), count(last->tokens_per_s->median));
    const std::optional<double> before = mfu_of(*first), after = mfu_of(*last);
    if (!after) return words;
    return fmt::format("{}, MFU {}{}", words, before ? percent(*before) + " \u2192 " : "", percent(*after));
  }
  const StudyRung& best = fastest_of(with_speed);
  const std::optional<double> share = mfu_of(best);
  std::string words = count(best.tokens_per_s->median) + " tokens/s" + (share ? ", MFU " + percent(*share) : "");
  if (with_speed.size() == 1) return words;
  return shortened(fmt::format("Up to {}: {}{}", words, swept_words(study, best), best.title), title_length);
}

// One unit for all sizes of a study.
struct MemoryUnit {
  const char* name = "GiB";
  double bytes = 1024.0 * 1024 * 1024, least = 0.05;
  int decimals = 1;

  [[nodiscard]] std::string text(int64_t size) const {
    const double value = static_cast<double>(size) / bytes;
    if (value > 0 && value < least) return decimals == 0 ? "<1" : "<0.1";
    return value >= 1000 ? number(value) : fmt::format("{:.{}f}", value, decimals);
  }
};

MemoryUnit unit_for(int64_t largest) {
  if (largest >= int64_t{1} << 30) return {};
  return {.name = "MiB", .bytes = 1024.0 * 1024, .least = 0.5, .decimals = 0};
}

// The parts of a rung's memory that were counted and take room.
std::vector<std::pair<const char*, int64_t>> memory_parts(const StudyRung& rung) {
  std::vector<std::pair<const char*, int64_t>> parts;
  if (!rung.memory) return parts;
  const RunMemory& memory = *rung.memory;
  for (const auto& [name, bytes] : {std::pair("weights", memory.weights_bytes),
                                    {"gradients", memory.gradients_bytes},
                                    {"optimizer state", memory.optimizer_bytes},
                                    {"16-bit weights", memory.weight_copies_bytes},
                                    {"activations", memory.activations_bytes}}) {
    if (bytes.value_or(0) > 0) parts.emplace_back(name, *bytes);
  }
  return parts;
}

// What the counted parts leave of the peak.
int64_t other_memory(const StudyRung& rung) {
  int64_t rest = *rung.peak_memory_bytes;
  for (const auto& [name, bytes] : memory_parts(rung)) rest -= bytes;
  return std::max<int64_t>(rest, 0);
}

std::string memory_finding(const Study& study, const RungPointers& with_peak) {
  const auto peak = [](const StudyRung* rung) { return *rung->peak_memory_bytes; };
  const auto [least, most] = std::ranges::minmax_element(with_peak, {}, peak);
  const MemoryUnit unit = unit_for(peak(*most));
  const auto span = [&](int64_t first, int64_t last) {
    const std::string before = unit.text(first), after = unit.text(last);
    return fmt::format("{}{} {}", before == after ? "" : before + " \u2192 ", after, unit.name);
  };
  const auto from_to = change(study, with_peak);
  if (!from_to) {
    return fmt::format("Peak memory {}{} {}", peak(*least) < peak(*most) ? unit.text(peak(*least)) + " to " : "",
                       unit.text(peak(*most)), unit.name);
  }
  const auto& [first, last] = *from_to;
  std::string words = "Peak memory " + span(peak(first), peak(last));
  const auto before = memory_parts(*first), after = memory_parts(*last);
  const auto bytes_of = [](const auto& part) { return part.second; };
  const auto largest = std::ranges::max_element(after, {}, bytes_of);
  if (largest == after.end()) return words;
  if (const int64_t other = other_memory(*last); other > largest->second) {
    return fmt::format("{}; largest part: libraries and temporaries, {}", words, span(other_memory(*first), other));
  }
  const auto same =
      std::ranges::find_if(before, [&](const auto& part) { return std::string_view(part.first) == largest->first; });
  if (same == before.end()) return words;
  return fmt::format("{}; largest part: {}, {}", words, largest->first, span(same->second, largest->second));
}

// The parts of a rung's own step, which is divided as the traced one is; of older studies of the traced step itself.
// The device's idle time is the last part.
std::vector<PhaseShare> phases_of(const RungProfile& profile) {
  std::vector<PhaseShare> parts;
  if (profile.step) {
    parts = profile.step->by_phase;
  } else {
    for (const PhaseTime& phase : profile.by_phase) parts.push_back({phase.phase, phase.ms});
  }
  for (PhaseShare& part : parts) {
    if (part.phase.empty()) part.phase = "no phase";
  }
  parts.push_back({"idle time", (profile.step ? profile.step->idle_ms : profile.idle_ms).value_or(0)});
  return parts;
}

std::string phases_finding(const Study& study, const RungPointers& traced) {
  const auto from_to = change(study, traced);
  const std::optional<Lead> lead = lead_of(study);
  if (lead && std::ranges::find(traced, lead->rung) == traced.end()) {
    return fmt::format("{} was not traced: `ladder profile --trace --rung {}`", in_quotes(lead->rung->title, 30),
                       lead->rung->optimization.value_or("start"));
  }
  const StudyRung& last = from_to ? *from_to->second : *traced.back();
  const std::vector<PhaseShare> parts = phases_of(*last.profile);
  const PhaseShare& largest = *std::ranges::max_element(parts, {}, &PhaseShare::ms);
  std::string before, busy;
  const auto share = [](const StudyRung& rung) {
    const std::optional<double>& known = rung.profile->busy_percent;
    return known ? fmt::format("{:.3g} %", *known) : "";
  };
  if (from_to) {
    const StudyRung& first = *from_to->first;
    const std::vector<PhaseShare> parts_before = phases_of(*first.profile);
    const auto same = std::ranges::find(parts_before, largest.phase, &PhaseShare::phase);
    if (same != parts_before.end()) before = digits3(same->ms) + " \u2192 ";
    if (!share(first).empty() && share(first) != share(last)) busy = share(first);
  }
  if (!busy.empty() && !share(last).empty()) busy += " \u2192 ";
  busy += share(last);
  return fmt::format("{} is the largest part of {}: {}{}{}", capitalized(shortened(largest.phase, 20)),
                     in_quotes(last.title, 24), before, in_ms(largest.ms), busy.empty() ? "" : "; device busy " + busy);
}

std::string energy_finding(const Study& study, const RungPointers& counted) {
  const auto joules = [](const StudyRung* rung) { return *rung->joules_per_token; };
  const RungPointers all = own_rungs(study, has_number);
  const auto [least, most] = std::ranges::minmax_element(counted, {}, joules);
  const bool in_joules = joules(*most) >= 1;
  const char* unit = in_joules ? "J" : "mJ";
  const auto text = [&](const StudyRung* rung) { return digits3(joules(rung) * (in_joules ? 1 : 1000)); };
  if (const auto from_to = change(study, counted)) {
    return fmt::format("{} \u2192 {} {} per token", text(from_to->first), text(from_to->second), unit);
  }
  std::string words = fmt::format("{} {} per token", text(*least), unit);
  if (counted.size() == 1) return words;
  if (counted.size() < all.size()) {
    return fmt::format("{} to {} {} per token; {} not known: too short a window", text(*least), text(*most), unit,
                       number_of(std::ssize(all) - std::ssize(counted), "rung"));
  }
  return shortened(fmt::format("Least energy: {}, {}{}", words, swept_words(study, **least), (*least)->title),
                   title_length);
}

// Empty where no record has the times of single steps.
std::string steps_finding(const Study& study, const std::vector<ReportedRun>& runs) {
  int64_t steps = 0, made = 0;
  for (const ReportedRun& run : runs) {
    const StudyRung& rung = study.rungs.at(run.rung);
    if (rung.peer || !has_number(rung) || run.step_ms.empty()) continue;
    ++made;
    steps += std::max<int64_t>(std::ssize(run.step_ms) - run.warmup_steps, 0);
  }
  if (steps == 0) return "";
  const std::string disturbed = disturbance_words(study, runs);
  return fmt::format("{} of {}{}", number_of(steps, "timed step"), number_of(made, "run"),
                     disturbed.empty() ? "" : "; " + disturbed);
}

// Empty where no rung's losses were compared.
std::string losses_finding(const Study& study, const std::vector<RungLosses>& losses) {
  const auto guarded = own_rungs(study, [&](const StudyRung& rung) {
    return rung.guard && std::ranges::find(losses, rung.index, &RungLosses::rung) != losses.end();
  });
  if (guarded.empty()) return "";
  const auto distance = [](const StudyRung* rung) {
    return judged_deviation(*rung->guard).value_or(std::numeric_limits<double>::infinity());
  };
  const auto named = [&](const StudyRung& rung) {
    return in_quotes(swept_words(study, rung) + without_plus(rung.label), 40);
  };
  RungPointers voided;
  std::ranges::copy_if(guarded, std::back_inserter(voided), [](const StudyRung* rung) { return !rung->guard->passed; });
  if (!voided.empty()) {
    const StudyRung& worst = **std::ranges::max_element(voided, {}, distance);
    return fmt::format("{} of {} {} void, {}: {}", voided.size(), number_of(std::ssize(guarded), "rung"),
                       voided.size() == 1 ? "is" : "are", named(worst), shortened(worst.guard->message, 110));
  }
  const RungGuard& worst = *(*std::ranges::max_element(guarded, {}, distance))->guard;
  return fmt::format(
      "{} what the reference learns: median difference {} nats at most (limit {})",
      guarded.size() == 1 ? named(*guarded[0]) + " learns" : fmt::format("All {} rungs learn", guarded.size()),
      plain(judged_deviation(worst).value_or(0)), plain(worst.tolerance));
}

std::string side_by_side_finding(const Report& report) {
  for (const ReportedStudy& entry : report.studies) {
    if (const std::string unusable = unusable_words(entry.study); !unusable.empty()) return unusable;
  }
  if (!report.comparison) {
    const auto fastest = [](const Study& study) -> std::string {
      const RungPointers rungs = own_rungs(study, has_number);
      if (rungs.empty()) return "no number";
      const auto median = [](const StudyRung* rung) { return rung->ms_per_step->median; };
      return in_ms(median(*std::ranges::min_element(rungs, {}, median)));
    };
    return fmt::format("Fastest step: {} in the first, {} in the second", fastest(report.studies[0].study),
                       fastest(report.studies[1].study));
  }
  if (report.comparison->entries.empty()) return "";
  const ComparedRecipe& last = report.comparison->entries.back();
  return fmt::format("{}: {}{} the time in the second, {} \u2192 {} per step{}{}",
                     shortened(without_plus(last.label), 30), last.loss.is_good() ? "" : "its losses differ; ",
                     times(last.ratio), digits3(last.base_ms), in_ms(last.head_ms),
                     last.verdict == harness::Verdict::inconclusive ? ", inconclusive" : "",
                     last.flags.empty() ? "" : ", of disturbed runs");
}

// Empty where no part has both a limit and a time.
std::string roofline_finding(const Roofline& roofline) {
  if (const std::string refutation = refutation_of(roofline); !refutation.empty()) {
    return "The limit was measured too low: " + refutation;
  }
  const auto above = [](const RooflineRow& part) {
    return part.ms_above.value_or(-std::numeric_limits<double>::infinity());
  };
  const auto worst = std::ranges::max_element(roofline.parts, {}, above);
  if (worst == roofline.parts.end() || !worst->ms_above || !worst->measured_ms) return "";
  return fmt::format("{} has most to gain, {} per step{}", capitalized(part_words(*worst)), in_ms(*worst->measured_ms),
                     worst->distance ? fmt::format(" against {} ideal", in_ms(worst->limit_ms)) : "");
}

void add(Findings& findings, const char* chart, const std::string& words) {
  if (!words.empty()) findings[chart] = words;
}

}  // namespace

Findings findings_of(const Study& study, const std::vector<ReportedRun>& runs, const std::vector<RungLosses>& losses) {
  Findings findings;
  const RungPointers with_speed =
      own_rungs(study, [](const StudyRung& rung) { return has_number(rung) && rung.tokens_per_s; });
  const RungPointers with_peak =
      own_rungs(study, [](const StudyRung& rung) { return has_number(rung) && rung.peak_memory_bytes; });
  const RungPointers traced = own_rungs(study, [](const StudyRung& rung) { return has_number(rung) && rung.profile; });
  const RungPointers counted =
      own_rungs(study, [](const StudyRung& rung) { return has_number(rung) && rung.joules_per_token; });
  if (study.mode == Mode::cumulative) findings["ladder"] = ladder_finding(study);
  if (method_of(study.mode)) findings["attribution"] = attribution_finding(study);
  if (study.mode == Mode::sweep && !with_speed.empty()) findings["sweep"] = sweep_finding(study, with_speed);
  if (std::ranges::any_of(study.rungs, [](const StudyRung& rung) { return rung.peers && !rung.peers->empty(); })) {
    findings["peers"] = peers_finding(study);
  }
  if (!with_speed.empty()) findings["throughput"] = throughput_finding(study, with_speed);
  if (!with_peak.empty()) findings["memory"] = memory_finding(study, with_peak);
  if (!traced.empty()) findings["phases"] = phases_finding(study, traced);
  add(findings, "steps", steps_finding(study, runs));
  add(findings, "losses", losses_finding(study, losses));
  if (!counted.empty()) findings["energy"] = energy_finding(study, counted);
  if (const std::string unusable = unusable_words(study); !unusable.empty()) {
    for (auto& [chart, words] : findings) words = unusable;
  }
  return findings;
}

std::string part_words(const RooflineRow& part) {
  const std::string name = part.part.value_or("");
  return shortened(part.phase == name ? name : part.phase + " " + name, 40);
}

const TraceDocument* trace_with_roofline(const Report& report) {
  const auto has_parts = [](const TraceDocument& trace) {
    return trace.roofline && std::ranges::any_of(trace.roofline->parts,
                                                 [](const RooflineRow& part) { return part.measured_ms.has_value(); });
  };
  const auto last = std::find_if(report.traces.rbegin(), report.traces.rend(), has_parts);
  return last == report.traces.rend() ? nullptr : &*last;
}

Findings findings_of(const Report& report) {
  Findings findings;
  if (report.studies.size() == 2) add(findings, "side_by_side", side_by_side_finding(report));
  if (const TraceDocument* trace = trace_with_roofline(report)) {
    add(findings, "roofline", roofline_finding(*trace->roofline));
  }
  return findings;
}

}  // namespace ablations
