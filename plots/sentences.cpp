#include "plots/sentences.h"

#include "files/printable.h"
#include "study/guard.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <set>
#include <sstream>
#include <string_view>

namespace plots {

using files::shortened;

namespace {

bool is_same_letter(unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); }

bool begins_with(std::string_view text, std::string_view word) {
  return text.size() >= word.size() && std::ranges::equal(text.substr(0, word.size()), word, is_same_letter);
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// A word of a processor's name that does not tell it from others.
bool is_filler(std::string_view word) {
  return begins_with("processor", word) || begins_with("cpu", word) ||
         (word.ends_with("-Core") && is_digits(word.substr(0, word.size() - 5)));
}

// "B=16 T=1024 × 4 micro-steps", without the size that a sweep varies. `work`: a workload, or settings of a training.
std::string sizes_words(const auto& work, std::optional<Swept> swept = {}) {
  std::vector<std::string> sizes;
  if (swept != Swept::batch) sizes.push_back(fmt::format("B={}", work.B));
  if (swept != Swept::context) sizes.push_back(fmt::format("T={}", work.T));
  if (swept != Swept::accumulation && work.accumulation != 1) {
    sizes.push_back(fmt::format("\u00d7 {} micro-steps", work.accumulation));
  }
  if (work.random_windows) sizes.emplace_back("random windows");
  return fmt::format("{}", fmt::join(sizes, " "));
}

std::string title_from(const std::string& subject, const std::string& sizes, const std::string& created, bool is_cpu) {
  return fmt::format("{}{}{} \u00b7 {}{}", subject, sizes.empty() ? "" : " \u00b7 ", sizes,
                     files::valid_utf8(created.substr(0, 10)), is_cpu ? " \u00b7 CPU figures" : "");
}

}  // namespace

// "AMD EPYC 9B14, 2 threads" of "AMD EPYC(TM) 9B14 32-Core Processor @ 2.6GHz, 2 threads".
std::string short_device(const std::string& device) {
  const size_t comma = device.rfind(", ");
  std::string name = device.substr(0, comma);
  for (const std::string_view sign : {"(r)", "(tm)", "(c)"}) {
    for (;;) {
      const auto found = std::ranges::search(name, sign, is_same_letter);
      if (found.empty()) break;
      name.replace(found.begin(), found.end(), " ");
    }
  }
  std::istringstream words(name.substr(0, name.find('@')));
  std::string kept;
  for (std::string word; words >> word;) {
    if (!is_filler(word)) kept += (kept.empty() ? "" : " ") + word;
  }
  if (kept.empty()) kept = name.empty() ? "an unknown device" : name;
  return shortened(kept, 50) + (comma == std::string::npos ? "" : shortened(device.substr(comma), 20));
}

bool has_number(const StudyRung& rung) { return !rung.peer && rung.is_measured() && rung.ms_per_step; }

bool is_left_out(const StudyRung& rung) {
  return rung.status == RungStatus::not_applicable || rung.status == RungStatus::not_measured;
}

std::vector<const StudyRung*> rungs_without_number(const Study& study) {
  std::vector<const StudyRung*> rungs;
  for (const StudyRung& rung : study.rungs) {
    if (!rung.is_measured() && !is_left_out(rung) && rung.status != RungStatus::missing) rungs.push_back(&rung);
  }
  return rungs;
}

std::string in_quotes(const std::string& name) { return fmt::format("\u201c{}\u201d", shortened(name, 40)); }

bool are_independent(const Study& study) {
  return study.mode == Mode::cumulative && study.rungs.size() > 1 &&
         std::ranges::all_of(
             study.rungs, [](const StudyRung& rung) { return rung.command && !rung.command->typed.starts_with("+ "); });
}

std::string timed_unit(const Study& study) {
  std::set<std::string> units;
  for (const StudyRung& rung : study.rungs) {
    if (rung.command && !rung.command->shape.empty()) units.insert(rung.command->unit);
  }
  return units.size() == 1 ? *units.begin() : "step";
}

bool is_of_value(const Study& study) { return study.metric && !study.metric->pattern.empty(); }

double compared_number(const Study& study, const StudyRung& rung) {
  if (is_of_value(study)) {
    const auto number = rung.numbers.find(study.metric->name);
    return number == rung.numbers.end() ? 0 : number->second.median;
  }
  return rung.ms_per_step->median / (timed_unit(study) == "run" ? 1000 : 1);
}

std::string compared_unit(const Study& study) {
  if (is_of_value(study)) return study.metric->name;
  const std::string unit = timed_unit(study);
  return unit == "run" ? "s per run" : "ms per " + unit;
}

std::string last_numbers(const Study& study, const StudyRung& rung) {
  if (!study.from_logs) return "";
  const std::string compared = study.metric ? study.metric->name : "";
  std::vector<std::string> words;
  for (const auto& [name, number] : rung.numbers) {
    const std::string interval =
        number.lo && number.hi ? fmt::format(" [{:.5g} - {:.5g}]", *number.lo, *number.hi) : "";
    if (name != compared) words.push_back(fmt::format("{} {:.5g}{}", name, number.median, interval));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

bool of_commands(const Study& study) { return !study.rungs.empty() && study.rungs.front().command.has_value(); }

std::optional<double> mfu_of(const StudyRung& rung) { return rung.mfu ? rung.mfu->value : std::nullopt; }

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
  return guard.deviation ? std::optional(std::abs(*guard.deviation)) : std::nullopt;
}

std::string guard_words(const RungGuard& guard) {
  std::string text = guard.passed ? "passed, " : "failed, ";
  if (const std::optional<double> judged = judged_deviation(guard)) {
    text += fmt::format("median signed difference {} nats (limit {})", plain(*judged), plain(guard.tolerance));
    if (guard.max_deviation) {
      text += fmt::format("; largest single step {} (limit {})", plain(*guard.max_deviation), plain(largest_deviation));
    }
  } else {
    text += "a loss is not finite";
  }
  text += ", " + number_of(guard.steps, "step");
  if (guard.known_offset != 0) text += fmt::format(", padding columns may add {}", plain(guard.known_offset));
  return text + (guard.message.empty() ? "" : "; " + guard.message);
}

Direction direction_of(const Ratio& speedup) {
  if (!speedup.lo || !speedup.hi) return Direction::unknown;
  if (*speedup.lo <= 1 && *speedup.hi >= 1) return Direction::unclear;
  return speedup.ratio < 1 ? Direction::slower : Direction::faster;
}

std::optional<Swept> varied_size(const Study& study) {
  if (!study.swept || study.rungs.empty()) return std::nullopt;
  const auto size = [&](const StudyRung& rung) { return swept_size(*study.swept, rung); };
  const bool varies =
      std::ranges::any_of(study.rungs, [&](const StudyRung& rung) { return size(rung) != size(study.rungs[0]); });
  return varies ? study.swept : std::nullopt;
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
  return Lead{&rung, &study.rungs[headline.first], headline.fastest ? &*rung.speedup_first : &headline.speedup};
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

Study without_claims(Study study) {
  const std::optional<Unusable> unusable = why_unusable(study);
  if (!unusable) return study;
  study.unusable = unusable;
  study.headline.reset();
  for (StudyRung& rung : study.rungs) {
    rung.speedup_first.reset();
    rung.speedup_against.reset();
    rung.explanation.reset();
    if (!rung.peers) continue;
    for (PeerRatio& peer : *rung.peers) {
      static_cast<Bounds&>(peer) = {};
      peer.ratio.reset();
    }
  }
  for (Worth& worth : study.attribution) {
    static_cast<Bounds&>(worth) = {};
    worth.ratio.reset();
    worth.reason = unusable->what;
  }
  return study;
}

std::string clock_words(const Study& study, const StudyRung& rung) {
  if (!rung.clock || !rung.clock->is_power_limited()) return "";
  double highest = 0;
  for (const StudyRung& other : study.rungs) {
    if (other.clock) highest = std::max(highest, other.clock->highest_mhz);
  }
  return fmt::format("{} of {} MHz", number(rung.clock->sm_mhz), number(highest));
}

std::string model_on_device(const std::string& model, const std::string& device) {
  const bool is_gpt2 = model.starts_with("gpt2-") && model.ends_with("m") && model.size() > 6 &&
                       is_digits(std::string_view(model).substr(5, model.size() - 6));
  return fmt::format("{} on {}",
                     is_gpt2 ? fmt::format("GPT-2 {}M", model.substr(5, model.size() - 6))
                             : fmt::format("the {} model", shortened(model, 30)),
                     short_device(device));
}

std::string title_of(const Study& study) {
  if (study.from_logs) return title_from(study.ladder.title, "", study.created, false);
  if (of_commands(study)) {
    return title_from(fmt::format("{} on {}", study.ladder.title, short_device(study.device.name)), "", study.created,
                      study.device.kind == DeviceKind::cpu);
  }
  return title_from(model_on_device(study.workload.model, study.device.name),
                    sizes_words(study.workload, varied_size(study)), study.created,
                    study.device.kind == DeviceKind::cpu);
}

std::string title_of(const Training& training, const NamedDevice& device) {
  return title_from(model_on_device(training.settings.model, device.name), sizes_words(training.settings),
                    training.created, device.kind == DeviceKind::cpu);
}

std::vector<Remark> sorted(std::vector<Remark> remarks) {
  const auto rank = [](const Remark& remark) {
    switch (remark.severity) {
      case Severity::bad:
        return 0;
      case Severity::warn:
        return 1;
      case Severity::info:
        return 2;
      case Severity::good:
        break;
    }
    return 3;
  };
  std::ranges::stable_sort(remarks, {}, rank);
  return remarks;
}

std::string ascii_words(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> signs[] = {
      {"\u00d7", "x"},  {"\u2192", "->"}, {"\u00b7", "|"}, {"\u201c", "\""},
      {"\u201d", "\""}, {"\u00b1", "+-"}, {"\u2013", "-"}, {"\u2212", "-"}};
  for (const auto& [sign, plain] : signs) {
    for (size_t at = 0; (at = text.find(sign, at)) != std::string::npos; at += plain.size()) {
      text.replace(at, sign.size(), plain);
    }
  }
  return text;
}

namespace {

bool is_shown(const Remark& remark) {
  return remark.severity == Severity::bad || remark.severity == Severity::warn || !remark.fix.empty();
}

std::string words_of(const Remark& remark) { return remark.text + (remark.fix.empty() ? "" : " " + remark.fix); }

}  // namespace

std::string remarks_text(const std::vector<Remark>& remarks, const Look& look) {
  std::string text;
  for (const Remark& remark : remarks) {
    if (!is_shown(remark)) continue;
    const bool is_bad = remark.severity == Severity::bad, is_doubt = remark.severity == Severity::warn;
    const char* mark = is_bad ? "!! " : is_doubt ? "! " : "";
    text += look.painted(is_bad     ? Style::bad
                         : is_doubt ? Style::caution
                                    : Style::plain,
                         wrapped(mark + ascii_words(files::printable(words_of(remark))), "  "));
  }
  return text;
}

std::string remarks_markdown(const std::vector<Remark>& remarks) {
  std::string text;
  for (const Remark& remark : remarks) {
    if (is_shown(remark)) text += "- " + markdown(words_of(remark)) + "\n";
  }
  return text;
}

std::string found_text(const std::vector<Found>& found, const Look& look) {
  std::string text;
  for (const Found& one : found) {
    const std::string words = wrapped("Found: " + ascii_words(files::printable(one.text)) + ".");
    text += look.painted(Style::bad, words, 0, words.size() - 1);
  }
  return text;
}

std::vector<Remark> found_remarks(const std::vector<Found>& found) {
  std::vector<Remark> remarks;
  for (const Found& one : found) remarks.push_back({Severity::bad, "found", "Found: " + one.text + ".", ""});
  return remarks;
}

std::string said_text(const Said& said, const Look& look) {
  std::string text = remarks_text(said.remarks, look);
  text += look.painted(Style::strong, wrapped(ascii_words(files::printable(said.headline))));
  for (const std::string& line : said.lines) text += wrapped(ascii_words(files::printable(line)));
  return text;
}

}  // namespace plots
