#include "harness/lines/finished_log.h"

#include "harness/lines/names.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <ranges>
#include <set>
#include <utility>

namespace harness {

namespace {

constexpr size_t most_for_format = 20000;  // lines at the end of a log that decide what is the step

std::set<std::string_view> set_of_words(std::string_view key) {
  std::set<std::string_view> words;
  for (const auto word : key | std::views::split(' ')) {
    if (!word.empty()) words.emplace(word.begin(), word.end());
  }
  return words;
}

bool has_one_of(const std::set<std::string_view>& words, std::initializer_list<std::string_view> list) {
  return std::ranges::any_of(list, [&](std::string_view word) { return words.contains(word); });
}

// A time's unit in seconds, as the words behind a number or its name say it. None: they do not say.
std::optional<double> unit_s(const std::set<std::string_view>& words) {
  if (has_one_of(words, {"ms", "msec", "millis", "milliseconds"})) return 1e-3;
  if (has_one_of(words, {"s", "sec", "secs", "second", "seconds", "runtime"})) return 1;  // "runtime": W&B's and HF's
  if (has_one_of(words, {"min", "mins", "minute", "minutes"})) return 60;
  if (has_one_of(words, {"h", "hr", "hrs", "hour", "hours"})) return 3600;
  return std::nullopt;
}

// How much a number's name speaks for a clock of the run; 0: it is none.
int clock_rank(const std::set<std::string_view>& words) {
  if (has_one_of(words,
                 {"eta",     "remaining", "left", "avg",   "average",    "mean", "per",     "data",    "load",
                  "loading", "eval",      "val",  "valid", "validation", "test", "compile", "forward", "backward",
                  "it",      "iter",      "step", "batch", "epoch",      "lr",   "rate"}))
    return 0;
  if (has_one_of(words, {"elapsed", "runtime", "wall", "timestamp"})) return 3;
  if (!words.contains("time")) return 0;
  return has_one_of(words, {"train", "training", "total"}) ? 3 : 2;
}

// Seconds of a number that may be a clock's: with its unit, or since 1970.
std::optional<double> clock_s(const Number& number, const std::set<std::string_view>& words) {
  if (number.value >= 1e9 && number.value < 1e10) return number.value;
  if (number.value >= 1e12 && number.value < 1e13) return number.value / 1e3;
  const std::optional<double> unit = number.unit.empty() ? unit_s(words) : unit_s(set_of_words(number.unit));
  return unit && number.value >= 0 ? std::optional(number.value * *unit) : std::nullopt;
}

// The two digits there, or -1.
int two_digits(std::string_view text, size_t at) {
  const auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9' ? text[i] - '0' : -1; };
  return digit(at) < 0 || digit(at + 1) < 0 ? -1 : 10 * digit(at) + digit(at + 1);
}

struct ClockReading {
  double seconds = 0, resolution_s = 1;
};

// "12:22:51.123" at the place of its first digit.
std::optional<ClockReading> time_at(std::string_view text, size_t at) {
  const int hours = two_digits(text, at), minutes = two_digits(text, at + 3), seconds = two_digits(text, at + 6);
  if (at + 8 > text.size() || text[at + 2] != ':' || text[at + 5] != ':') return std::nullopt;
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59 || seconds < 0 || seconds > 60) return std::nullopt;
  ClockReading reading{.seconds = 3600.0 * hours + 60.0 * minutes + seconds};
  if (at + 9 < text.size() && (text[at + 8] == '.' || text[at + 8] == ',')) {
    double place = 1;
    for (size_t i = at + 9; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
      place /= 10;
      reading.seconds += place * (text[i] - '0');
    }
    reading.resolution_s = place;
  }
  return reading;
}

// The stamp at a line's beginning, with its day if it has one: "[2026-07-17 12:22:51,123]", "I0717 12:22:51.123456".
std::optional<ClockReading> stamp_of(std::string_view text) {
  constexpr size_t within = 32;
  for (size_t at = 0; at + 8 <= std::min(text.size(), within + 8); ++at) {
    const bool inside_of_number = at > 0 && (text[at - 1] == ':' || (text[at - 1] >= '0' && text[at - 1] <= '9'));
    std::optional<ClockReading> reading = inside_of_number ? std::nullopt : time_at(text, at);
    if (!reading) continue;
    int year = 0, month = 0, day = 0;
    const bool has_date =
        at >= 11 &&
        (std::sscanf(std::string(text.substr(at - 11, 10)).c_str(), "%4d-%2d-%2d", &year, &month, &day) == 3 ||
         std::sscanf(std::string(text.substr(at - 11, 10)).c_str(), "%4d/%2d/%2d", &year, &month, &day) == 3);
    if (has_date && month >= 1 && month <= 12) {  // days since 1970 (H. Hinnant, "chrono-compatible date algorithms")
      const int y = year - (month <= 2 ? 1 : 0), era = y / 400, of_era = y - era * 400;
      const int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
      reading->seconds += 86400.0 * (era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468);
    }
    return reading;
  }
  return std::nullopt;
}

// What a bar says has passed: "[00:12<01:30, 3.1it/s]", "[1:02:03<".
std::optional<ClockReading> passed_in_bar(std::string_view text) {
  const size_t end = text.find('<'), begin = end == std::string_view::npos ? end : text.rfind('[', end);
  if (begin == std::string_view::npos) return std::nullopt;
  int hours = 0, minutes = 0, seconds = 0, used = 0;
  const std::string passed(text.substr(begin + 1, end - begin - 1));
  if (std::sscanf(passed.c_str(), "%d:%d:%d%n", &hours, &minutes, &seconds, &used) != 3) {
    hours = 0;
    if (std::sscanf(passed.c_str(), "%d:%d%n", &minutes, &seconds, &used) != 2) return std::nullopt;
  }
  if (static_cast<size_t>(used) != passed.size()) return std::nullopt;
  return ClockReading{.seconds = 3600.0 * hours + 60.0 * minutes + seconds};
}

// The readings of a clock that may be the run's, by line.
struct Clock {
  std::string name;
  int rank = 0;
  std::vector<std::pair<size_t, double>> readings;  // line, seconds
  double resolution_s = 0;
  bool counts_from_start = false;  // its first reading is a time since the run began, and not a time of day

  void add(size_t line, const ClockReading& reading) {
    readings.emplace_back(line, reading.seconds);
    resolution_s = resolution_s == 0 ? reading.resolution_s : std::min(resolution_s, reading.resolution_s);
  }
  [[nodiscard]] double first() const { return readings.front().second; }
  [[nodiscard]] double last() const { return readings.back().second; }
  // It never goes back, and goes far enough not to be the time of a step that grows by chance.
  [[nodiscard]] bool goes_up() const {
    constexpr size_t fewest = 4, many = 8;
    if (readings.size() < fewest) return false;
    const bool goes_far = !counts_from_start || last() >= 2 * first() || readings.size() >= many;
    return last() > first() && goes_far && std::ranges::is_sorted(readings, {}, &std::pair<size_t, double>::second);
  }
  [[nodiscard]] double total() const { return counts_from_start ? last() : last() - first(); }
};

// A time of day that goes on after midnight.
void pass_midnight(Clock& clock) {
  double days = 0, before = 0;
  for (auto& [line, seconds] : clock.readings) {
    if (seconds + days < before - 43200) days += 86400;
    seconds += days;
    before = seconds;
  }
}

// All times that the lines name, each a clock.
std::vector<Clock> named_clocks(const std::vector<LogLine>& lines, const std::vector<Line>& read) {
  std::map<Column, Clock> clocks;
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const Number& number : read[i].numbers) {
      const std::set<std::string_view> words = set_of_words(number.column.key);
      const int rank = clock_rank(words);
      const std::optional<double> seconds = rank > 0 ? clock_s(number, words) : std::nullopt;
      if (!seconds) continue;
      Clock& clock = clocks[number.column];
      clock.rank = rank;
      clock.counts_from_start = *seconds < 1e9;
      const double unit = number.value > 0 ? *seconds / number.value : 1;
      clock.add(i, {*seconds, unit * std::pow(10, -number.decimals)});
    }
  }
  std::vector<Clock> found;
  for (auto& [column, clock] : clocks) {
    const size_t begin = column.key.find_first_not_of(' '), end = column.key.find_last_not_of(' ');
    clock.name = begin == std::string::npos ? "time" : column.key.substr(begin, end + 1 - begin);
    found.push_back(std::move(clock));
  }
  return found;
}

Clock clock_of_pattern(const std::vector<LogLine>& lines, const LinePattern& pattern) {
  Clock clock{.name = "--clock", .rank = 9, .readings = {}, .counts_from_start = true};
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto found = pattern.find(lines[i].text, {"seconds", "ms"});
    for (const auto& [figure, unit] : {std::pair(found[0], 1.0), std::pair(found[1], 1e-3)}) {
      if (figure) clock.add(i, {figure->value * unit, unit * std::pow(10, -figure->decimals)});
    }
  }
  clock.counts_from_start = clock.readings.empty() || clock.first() < 1e9;
  return clock;
}

Clock clock_of(const std::vector<LogLine>& lines, const char* name, int rank, bool counts_from_start, auto read) {
  Clock clock{.name = name, .rank = rank, .readings = {}, .counts_from_start = counts_from_start};
  for (size_t i = 0; i < lines.size(); ++i) {
    if (const std::optional<ClockReading> reading = read(lines[i].text)) clock.add(i, *reading);
  }
  return clock;
}

// Each line gets the last reading before its end, since the run began or since the first reading.
void set_seconds(FinishedLog& log, const Clock& clock) {
  log.clock = clock.name;
  log.resolution_s = clock.resolution_s;
  log.seconds = clock.total();
  log.has_step_times = true;
  const double zero = clock.counts_from_start ? 0 : clock.first();
  double now = clock.first() - zero;
  auto next = clock.readings.begin();
  for (size_t i = 0; i < log.lines.size(); ++i) {
    for (; next != clock.readings.end() && next->first <= i; ++next) now = next->second - zero;
    log.lines[i].seconds = now;
  }
}

std::vector<StepLine> steps_in(const FinishedLog& log, const std::optional<StepPattern>& pattern) {
  std::vector<StepLine> steps;
  if (!pattern && !log.format) return steps;
  StepReader reader = pattern ? StepReader(*pattern) : StepReader(*log.format);
  for (const LogLine& line : log.lines) std::ranges::copy(reader.take(line), std::back_inserter(steps));
  std::ranges::copy(reader.end(), std::back_inserter(steps));
  return steps;
}

// From what each line says that a step took.
void add_up_step_times(FinishedLog& log) {
  const auto tells = std::ranges::count_if(log.steps, [](const StepLine& step) { return step.own_ms.has_value(); });
  if (log.steps.size() < 2 || tells + 1 < std::ssize(log.steps)) return;
  // A time that nearly always grows is one since some beginning, and no step's.
  std::ptrdiff_t grows = 0;
  for (size_t i = 1; i < log.steps.size(); ++i) grows += log.steps[i].own_ms > log.steps[i - 1].own_ms ? 1 : 0;
  constexpr size_t many = 8;
  if (log.steps.size() >= many && 10 * grows >= 9 * (std::ssize(log.steps) - 1)) return;
  double now = 0;
  for (size_t i = 0; i < log.steps.size(); ++i) {
    const int64_t made = i == 0 ? 0 : log.steps[i].step - log.steps[i - 1].step;
    now += log.steps[i].own_ms.value_or(0) / 1000 * static_cast<double>(made);
    log.steps[i].seconds = now;
  }
  log.clock = "what its steps say that they took";
  log.has_step_times = true;
}

// Of lines from the first step on: before them a log may have printed its own source.
void add_last_losses(const std::vector<Line>& read, size_t first_step, FinishedLog& log) {
  std::map<std::string, std::pair<double, int64_t>> found;
  for (size_t i = first_step; i < read.size(); ++i) {
    for (const Number& number : read[i].numbers) {
      const std::string& key = number.column.key;
      if (loss_rank(key) == 0 || number.column.of_total || !std::isfinite(number.value) || number.comma) continue;
      auto& [value, times] = found[key.substr(1, key.size() - 2)];
      value = number.value;
      ++times;
    }
  }
  for (const auto& [name, last] : found) log.last[name] = last.first;
}

}  // namespace

FinishedLog finished_log(std::string_view text, const std::optional<StepPattern>& steps,
                         const std::optional<LinePattern>& clock) {
  FinishedLog log;
  LineSplitter splitter;
  log.lines = splitter.take(0, text, 0);
  std::ranges::copy(splitter.end(), std::back_inserter(log.lines));
  std::vector<Line> read;
  Heading heading;
  for (size_t i = 0; i < log.lines.size(); ++i) {
    log.lines[i].read = i + 1;
    if (const auto words = heading_of(log.lines[i].text)) heading = *words;
    read.push_back(line_of(log.lines[i].text, heading));
  }

  std::vector<Clock> clocks = clock ? std::vector{clock_of_pattern(log.lines, *clock)} : named_clocks(log.lines, read);
  if (!clock) {
    clocks.push_back(clock_of(log.lines, "its bar", 1, true, passed_in_bar));
    clocks.push_back(clock_of(log.lines, "time stamps", 0, false, stamp_of));
    pass_midnight(clocks.back());
  }
  const Clock* best = nullptr;
  for (const Clock& one : clocks) {
    const bool is_better = best == nullptr || one.rank > best->rank ||
                           (one.rank == best->rank && one.readings.size() > best->readings.size());
    if (one.goes_up() && is_better) best = &one;
  }
  if (best != nullptr) set_seconds(log, *best);

  if (!steps) {
    const size_t from = log.lines.size() - std::min(log.lines.size(), most_for_format);
    log.format = format_of({log.lines.begin() + static_cast<std::ptrdiff_t>(from), log.lines.end()});
  }
  log.steps = steps_in(log, steps);
  size_t first_step = log.lines.size();
  if (!log.steps.empty()) {
    const auto of_first = [&](const LogLine& line) { return line.read == log.steps.front().read; };
    first_step = static_cast<size_t>(std::ranges::find_if(log.lines, of_first) - log.lines.begin());
  }
  add_last_losses(read, first_step, log);
  if (best != nullptr) return log;
  add_up_step_times(log);
  for (const Clock& one : clocks) {  // a line at the end: "train_runtime=123.4"
    if (one.rank < 3 || one.readings.size() > 2 || !one.counts_from_start || log.seconds) continue;
    if (log.clock.empty()) log.clock = one.name;
    log.seconds = one.last();
  }
  return log;
}

}  // namespace harness
