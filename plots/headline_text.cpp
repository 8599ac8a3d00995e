#include "plots/headline_text.h"

#include "files/printable.h"
#include "plots/sentences.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

namespace plots {

using files::shortened;

namespace {

// "± 0.6 %" of an interval that is narrow and lies evenly about its middle, else "[1.04× – 1.11×]". Empty: there is
// none, or it tells nothing.
std::string spread(double ratio, const Bounds& bounds) {
  if (!bounds.lo || !bounds.hi || tells_nothing(*bounds.lo, *bounds.hi)) return "";
  const double above = (*bounds.hi - ratio) / ratio, below = (ratio - *bounds.lo) / ratio;
  const double half = std::max(above, below);
  return half < 0.1 && std::min(above, below) > 0.7 * half ? fmt::format("\u00b1 {:.2g} %", 100 * half)
                                                           : fmt::format("[{}]", times_between(*bounds.lo, *bounds.hi));
}

// "1.08× ± 0.6 %", "1.08× (one run)"
std::string ratio_words(double ratio, const Bounds& bounds) {
  const std::string interval = spread(ratio, bounds);
  return times(ratio) + (interval.empty() ? " (no interval)" : " " + interval);
}

// What the reference is. A rung that only moves the work to a GPU is float32 there.
std::string reference_words(const StudyRung& reference) {
  return reference.optimization == "gpu" && !reference.command ? "float32 on the same GPU" : in_quotes(reference.title);
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

// nullptr: there is none.
const StudyRung* last_own(const Study& study) {
  const auto last = std::find_if(study.rungs.rbegin(), study.rungs.rend(), has_number);
  return last == study.rungs.rend() ? nullptr : &*last;
}

// A row beside an earlier rung that takes less time than the last rung; not if their intervals overlap. Empty: none.
std::string faster_row(const Study& study, const StudyRung& own) {
  if (varied_size(study) || !own.ms_per_step) return "";
  const StudyRung *fastest = &own, *beside = &own;
  for (const StudyRung& rung : study.rungs) {
    for (const PeerRatio& peer : rung.peers.value_or(std::vector<PeerRatio>{})) {
      const StudyRung& row = study.rungs[peer.rung];
      if (!row.is_measured() || !row.ms_per_step || row.ms_per_step->median >= fastest->ms_per_step->median) continue;
      const bool overlaps = row.speedup_first && own.speedup_first && row.speedup_first->lo && own.speedup_first->hi &&
                            *row.speedup_first->lo <= *own.speedup_first->hi;
      if (overlaps) continue;
      fastest = &row;
      beside = &rung;
    }
  }
  if (beside == &own) return "";
  return fmt::format(" {} beside {} takes {}, less than the {} of {}.", fastest->title, in_quotes(beside->title),
                     in_ms(fastest->ms_per_step->median), in_ms(own.ms_per_step->median), in_quotes(own.title));
}

std::string peers_line(const Study& study, const Peers& peers) {
  if (of_commands(study)) return "";
  if (peers.own == nullptr) {
    return study.mode == Mode::cumulative
               ? "Next to PyTorch: not measured; `ladder ablate --with-peer pytorch` runs it beside the last rung."
               : "";
  }
  std::vector<std::string> parts;
  for (const PeerRatio* peer : peers.ratios) {
    const std::string& title = study.rungs[peer->rung].title;
    parts.push_back(fmt::format("{} {}", title.starts_with("PyTorch ") ? title.substr(8) : title,
                                ratio_words(*peer->ratio, *peer)));
  }
  const std::string at = varied_size(study) || peers.own != last_own(study)
                             ? fmt::format(" at {}{}", swept_words(study, *peers.own), in_quotes(peers.own->title))
                             : "";
  return fmt::format("Speed over PyTorch's{}: {}.{}", at, fmt::join(parts, " \u00b7 "), faster_row(study, *peers.own));
}

// ---- headlines

// An optimization's worth.
struct NamedRatio {
  std::string name;
  Ratio ratio;
  size_t rung = 0;  // of a ladder

  [[nodiscard]] std::string words() const { return name + " " + times(ratio.ratio); }
};

// By the method of the study's mode, or, of a ladder, against the rung before; the largest first. A command's flag has
// no plus.
std::vector<NamedRatio> worths_of(const Study& study) {
  std::vector<NamedRatio> worths;
  if (study.mode == Mode::cumulative) {
    for (const StudyRung& rung : study.rungs) {
      if (has_number(rung) && rung.speedup_against)
        worths.push_back({shortened(rung.title.substr(rung.title.starts_with("+ ") ? 2 : 0), 40), *rung.speedup_against,
                          rung.index});
    }
  }
  for (const Worth& worth : study.attribution) {
    if (worth.method != method_of(study.mode) || !worth.ratio) continue;
    worths.push_back({shortened(worth.title, 40), {{worth.lo, worth.hi}, *worth.ratio, worth.repeats}});
  }
  std::ranges::stable_sort(worths, std::ranges::greater{}, [](const NamedRatio& one) { return one.ratio.ratio; });
  return worths;
}

std::vector<std::string> named(const std::vector<NamedRatio>& worths, Direction direction, size_t most) {
  std::vector<std::string> names;
  for (const NamedRatio& one : worths) {
    if (direction_of(one.ratio) != direction || names.size() == most) continue;
    names.push_back(direction == Direction::unclear ? one.name : one.words());
  }
  return names;
}

// "Keep --fused 1.13×; drop --bf16 0.68×; no clear change: --compile"
std::string worth_headline(const Study& study) {
  const std::vector<NamedRatio> worths = worths_of(study);
  if (worths.empty()) return "No optimization has a number";
  const NamedRatio &most = worths.front(), &least = worths.back();
  if (std::ranges::none_of(worths, [](const NamedRatio& one) { return one.ratio.lo.has_value(); })) {
    return fmt::format("From {} to {}, one run each", most.words(), least.words());
  }
  const bool of_flags = study.mode == Mode::cumulative;
  std::vector<std::string> parts;
  const auto add = [&](const char* words, const std::vector<std::string>& names) {
    if (!names.empty()) parts.push_back(fmt::format("{}{}", words, fmt::join(names, ", ")));
  };
  add(of_flags ? "keep " : "", named(worths, Direction::faster, 3));
  add(of_flags             ? "drop "
      : is_of_value(study) ? "worse with "
                           : "slower with ",
      named({worths.rbegin(), worths.rend()}, Direction::slower, 3));
  add("no clear change: ", named(worths, Direction::unclear, 3));
  return capitalized(fmt::format("{}", fmt::join(parts, "; ")));
}

// Of a study of worths, or of flags that were added to a command one after another.
bool leads_with_worths(const Study& study) {
  return method_of(study.mode) ||
         (of_commands(study) && lead_of(study) && study.mode == Mode::cumulative && study.rungs.size() > 2 &&
          std::all_of(study.rungs.begin() + 1, study.rungs.end(),
                      [](const StudyRung& rung) { return rung.command && rung.command->typed.starts_with("+ "); }));
}

// What a sweep shows at its largest size: the rung with the largest speedup that is clear. nullptr: none is.
const StudyRung* best_at_largest(const Study& study) {
  if (!varied_size(study)) return nullptr;
  int64_t largest = 0;
  for (const StudyRung& rung : study.rungs) {
    if (has_number(rung)) largest = std::max(largest, swept_size(*study.swept, rung));
  }
  const StudyRung* best = nullptr;
  for (const StudyRung& rung : study.rungs) {
    if (!has_number(rung) || swept_size(*study.swept, rung) != largest || !rung.speedup_first) continue;
    if (direction_of(*rung.speedup_first) != Direction::faster || !rung.against) continue;
    if (best == nullptr || rung.speedup_first->ratio > best->speedup_first->ratio) best = &rung;
  }
  return best;
}

// "Flash attention: 1.22× at T=1024, 1.2 GiB less"
std::string size_headline(const Study& study, const StudyRung& best) {
  std::string text = fmt::format("{}: {} at {}", capitalized(shortened(best.title, 40)),
                                 times(best.speedup_first->ratio), swept_words(study, best));
  text.pop_back();
  const std::optional<int64_t>&before = study.rungs.at(*best.against).peak_memory_bytes,
        &after = best.peak_memory_bytes;
  if (before && after && gib(*before - *after) >= 0.05) text += fmt::format(", {:.1f} GiB less", gib(*before - *after));
  return text;
}

std::string sweep_headline(const Study& study) {
  const StudyRung* best = nullptr;
  for (const StudyRung& rung : study.rungs) {
    if (!has_number(rung) || !rung.tokens_per_s) continue;
    if (best == nullptr || rung.tokens_per_s->median > best->tokens_per_s->median) best = &rung;
  }
  return best == nullptr ? "No rung has a number"
                         : fmt::format("Up to {} tokens/s, at {}({})", abbreviated(best->tokens_per_s->median),
                                       swept_words(study, *best), shortened(best->title, 40));
}

std::string why_no_speedup(const Study& study) {
  const auto measured = std::ranges::count_if(study.rungs, has_number);
  if (measured > 1) return "no rung could be compared with the reference rung";
  if (measured == 1)
    return fmt::format("only {} has a number", in_quotes(std::ranges::find_if(study.rungs, has_number)->title));
  const auto others = rungs_without_number(study);
  return others.empty() ? "no rung has a number"
                        : fmt::format("no rung has a number ({})", status_words(*others.front()));
}

// "val_loss 1.02× lower than first".
std::string value_headline(const Metric& metric, const Ratio& speedup, const std::string& reference) {
  const bool is_lower = (metric.better == Metric::Better::lower) == (speedup.ratio > 1);
  const double ratio = std::max(speedup.ratio, 1 / speedup.ratio);
  return fmt::format("{}{} {} {} than {}", speedup.ratio < 1 ? "Worse: " : "", metric.name, times(ratio),
                     is_lower ? "lower" : "higher", reference);
}

std::string speedup_headline(const Study& study, const Lead& lead) {
  const std::string ratio = times(lead.speedup->ratio), reference = reference_words(*lead.reference);
  switch (direction_of(*lead.speedup)) {
    case Direction::unknown:  // without an interval it is not usable
    case Direction::unclear:
      return "No clear change from " + reference;
    case Direction::slower:
      if (is_of_value(study)) return value_headline(*study.metric, *lead.speedup, reference);
      return fmt::format("Slower: {} the speed of {}", ratio, reference);
    case Direction::faster:
      break;
  }
  if (is_of_value(study)) return value_headline(*study.metric, *lead.speedup, reference);
  return fmt::format("{} faster than {}{}", ratio, reference,
                     study.headline->fastest ? ", at " + in_quotes(lead.rung->title) : "");
}

// "Keep: 1.02× faster", with the commits in the table.
std::string judgment_headline(const Study& study) {
  const Judgment& judgment = *study.judgment;
  const std::string word = capitalized(name_of(judgment.verdict));
  if (judgment.pairs == 0) return word;
  const char* const better = is_of_value(study) ? "better" : "faster";
  const char* const worse = is_of_value(study) ? "worse" : "slower";
  return fmt::format("{}: {} {}", word, times(std::max(judgment.ratio, 1 / judgment.ratio)),
                     judgment.ratio >= 1 ? better : worse);
}

// ---- lines

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
  std::vector<std::string> parts;
  if (study.rungs.size() > 1) {  // else the headline says it
    parts.push_back(
        both([&](const StudyRung& rung) { return rung.ms_per_step ? digits3(compared_number(study, rung)) : ""; }) +
        " " + compared_unit(study));
    if (is_of_value(study) && !study.from_logs) {
      parts.push_back(
          both([](const StudyRung& rung) { return rung.ms_per_step ? digits3(rung.ms_per_step->median / 1000) : ""; }) +
          " s per run");
    }
  }
  if (last->tokens_per_s) parts.push_back(abbreviated(last->tokens_per_s->median) + " tokens/s");
  if (mfu_of(*last)) {
    parts.push_back("MFU " + both([](const StudyRung& rung) { return mfu_of(rung) ? percent(*mfu_of(rung)) : ""; }));
  }
  if (last->peak_memory_bytes && gib(*last->peak_memory_bytes) >= 0.05) {
    parts.push_back(both([](const StudyRung& rung) {
                      return rung.peak_memory_bytes ? fmt::format("{:.1f}", gib(*rung.peak_memory_bytes)) : "";
                    }) +
                    " GiB");
  }
  if (study.judgment) {
    parts.push_back(fmt::format("{} {} ({:.4g} % at every look, {} of runs)", times(study.judgment->ratio),
                                spread(study.judgment->ratio, *study.judgment), 100 * study.statistics.confidence,
                                number_of(study.judgment->pairs, "pair")));
  } else if (lead) {
    const std::string interval = spread(lead->speedup->ratio, *lead->speedup);
    if (!interval.empty()) {
      const std::string runs = study.from_logs ? fmt::format("{} and {} logs", first->runs_ok, last->runs_ok)
                                               : number_of(lead->speedup->pairs, "pair") + " of runs";
      parts.push_back(fmt::format("{} {} ({:.4g} %, {})", times(lead->speedup->ratio), interval,
                                  100 * study.statistics.confidence, runs));
    }
  }
  return fmt::format("{}", fmt::join(parts, " \u00b7 "));
}

}  // namespace

// "fused": what each of several commands is, beside the first.
static std::vector<std::string> command_verdicts(const Study& study) {
  std::vector<std::string> lines;
  if (!are_independent(study) || study.rungs.size() < 3) return lines;
  for (const StudyRung& rung : study.rungs) {
    if (&rung == &study.rungs.front() || !has_number(rung) || !rung.speedup_first) continue;
    const Direction direction = direction_of(*rung.speedup_first);
    const bool is_value = is_of_value(study);
    const std::string words = direction == Direction::faster   ? is_value ? "better" : "faster"
                              : direction == Direction::slower ? is_value ? "worse" : "slower"
                                                               : "no clear change";
    lines.push_back(fmt::format("{}: {}, {}{}.", in_quotes(shortened(rung.title, 40)),
                                ratio_words(rung.speedup_first->ratio, *rung.speedup_first), words,
                                rung.guard ? rung.guard->passed ? ", losses the same" : ", other losses" : ""));
  }
  return lines;
}

// What so many pairs could have shown, and how many would show 5 %. An interval's width falls with their root.
static std::string what_would_show(const Study& study) {
  const std::optional<Lead> lead = lead_of(study);
  if (!of_commands(study) || study.from_logs || !lead || direction_of(*lead->speedup) != Direction::unclear) return "";
  const Ratio& ratio = *lead->speedup;
  if (!ratio.lo || !ratio.hi || *ratio.lo <= 0) return "";
  constexpr double wanted = 0.05, most = 1000;
  const double half = std::log(*ratio.hi / *ratio.lo) / 2;
  const double pairs = std::ceil(static_cast<double>(ratio.pairs) * std::pow(half / std::log1p(wanted), 2));
  std::string text = fmt::format("{} like these show a difference from about {:.2g} % on",
                                 number_of(ratio.pairs, "pair"), 100 * std::expm1(half));
  if (half <= std::log1p(wanted)) return text + ".";
  return text + (pairs > most ? "; 5 % needs a quieter machine." : fmt::format("; 5 % takes about -n {:.0f}.", pairs));
}

// A program beside the last rung that is clearly faster is said before anything else.
std::string headline_of(const Study& study) {
  if (study.judgment) return judgment_headline(study);
  if (const auto unusable = why_unusable(study)) return "Not usable: " + unusable->what;
  const Peers peers = peers_of(study);
  const std::optional<Lead> lead = lead_of(study);
  const bool is_behind = peers.own != nullptr && study.mode == Mode::cumulative && is_slower(*peers.ratios.front());
  if (is_behind || (!lead && peers.own != nullptr && !varied_size(study))) return peer_headline(study, peers);
  if (leads_with_worths(study)) return worth_headline(study);
  if (lead) return speedup_headline(study, *lead);
  if (const StudyRung* best = best_at_largest(study)) return size_headline(study, *best);
  if (study.mode == Mode::sweep) return sweep_headline(study);
  const StudyRung& only = study.rungs.front();
  return study.rungs.size() == 1 && only.ms_per_step
             ? fmt::format("{} {}", digits3(compared_number(study, only)), compared_unit(study))
             : "No valid speedup: " + why_no_speedup(study);
}

std::vector<std::string> lines_of(const Study& study) {
  std::vector<std::string> lines{figures_line(study)};
  if (study.judgment) {
    for (const std::string& reason : study.judgment->reasons) lines.push_back(capitalized(reason) + ".");
    lines.push_back(capitalized(study.judgment->next) + ".");
    std::erase(lines, "");
    return lines;
  }
  if (study.mode == Mode::sweep && best_at_largest(study) != nullptr) lines.push_back(sweep_headline(study) + ".");
  // A quick look's last rung has every optimization, not only the one that it is called by.
  const std::vector<NamedRatio> worths = study.quick || study.from_logs ? std::vector<NamedRatio>{} : worths_of(study);
  const std::optional<Lead> lead = lead_of(study);
  const bool has_lead = !lead || direction_of(*lead->speedup) == Direction::faster;
  const bool in_headline = leads_with_worths(study);
  std::vector<NamedRatio> causes = worths;
  if (lead && study.mode == Mode::cumulative) {  // what came after the rung that leads brought nothing of it
    std::erase_if(causes, [&](const NamedRatio& one) { return one.rung > lead->rung->index; });
  }
  const std::vector<std::string> faster =
      has_lead && !in_headline ? named(causes, Direction::faster, 4) : std::vector<std::string>{};
  std::vector<NamedRatio> least(worths.rbegin(), worths.rend());
  const std::vector<std::string> slower = named(least, Direction::slower, 3);
  const std::vector<std::string> verdicts = command_verdicts(study);
  if (!verdicts.empty()) {
    lines.insert(lines.end(), verdicts.begin(), verdicts.end());
  } else if (!faster.empty()) {
    lines.push_back(fmt::format("Most of it: {}.", fmt::join(faster, " \u00b7 ")));
  }
  if (verdicts.empty() && !slower.empty() && !in_headline)
    lines.push_back(
        fmt::format("{} here: {}.", is_of_value(study) ? "Worse" : "Slower", fmt::join(slower, " \u00b7 ")));
  if (study.headline && study.headline->fastest && !are_independent(study)) {
    lines.push_back(fmt::format("At the ladder's last rung, {}, {} is left.",
                                in_quotes(study.rungs[study.headline->last].title),
                                times(study.headline->speedup.ratio)));
  }
  for (const StudyRung& rung : study.rungs) {
    if (!rung.command || &rung == &study.rungs.front()) continue;
    if (const auto step = rung.command->pays_from_step) {
      lines.push_back(
          fmt::format("{} starts {} s later, so it pays from step {} on.", in_quotes(shortened(rung.title, 40)),
                      digits3(rung.command->first_step_s - study.rungs.front().command->first_step_s), *step));
    }
  }
  for (const StudyRung& rung : study.rungs) {
    if (const std::string numbers = last_numbers(study, rung); !numbers.empty())
      lines.push_back(fmt::format("{} at the end: {}.", in_quotes(shortened(rung.title, 40)), numbers));
  }
  lines.push_back(peers_line(study, peers_of(study)));
  lines.push_back(what_would_show(study));
  std::erase(lines, "");
  return lines;
}

}  // namespace plots
