#include "harness/lines/step_format.h"

#include "files/printable.h"
#include "harness/lines/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

namespace harness {

namespace {

// Where a column's numbers stand, and what they are.
struct Point {
  size_t line = 0;
  double value = 0, seconds = 0;
  int64_t total = 0;
};

struct Numbers {
  std::vector<Point> points;
  bool whole = true, in_bar = false, plain = true;  // of every number; of one; every one without unit and total
  bool only_with_validation = true;
  size_t place = SIZE_MAX;  // among its line's numbers, the first
  std::string unit;
  int decimals = 0;
};

// How a column's number goes from line to line.
struct Growth {
  int64_t changes = 0, usual = 0;  // to a higher one; by so much most often
  double regular = 0;              // the share of `usual` among them
  int64_t backs = 0;               // to a lower one
};

constexpr int64_t few = 4;  // lines that show nothing of how a number grows

Growth growth_of(const Numbers& series, double scale) {
  Growth growth;
  std::map<int64_t, int64_t> by;
  for (size_t i = 1; i < series.points.size(); ++i) {
    const int64_t more = std::llround(scale * (series.points[i].value - series.points[i - 1].value));
    if (more > 0) ++by[more];
    growth.changes += more > 0 ? 1 : 0;
    growth.backs += more < 0 ? 1 : 0;
  }
  for (const auto& [more, times] : by) {
    if (times <= growth.regular) continue;
    growth.regular = static_cast<double>(times);
    growth.usual = more;
  }
  if (growth.changes > 0) growth.regular /= static_cast<double>(growth.changes);
  return growth;
}

// Seconds, milliseconds, ... of some clock.
bool is_clock(const Numbers& series) {
  const Point &first = series.points.front(), &last = series.points.back();
  const double seconds = last.seconds - first.seconds;
  if (seconds < 0.5) return false;
  const double rate = (last.value - first.value) / seconds;
  return std::ranges::any_of(std::array{1.0, 1e3, 1e6, 1e9},
                             [&](double one) { return std::abs(rate / one - 1) < 0.03; });
}

bool is_round(int64_t number) {
  while (number % 10 == 0 && number > 0) number /= 10;
  return number == 1 || number == 2 || number == 5 || number == 25;
}

// How much speaks for a column, least first. From `by_epoch` on its words say that it counts: step_rank() is 30 and
// more.
enum Strength {
  counts_nothing = 0,
  by_percentage = 1,
  by_rising = 2,
  by_samples = 3,
  by_growth = 5,
  by_epoch = 10,
  by_loose_name = 18,
  by_bar = 20
};

struct Candidate {
  Column column;
  const Numbers* series = nullptr;
  int strength = 0;
  int64_t changes = 0;
  std::string unit = "step";
  bool has_loss = false;  // on its lines
};

// By its words, and by what its numbers do.
int strength_of(const Column& column, const Numbers& series, const Growth& growth, bool has_loss) {
  const std::string& key = column.key;
  const auto lines = std::ssize(series.points);
  const bool is_long = lines >= few;
  if (is_validation(key) || is_data_bar(key) || !series.whole || (is_long && growth.changes == 0))
    return counts_nothing;
  const bool grows = is_long && growth.backs * 4 <= growth.changes;
  const bool is_regular = is_long && growth.changes >= few - 1 && growth.regular >= 0.8 &&
                          2 * growth.changes >= lines && 4 * growth.backs <= lines;
  if (const int rank = step_rank(key); rank > 0) return rank;
  if (is_epoch(key)) return has_loss || (grows && growth.changes >= few - 1) ? by_epoch : counts_nothing;
  const bool is_bar = series.in_bar || (column.of_total && (key.empty() || key == " train "));
  if (is_bar && (lines == 1 || growth.changes > 0) &&
      (series.in_bar || has_loss || (grows && growth.changes >= few - 1)))
    return by_bar;
  if (!is_long || !series.unit.empty() || is_clock(series)) return counts_nothing;
  // A named number that goes up on every line may count by other amounts.
  const bool may_count = !is_no_counter(key) && !is_rank(key);
  if (!is_regular) return growth.changes == lines - 1 && !key.empty() && may_count ? by_rising : counts_nothing;
  if (counts_samples(key)) return by_samples;
  return !may_count ? counts_nothing : has_step_word(key) ? by_loose_name : by_growth;
}

// What a counter without the word "step" counts: a number that is no interval of a log may be samples.
std::string unit_of(const Column& column, const Growth& growth, int strength) {
  if (strength == by_samples) return "sample";
  const bool has_no_name = column.key.empty() && column.of_total;
  return has_no_name && growth.usual >= 16 && growth.usual % 16 == 0 && !is_round(growth.usual) ? "sample" : "step";
}

class Decision {
 public:
  explicit Decision(const std::vector<LogLine>& lines) : lines_(lines) {
    Heading heading;
    for (const LogLine& line : lines) {
      if (const auto words = heading_of(line.text)) heading = *words;
      read_.push_back(line_of(line.text, heading));
      if (!read_.back().validates) add(read_.size() - 1);
    }
  }

  std::optional<StepFormat> format() {
    const std::optional<Candidate> step = best_counter();
    if (step && begins_again_between(step->column, *step->series)) return std::nullopt;
    StepFormat format;
    if (step) {
      format.step = step->column;
      format.unit = step->unit;
      format.is_of_epoch = step->column.of_total && growth_of(*step->series, 1).backs > 0;
      format.loss = loss_on(*step->series);
      if (!format.loss) {
        format.loss = loss_apart(*step->series);
        format.loss_is_apart = format.loss.has_value();
        if (format.loss && counts_loss_lines(*step->series, format)) return format;
      }
      find_ranks(*step->series, format);
    } else {
      format.loss = loss_apart(Numbers{});
      if (!format.loss) return std::nullopt;
      format.unit = "line";
    }
    format.shape = (step ? "" : "each line a step: ") + shape(format);
    return format;
  }

 private:
  void add(size_t line) {
    const std::vector<Number>& numbers = read_[line].numbers;
    for (size_t place = 0; place < numbers.size(); ++place) {
      const Number& number = numbers[place];
      Numbers& series = series_[number.column];
      series.points.push_back({line, number.value, lines_[line].seconds, number.total});
      series.whole = series.whole && number.whole;
      series.in_bar = series.in_bar || number.in_bar;
      series.plain = series.plain && number.unit.empty() && number.total == 0;
      series.only_with_validation = series.only_with_validation && is_mixed(read_[line]);
      series.place = std::min(series.place, place);
      series.unit = number.unit == " it " ? "" : number.unit;
      series.decimals = std::max(series.decimals, number.decimals);
    }
  }

  static bool is_mixed(const Line& line) {
    return std::ranges::any_of(line.numbers, [](const Number& one) { return is_validation(one.column.key); });
  }

  // The lines of `series` that have a number of the other, too.
  static int64_t common(const Numbers& series, const Numbers& other) {
    int64_t both = 0;
    for (size_t i = 0, j = 0; i < series.points.size() && j < other.points.size();) {
      const size_t here = series.points[i].line, there = other.points[j].line;
      both += here == there ? 1 : 0;
      i += here <= there ? 1 : 0;
      j += there <= here ? 1 : 0;
    }
    return both;
  }

  static int rank_of(const Column& column, const Numbers& series) {
    const auto is_first = [&](const Point& point) { return point.value == series.points.front().value; };
    const bool is_constant = std::ssize(series.points) >= 2 * few && std::ranges::all_of(series.points, is_first);
    if (!series.plain || is_validation(column.key)) return 0;
    const int rank = is_constant ? std::min(loss_rank(column.key), 1) : loss_rank(column.key);
    const bool counts = series.whole && (has_step_word(column.key) || rank == 3);
    return counts ? 0 : rank;
  }

  // The best loss on at least half of the lines of a column.
  [[nodiscard]] std::optional<Column> loss_on(const Numbers& series) const {
    return best_loss([&](const Numbers& one) { return 2 * common(series, one) >= std::ssize(series.points); });
  }

  // A loss that is printed on lines of its own, twice at least.
  [[nodiscard]] std::optional<Column> loss_apart(const Numbers& series) const {
    return best_loss([&](const Numbers& one) { return one.points.size() >= 2 && common(series, one) == 0; });
  }

  [[nodiscard]] std::optional<Column> best_loss(auto is_fit) const {
    std::optional<Column> best;
    const Numbers* of_best = nullptr;
    int best_rank = 0;
    for (const auto& [column, series] : series_) {
      const int rank = rank_of(column, series);
      if (rank == 0 || !is_fit(series)) continue;
      const bool is_better =
          of_best == nullptr || rank > best_rank || (rank == best_rank && series.place < of_best->place);
      if (!is_better) continue;
      best = column;
      of_best = &series;
      best_rank = rank;
    }
    return best;
  }

  [[nodiscard]] std::optional<Candidate> best_counter() const {
    std::optional<Candidate> best;
    for (const auto& [column, series] : series_) {
      Candidate candidate{.column = column, .series = &series};
      candidate.has_loss = loss_on(series).has_value();
      const Growth growth = growth_of(series, 1);
      candidate.strength = strength_of(column, series, growth, candidate.has_loss);
      candidate.changes = growth.changes;
      candidate.unit = unit_of(column, growth, candidate.strength);
      if (series.unit == "%" && std::ssize(series.points) >= few) take_percentage(candidate);
      if (candidate.strength > 0 && (!best || is_better(candidate, *best))) best = candidate;
    }
    return best;
  }

  // A bar on its lines is drawn less often than it begins again.
  [[nodiscard]] bool begins_again_between(const Column& counter, const Numbers& series) const {
    return std::ranges::any_of(series_, [&](const auto& one) {
      const auto& [column, other] = one;
      if (!column.of_total || is_epoch(column.key) || column == counter || std::ssize(other.points) < few) return false;
      const auto is_of_first = [&](const Point& point) { return point.total == other.points.front().total; };
      if (10 * std::ranges::count_if(other.points, is_of_first) < 8 * std::ssize(other.points)) return false;
      const Growth growth = growth_of(other, 1);
      const bool are_nested = column.key.empty() && counter.key.empty() && counter.of_total &&
                              2 * common(series, other) >= std::ssize(series.points);
      // The counter's own bar does, and the other one counts its epochs; or the other way round.
      if (are_nested && 3 * growth.changes > std::ssize(other.points)) return true;
      if (are_nested && series.place < other.place && growth.changes + growth.backs > 0) return true;
      return 4 * growth.backs > growth.changes && growth.backs > 2 && growth.changes > 0 &&
             2 * common(series, other) >= std::ssize(series.points);
    });
  }

  static void take_percentage(Candidate& candidate) {
    const int decimals = std::min(candidate.series->decimals, 3);
    const Growth growth = growth_of(*candidate.series, std::pow(10, decimals));
    if (growth.changes < few - 1 || growth.backs > 1) return;
    candidate.strength = by_percentage;
    candidate.changes = growth.changes;
    candidate.unit = decimals == 0 ? "%" : fmt::format("{} %", std::pow(10, -decimals));
  }

  static bool is_better(const Candidate& one, const Candidate& other) {
    if (one.series->only_with_validation != other.series->only_with_validation)
      return other.series->only_with_validation;
    const bool same_lines = 2 * common(*one.series, *other.series) >= std::ssize(one.series->points);
    constexpr int64_t finer = 4;
    if (!same_lines && one.strength >= by_epoch && other.strength >= by_epoch) {
      if (one.changes >= finer * std::max<int64_t>(other.changes, 1)) return true;
      if (other.changes >= finer * std::max<int64_t>(one.changes, 1)) return false;
    }
    if (!same_lines && (one.strength >= by_epoch) != (other.strength >= by_epoch)) {
      const Candidate& with_name = one.strength >= by_epoch ? one : other;
      const Candidate& without = one.strength >= by_epoch ? other : one;
      if (2 * with_name.changes >= without.changes) return &with_name == &one;
    }
    if (same_lines && std::min(one.strength, other.strength) >= by_growth &&
        std::max(one.strength, other.strength) <= by_epoch && one.changes != other.changes) {
      return one.changes > other.changes;  // in an epoch of the other
    }
    if (!same_lines && one.has_loss != other.has_loss) return one.has_loss;
    if (one.strength != other.strength) return one.strength > other.strength;
    if (!same_lines && one.changes != other.changes) return one.changes > other.changes;
    const auto total = [](const Candidate& of) { return of.series->points.back().total; };
    if (one.strength == by_bar && total(one) != total(other)) return total(one) > total(other);
    return one.series->place < other.series->place;
  }

  // A log and a bar on two streams come in any order. If the bar tells how many steps lie between two losses, and they
  // are few, the lines with a loss are the steps.
  bool counts_loss_lines(const Numbers& steps, StepFormat& format) const {
    const Numbers& losses = series_.at(*format.loss);
    if (lines_[steps.points.front().line].stream == lines_[losses.points.front().line].stream) return false;
    std::vector<double> at;  // the step when a loss was printed
    size_t i = 0;
    for (const Point& loss : losses.points) {
      while (i + 1 < steps.points.size() && steps.points[i + 1].line < loss.line) ++i;
      at.push_back(steps.points[i].value);
    }
    if (at.size() < 8) return false;
    const double each = (at.back() - at.front()) / static_cast<double>(at.size() - 1);
    const auto per_line = std::llround(each);
    constexpr int64_t most = 10;
    if (per_line < 1 || per_line > most || std::abs(each / static_cast<double>(per_line) - 1) > 0.15) return false;
    format.step.reset();
    format.loss_is_apart = false;
    format.per_line = per_line;
    format.shape =
        shape(format) + (per_line == 1 ? ", a step each" : fmt::format(", every {} steps of the bar", per_line));
    return true;
  }

  // Several processes may print each step: with a number that says which, or without.
  void find_ranks(const Numbers& steps, StepFormat& format) const {
    for (const auto& [column, series] : series_) {
      if (!series.whole || common(steps, series) < std::ssize(steps.points)) continue;
      if (!is_rank(column.key) && !is_tag(column, steps)) continue;
      take_ranks(column, values_on(steps, column), format);
      return;
    }
    if (is_of_epochs(steps)) return;
    constexpr int64_t near = 16;                         // lines
    std::map<double, std::pair<int64_t, int64_t>> seen;  // of a step: its last line, and how many before that were near
    std::map<int64_t, int64_t> steps_by_times;
    for (int64_t i = 0; i < std::ssize(steps.points); ++i) {
      auto& [last, times] = seen.try_emplace(steps.points[static_cast<size_t>(i)].value, -near, 0).first->second;
      times = i - last < near ? times + 1 : 1;
      last = i;
    }
    for (const auto& [step, one] : seen) ++steps_by_times[one.second];
    const auto usual = std::ranges::max_element(steps_by_times, {}, [](const auto& one) { return one.second; });
    if (seen.size() < 3 || usual->first < 2 || 5 * usual->second < 4 * std::ssize(seen) - 5) return;
    for (const auto& [column, series] : series_) {
      if (!series.whole || column == format.step || column == format.loss ||
          common(steps, series) < std::ssize(steps.points))
        continue;
      const std::set<double> values = values_on(steps, column);
      std::set<std::pair<double, double>> pairs;  // of a step and a process
      for (const Point& point : steps.points) pairs.insert({point.value, read_[point.line].find(column)->value});
      if (std::ssize(values) != usual->first || pairs.size() != steps.points.size()) continue;
      take_ranks(column, values, format);
      return;
    }
    if (format.loss && !format.loss_is_apart && !is_redrawn(steps, *format.loss)) format.copies = usual->first;
  }

  // "3: ", as srun --label says whose line it is: the ranks' lines come in any order, and each one's steps go up.
  [[nodiscard]] bool is_tag(const Column& column, const Numbers& steps) const {
    if (!column.key.empty() || column.marks != "^:") return false;
    std::map<double, double> last;  // step of a rank
    int64_t switches = 0;
    std::optional<double> before;
    for (const Point& point : steps.points) {
      const double rank = read_[point.line].find(column)->value;
      const auto [of_rank, is_first] = last.try_emplace(rank, point.value);
      if (!is_first && point.value <= of_rank->second) return false;
      of_rank->second = point.value;
      switches += before && before != rank ? 1 : 0;
      before = rank;
    }
    return switches >= 2 * std::ssize(last);
  }

  // What a column that all of these lines have says on them.
  [[nodiscard]] std::set<double> values_on(const Numbers& lines, const Column& column) const {
    std::set<double> values;
    for (const Point& point : lines.points) values.insert(read_[point.line].find(column)->value);
    return values;
  }
  static void take_ranks(const Column& column, const std::set<double>& ranks, StepFormat& format) {
    format.rank = column;
    format.of_rank = *ranks.begin();
    format.copies = std::ssize(ranks);
  }

  // Steps come again because epochs do: an epoch's number goes up, or the step far down.
  [[nodiscard]] bool is_of_epochs(const Numbers& steps) const {
    const Growth growth = growth_of(steps, 1);
    int64_t falls = 0;
    for (size_t i = 1; i < steps.points.size(); ++i) {
      const double less = steps.points[i - 1].value - steps.points[i].value;
      falls += less > 3.5 * static_cast<double>(std::max<int64_t>(growth.usual, 1)) ? 1 : 0;
    }
    return falls > 0 || std::ranges::any_of(series_, [&](const auto& one) {
             return is_epoch(one.first.key) && growth_of(one.second, 1).changes > 1 && common(steps, one.second) > 0;
           });
  }

  // A bar draws a step with the loss of the step before first.
  [[nodiscard]] bool is_redrawn(const Numbers& steps, const Column& loss) const {
    int64_t redrawn = 0, firsts = 0;
    std::optional<double> before;
    for (size_t i = 0; i < steps.points.size(); ++i) {
      const Number* const number = read_[steps.points[i].line].find(loss);
      const std::optional<double> here = number == nullptr ? std::nullopt : std::optional(number->value);
      if (i > 0 && steps.points[i].value != steps.points[i - 1].value) {
        ++firsts;
        redrawn += !here || here == before ? 1 : 0;
      }
      before = here;
    }
    return 2 * redrawn >= firsts;
  }

  [[nodiscard]] std::string shape(const StepFormat& format) const {
    const auto place = [](const Line& line, const std::optional<Column>& column) -> std::optional<size_t> {
      const Number* const number = column ? line.find(*column) : nullptr;
      return number == nullptr ? std::nullopt : std::optional(number->begin);
    };
    std::string apart;
    std::optional<std::string> shown;
    for (size_t i = read_.size(); i-- > 0;) {
      const auto step = place(read_[i], format.step), loss = place(read_[i], format.loss);
      if (read_[i].validates) continue;
      if (format.loss_is_apart && loss && apart.empty()) apart = ", then " + shape_of(lines_[i].text, {}, loss);
      const bool fits = format.step ? step && (!format.loss || format.loss_is_apart || loss) : loss.has_value();
      if (fits && !shown) shown = shape_of(lines_[i].text, step, loss);
    }
    return files::shortened(files::printable(shown.value_or("") + apart), 200);
  }

  const std::vector<LogLine>& lines_;
  std::vector<Line> read_;
  std::map<Column, Numbers> series_;
};

}  // namespace

bool is_named(const StepFormat& format) {
  if (format.rank && format.copies == 1) return false;  // others may come
  return format.step && step_rank(format.step->key) > 0 && format.loss && !format.loss_is_apart;
}

std::optional<StepFormat> format_of(const std::vector<LogLine>& lines) { return Decision(lines).format(); }

}  // namespace harness
