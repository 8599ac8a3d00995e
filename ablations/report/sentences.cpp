#include "ablations/report/sentences.h"

#include "ablations/report/unusable.h"
#include "ablations/study/guard.h"
#include "ablations/text/figures.h"
#include "files/json_file.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <vector>

namespace ablations {

namespace {

bool begins_with(std::string_view text, std::string_view word) {
  const auto is_same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return text.size() >= word.size() && std::ranges::equal(text.substr(0, word.size()), word, is_same);
}

std::string in_quotes(const StudyRung& rung) { return fmt::format("\u201c{}\u201d", files::shortened(rung.title, 40)); }

std::string why_no_speedup(const Study& study) {
  std::vector<const StudyRung*> measured, others;
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer) continue;
    if (rung.is_measured() && rung.ms_per_step) {
      measured.push_back(&rung);
    } else if (rung.status != RungStatus::not_applicable && rung.status != RungStatus::not_measured) {
      others.push_back(&rung);
    }
  }
  if (measured.size() == 1) return fmt::format("only {} has a number", in_quotes(*measured.front()));
  if (!measured.empty()) return "no rung could be compared with the reference rung";
  return others.empty() ? "no rung has a number"
                        : fmt::format("no rung has a number ({})", status_words(*others.front()));
}

// nullptr: nothing is compared with the rung.
const PeerRatio* fastest_peer(const StudyRung& rung) {
  const PeerRatio* fastest = nullptr;
  if (!rung.peers) return fastest;
  for (const PeerRatio& peer : *rung.peers) {
    if (peer.ratio && (fastest == nullptr || *peer.ratio < *fastest->ratio)) fastest = &peer;
  }
  return fastest;
}

// Of a single rung with PyTorch beside it: against the fastest of those. Empty: there is no such rung.
std::string headline_of_peers(const Study& study) {
  const auto is_own = [](const StudyRung& rung) { return !rung.peer; };
  if (std::ranges::count_if(study.rungs, is_own) != 1) return "";
  const PeerRatio* fastest = fastest_peer(*std::ranges::find_if(study.rungs, is_own));
  if (fastest == nullptr) return "";
  const std::string& name = study.rungs[fastest->rung].title;
  const bool is_clear = fastest->lo && fastest->hi && (*fastest->lo > 1 || *fastest->hi < 1);
  return is_clear ? fmt::format("{} as fast as {}", times(*fastest->ratio), name) : "No clear difference from " + name;
}

std::string slower_than_a_peer(const Study& study) {
  const std::optional<FasterPeer> faster = faster_peer_of(study);
  if (!faster) return "";
  return fmt::format("The last rung is slower than {}, {} its speed. ", faster->peer->title,
                     times(*faster->ratio->ratio));
}

const char* order_of(Method method) {
  switch (method) {
    case Method::shapley:
      return "averaged over all orders (Shapley)";
    case Method::leave_one_out:
      return "on top of all others (leave-one-out)";
    case Method::one_at_a_time:
      return "alone (one-at-a-time)";
    case Method::cumulative:
      break;
  }
  return "in the ladder's order";
}

}  // namespace

std::string status_words(const StudyRung& rung) {
  if (rung.out_of_memory.value_or(false)) return "out of memory";
  switch (rung.status) {
    case RungStatus::not_applicable:
      return "not applicable";
    case RungStatus::not_measured:
      return "not measured";
    case RungStatus::missing:
      return "not run yet";
    default:
      return name_of(rung.status);
  }
}

std::string why_no_number(const StudyRung& rung) {
  std::string status = status_words(rung);
  if (rung.reason.empty()) return status;
  return begins_with(rung.reason, status) ? rung.reason : fmt::format("{}: {}", status, rung.reason);
}

std::optional<double> judged_deviation(const RungGuard& guard) {
  const std::optional<double> judged = guard.deviation ? *guard.deviation : guard.max_deviation;
  return judged ? std::optional(std::abs(*judged)) : std::nullopt;
}

std::string deviation_words(const RungGuard& guard) {
  const std::optional<double> judged = judged_deviation(guard);
  if (!judged) return "a loss is not finite";
  const std::string limit = fmt::format("{} nats (limit {})", plain(*judged), plain(guard.tolerance));
  if (!guard.deviation) return "largest difference " + limit;
  const std::string largest = guard.max_deviation ? fmt::format("; largest single step {} (limit {})",
                                                                plain(*guard.max_deviation), plain(largest_deviation))
                                                  : std::string();
  return "median difference " + limit + largest;
}

std::string guard_words(const RungGuard& guard) {
  std::string text = fmt::format("Guard: {}, {}, {}", guard.passed ? "passed" : "failed", deviation_words(guard),
                                 number_of(guard.steps, "step"));
  if (guard.known_offset != 0) {
    text += fmt::format(", not counting up to {} of padding columns", plain(guard.known_offset));
  }
  return text + (guard.message.empty() ? "" : "; " + guard.message) + ".";
}

Direction direction_of(const Ratio& speedup) {
  if (!speedup.lo || !speedup.hi) return Direction::unknown;
  if (*speedup.lo <= 1 && *speedup.hi >= 1 && *speedup.lo < *speedup.hi) return Direction::unclear;
  return speedup.ratio < 1 ? Direction::slower : Direction::faster;
}

std::string no_interval(const Ratio& ratio) {
  if (ratio.lo && ratio.hi) return "";
  return ratio.pairs == 1 ? "one run each, no interval" : "no interval";
}

std::string swept_words(const Study& study, const StudyRung& rung) {
  if (!study.swept) return "";
  const char* letter = *study.swept == Swept::batch ? "B" : *study.swept == Swept::context ? "T" : "micro-steps";
  return fmt::format("{}={} ", letter, swept_size(*study.swept, rung));
}

std::optional<Lead> lead_of(const Study& study) {
  if (!study.headline || study.headline->first == study.headline->last) return std::nullopt;
  const Headline& headline = *study.headline;
  const StudyRung& rung = study.rungs[headline.fastest.value_or(headline.last)];
  const bool is_replaced = headline.planned && *headline.planned != headline.first;
  return Lead{&rung, &study.rungs[headline.first], headline.fastest ? &*rung.speedup_first : &headline.speedup,
              is_replaced};
}

std::optional<FasterPeer> faster_peer_of(const Study& study) {
  if (study.mode != Mode::cumulative) return std::nullopt;
  const auto last = std::find_if(study.rungs.rbegin(), study.rungs.rend(),
                                 [](const StudyRung& rung) { return rung.is_measured() && fastest_peer(rung); });
  if (last == study.rungs.rend()) return std::nullopt;
  const PeerRatio* fastest = fastest_peer(*last);
  if (!fastest->hi || *fastest->hi >= 1) return std::nullopt;
  return FasterPeer{&*last, &study.rungs[fastest->rung], fastest};
}

std::string headline_words(const Study& study) {
  if (const std::string unusable = unusable_words(study); !unusable.empty()) return unusable;
  const std::optional<Lead> lead = lead_of(study);
  if (!lead) {
    const std::string beside = headline_of_peers(study);
    return beside.empty() ? "No valid speedup: " + why_no_speedup(study) : beside;
  }
  const Ratio& speedup = *lead->speedup;
  const std::string first = slower_than_a_peer(study), ratio = times(speedup.ratio);
  const auto named = [&](const char* preposition) {
    return lead->is_replaced ? fmt::format(" {} {}", preposition, in_quotes(*lead->reference)) : std::string();
  };
  switch (direction_of(speedup)) {
    case Direction::unknown:
      return fmt::format("{}{}{}, {}", first, ratio, named("against"), no_interval(speedup));
    case Direction::unclear:
      return first + "No clear change" + named("against");
    case Direction::slower:
      return fmt::format("{}Slower, {} the speed{}", first, ratio, named("of"));
    case Direction::faster:
      break;
  }
  return fmt::format("{}{} faster{}", first, ratio, named("than"));
}

std::string evidence_words(const Study& study) {
  const std::optional<Lead> lead = lead_of(study);
  if (!lead) return "";
  const Ratio& speedup = *lead->speedup;
  std::string pairs = number_of(speedup.pairs, "pair") + " of runs";
  const Direction direction = direction_of(speedup);
  if (direction == Direction::unknown) return pairs;
  return fmt::format("{}{:.4g} % confidence interval {}, {}",
                     direction == Direction::unclear ? fmt::format("measured {}, ", times(speedup.ratio)) : "",
                     100 * study.statistics.confidence, times_between(*speedup.lo, *speedup.hi), pairs);
}

std::string change_words(const Study& study) {
  const std::optional<Lead> lead = lead_of(study);
  if (!lead || !lead->reference->ms_per_step || !lead->rung->ms_per_step) return "";
  const std::optional<Median>& tokens = lead->rung->tokens_per_s;
  return fmt::format("From {} per step ({}) to {} ({}{}){}.", in_ms(lead->reference->ms_per_step->median),
                     lead->reference->title, in_ms(lead->rung->ms_per_step->median), swept_words(study, *lead->rung),
                     lead->rung->title, tokens ? fmt::format(", {} tokens/s", count(tokens->median)) : "");
}

std::string vs_previous_words(Mode mode) {
  if (mode == Mode::cumulative) return "vs previous";
  return mode == Mode::leave_one_out ? "vs everything on" : "";
}

std::string vs_first_words(const Study& study) {
  const std::optional<Lead> lead = lead_of(study);
  return fmt::format("{}{}", study.mode == Mode::cumulative ? "so far" : "vs first",
                     lead && lead->is_replaced ? ", against " + in_quotes(*lead->reference) : "");
}

std::string runs_words(const Study& study) {
  size_t least = std::numeric_limits<size_t>::max(), most = 0;
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer || !rung.is_measured() || !rung.ms_per_step) continue;
    least = std::min(least, rung.runs_ok);
    most = std::max(most, rung.runs_ok);
  }
  if (most == 0) return "no runs";
  if (most == 1) return "a single run";
  return fmt::format("median of {}{} runs", least < most ? "up to " : "", most);
}

std::string range_words(const Statistics& statistics) {
  return fmt::format(
      "Ranges are {:.4g} % confidence intervals. A range that includes 1\u00d7 shows no clear difference.",
      100 * statistics.confidence);
}

std::string clock_words(const Study& study, const StudyRung& rung) {
  if (!rung.clock || !rung.clock->is_power_limited()) return "";
  double highest = 0;
  for (const StudyRung& other : study.rungs) {
    if (other.clock) highest = std::max(highest, other.clock->highest_mhz);
  }
  return fmt::format("{} of {} MHz", number(rung.clock->sm_mhz), number(highest));
}

std::vector<std::string> mfu_words(const Study& study) {
  std::vector<std::string> words;
  std::string reason;
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer || !rung.is_measured() || !rung.mfu || !*rung.mfu) continue;
    const Mfu& mfu = **rung.mfu;
    if (!mfu.value) {
      if (reason.empty()) reason = mfu.reason;
      continue;
    }
    const std::string peak = mfu.peak_flops ? fmt::format(", {:.4g} TFLOP/s", *mfu.peak_flops / 1e12) : "";
    const std::string source = mfu.peak_source ? fmt::format(" ({})", *mfu.peak_source) : "";
    const std::string sentence = fmt::format("MFU: {}{}{}.", mfu.formula, peak, source);
    if (std::ranges::find(words, sentence) == words.end()) words.push_back(sentence);
  }
  if (words.empty() && !reason.empty()) words.push_back(fmt::format("No MFU: {}.", reason));
  return words;
}

std::string peer_words(const Study& study) {
  const auto has_peers = [](const StudyRung& rung) { return rung.peers && !rung.peers->empty(); };
  if (std::ranges::none_of(study.rungs, has_peers)) return "";
  return "Each row is a rung's recipe, run by a plain PyTorch program between our runs. Above 1\u00d7, ours is faster.";
}

std::string plan_words(const StudyPlan& plan) {
  return fmt::format(
      "{} planned ({} of each rung), {} ok; order seed {}. To make them again on the same machine, with nothing else "
      "running:",
      number_of(static_cast<int64_t>(plan.runs_planned), "run"), plan.repeats, plan.runs_ok, plan.order_seed);
}

std::vector<std::string> remarks_of(const Study& study) {
  std::vector<std::string> remarks;
  if (study.device.kind == model::Device::cpu) {
    remarks.emplace_back("These are CPU figures; they say nothing about a GPU.");
  }
  const auto is_limited = [](const StudyRung& rung) { return rung.clock && rung.clock->is_power_limited(); };
  const auto last = std::find_if(study.rungs.rbegin(), study.rungs.rend(), is_limited);
  if (last != study.rungs.rend()) {
    const int64_t limited = std::ranges::count_if(study.rungs, is_limited);
    remarks.push_back(fmt::format(
        "{} at the GPU's power limit, which lowers the SM clock: {} at {}. No run is disturbed by it.",
        number_of(limited, "rung") + (limited == 1 ? " works" : " work"), in_quotes(*last), clock_words(study, *last)));
  }
  if (study.quick) {
    remarks.emplace_back(
        "A quick look: two repeats of a few rungs. `ladder ablate --resume --out FOLDER` measures the rest of the "
        "ladder.");
  }
  if (!study.finished) {
    remarks.push_back(
        fmt::format("Unfinished: {} of {} planned runs are in.", study.plan.runs_ok, study.plan.runs_planned));
  }
  return remarks;
}

std::string worth_words(Mode mode) {
  switch (mode) {
    case Mode::leave_one_out:
      return "What is lost without each optimization: step time without it, divided by step time with everything on.";
    case Mode::one_at_a_time:
      return "What each optimization brings alone: step time of the reference, divided by step time with it alone.";
    case Mode::factorial:
      return "What each optimization brings, averaged over all orders of switching them on. This is its Shapley value: "
             "what it takes off the logarithm of the time. The values multiply to the total speedup, as its geometric "
             "mean over the repeats.";
    case Mode::cumulative:
    case Mode::sweep:
      break;
  }
  return "";
}

std::optional<Method> method_of(Mode mode) {
  switch (mode) {
    case Mode::leave_one_out:
      return Method::leave_one_out;
    case Mode::one_at_a_time:
      return Method::one_at_a_time;
    case Mode::factorial:
      return Method::shapley;
    case Mode::cumulative:
    case Mode::sweep:
      break;
  }
  return std::nullopt;
}

std::map<std::string, std::string> method_words(const Study& study) {
  std::map<std::string, std::string> words;
  const Method own = method_of(study.mode).value_or(Method::cumulative);
  words[name_of(own)] = order_of(own);
  for (const Worth& worth : study.attribution.value_or(std::vector<Worth>{})) {
    words[name_of(worth.method)] = order_of(worth.method);
  }
  return words;
}

std::string batch_words(const Study& study) {
  if (!is_about_batches(study)) return "";
  const bool cold =
      std::ranges::any_of(study.rungs, [](const StudyRung& rung) { return rung.batches && rung.batches->cold; });
  return fmt::format(
      "ms: the host's time for the batch of a step{}; read, disk: bytes of a step, by calls and from a disk; faults: "
      "page faults of a step that needed a disk; held: memory that holds data; cached: how much of their file lay in "
      "the page cache, "
      "before the first step{} and after the last",
      study.device.kind == model::Device::cuda ? ", while the GPU may still compute" : "",
      cold ? ", when it was to be empty," : "");
}

std::string memory_words(const Study& study) {
  std::set<std::string> sources;
  bool is_known = false, has_parts = false, has_activations = false, is_apart = false, has_autocast = false;
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer || !rung.memory) continue;
    const RunMemory& memory = *rung.memory;
    is_known = true;
    if (!memory.peak_source.empty()) sources.insert(memory.peak_source);
    has_activations = has_activations || memory.activations_bytes;
    has_parts = has_parts || memory.activations_bytes || memory.weights_bytes || memory.gradients_bytes ||
                memory.optimizer_bytes || memory.weight_copies_bytes;
    is_apart = is_apart || memory.weight_copies_bytes;
    const files::Json autocast = files::field_or_null(rung.recipe, "autocast");
    has_autocast = has_autocast || (!autocast.is_null() && autocast != "off");
  }
  if (!is_known) return "";
  std::string peak = fmt::format("Peak: the largest of the runs{}.",
                                 sources.empty() ? "" : fmt::format(" ({})", fmt::join(sources, ", ")));
  if (!has_parts) return peak;
  const std::string activations = fmt::format(
      "activations: what {}the forward pass of one micro-step leaves for backward{}; ", is_apart ? "else " : "",
      has_autocast && !is_apart
          ? ", under autocast with its 16-bit copies of the weights, which these runs did not count apart"
          : "");
  return fmt::format(
      "{} The parts are counted one by one in the first run; {}{}other: the rest of the peak (libraries, temporaries).",
      peak,
      is_apart ? "16-bit weights: autocast's copies, which autograd keeps until the backward pass has used them; " : "",
      has_activations ? activations : "");
}

std::string figure_words(const StudyRung& rung) {
  if (!rung.is_measured() || !rung.ms_per_step) return "";
  const RungTimes& ms = *rung.ms_per_step;
  std::string words =
      fmt::format("{}, {}: quartiles {} and {}, min {}, max {}.", number_of(static_cast<int64_t>(rung.runs_ok), "run"),
                  number_of(static_cast<int64_t>(ms.n), "timed step"), digits3(ms.q1), in_ms(ms.q3), digits3(ms.min),
                  in_ms(ms.max));
  if (rung.page_faults_per_step) {
    const std::string faults = plain(*rung.page_faults_per_step);
    words += fmt::format(" {} page {} per step.", faults, faults == "1" ? "fault" : "faults");
  }
  if (rung.skipped_steps) {
    words += fmt::format(" The gradient scaler skipped {}.", number_of(*rung.skipped_steps, "step"));
  }
  if (rung.joules_per_token) words += fmt::format(" {} of GPU energy per token.", energy(*rung.joules_per_token));
  return words;
}

std::vector<size_t> own_proofs(const StudyRung& rung) {
  std::vector<size_t> all, own;
  for (size_t i = 0; i < rung.proofs.size(); ++i) {
    all.push_back(i);
    if (rung.recipe_diff.contains(rung.proofs[i].field)) own.push_back(i);
  }
  return own.empty() || !std::ranges::all_of(rung.proofs, &Proof::passed) ? all : own;
}

}  // namespace ablations
