#include "harness/lines/step_pace.h"

#include "harness/stats/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace harness {

namespace {

constexpr double instant_s = 0.001;  // faster than most steps
constexpr double quanta = 25;        // of what a clock leaves unknown, in one block
constexpr double late_s = 0.02;      // a terminal hands on a burst in pieces; a busy machine reads the next so late

struct Gap {
  double seconds = 0;
  int64_t steps = 1;
  bool has_others = false;  // lines that are no steps
  [[nodiscard]] double step_s() const { return seconds / static_cast<double>(steps); }
};

std::vector<Gap> gaps_of(const std::vector<StepLine>& steps) {
  std::vector<Gap> gaps;
  for (size_t i = 1; i < steps.size(); ++i) {
    if (steps[i].step <= steps[i - 1].step) continue;
    gaps.push_back({steps[i].seconds - steps[i - 1].seconds, steps[i].step - steps[i - 1].step, steps[i].after_others});
  }
  return gaps;
}

double median_of(const std::vector<Gap>& gaps, auto value) {
  std::vector<double> values;
  for (const Gap& gap : gaps) values.push_back(std::invoke(value, gap));
  return median(values);
}

// What the program says that a step takes, in seconds.
std::optional<double> own_s(const std::vector<StepLine>& steps) {
  std::vector<double> own;
  for (const StepLine& step : steps) {
    if (step.own_ms) own.push_back(*step.own_ms / 1000);
  }
  if (2 * own.size() < steps.size()) return std::nullopt;
  return median(own);
}

bool are_near(double one, double other) { return one < 1.3 * other && other < 1.3 * one; }

// The period of a clock that the gaps are whole multiples of, where their multiples or steps differ; 0: there is none.
double clock_of(const std::vector<Gap>& gaps) {
  std::vector<double> seconds;
  for (const Gap& gap : gaps) seconds.push_back(gap.seconds);
  std::ranges::sort(seconds);
  const auto is_clock = [&](double period) {
    std::set<std::pair<int64_t, int64_t>> kinds;
    int64_t on = 0;
    for (const Gap& gap : gaps) {
      const auto times = std::llround(gap.seconds / period);
      const double off = std::abs(gap.seconds - static_cast<double>(times) * period);
      if (times == 0 || off > std::max(0.002, 0.015 * gap.seconds) || off > 0.1 * period) continue;
      ++on;
      kinds.insert({times, gap.steps});
    }
    return 10 * on >= 9 * std::ssize(gaps) && kinds.size() > 1;
  };
  std::vector<double> periods{1.0, 0.5, 0.25, 0.2, 0.1, 0.05, seconds.front()};
  size_t widest = 1;  // gaps of n and n + 1 periods
  for (size_t i = 1; i < seconds.size(); ++i) {
    if (seconds[i] - seconds[i - 1] > seconds[widest] - seconds[widest - 1]) widest = i;
  }
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(widest);
  periods.push_back(median(std::vector<double>(middle, seconds.end())) -
                    median(std::vector<double>(seconds.begin(), middle)));
  for (const double period : periods) {
    if (period >= 0.02 && is_clock(period)) return period;
  }
  return 0;
}

// Every line 100 ms after the one before, whatever is printed: as if by a clock, and without a number that counts.
bool is_drawn_by_clock(const std::vector<Gap>& gaps) {
  std::vector<double> seconds;
  for (const Gap& gap : gaps) seconds.push_back(gap.seconds);
  const double usual = median(seconds), spread = quantile(seconds, 0.75) - quantile(seconds, 0.25);
  return usual >= 0.049 && spread <= 0.01 * usual && std::abs(std::remainder(usual, 0.05)) <= 0.01 * usual;
}

}  // namespace

PaceFound pace_of(const std::vector<StepLine>& steps) {
  const std::vector<Gap> gaps = gaps_of(steps);
  if (gaps.size() < 3) return {};
  const double all_s = steps.back().seconds - steps.front().seconds;
  const auto count = static_cast<double>(gaps.size());
  const double mean_s = all_s / count;
  const double usual_s = median_of(gaps, &Gap::step_s);
  const double mean_step_s = all_s / static_cast<double>(steps.back().step - steps.front().step);

  const auto is_instant = [&](const Gap& gap) { return gap.seconds < std::min(instant_s, mean_s / 10); };
  const auto instants = std::ranges::count_if(gaps, is_instant);
  const bool has_instants = 33 * instants >= std::ssize(gaps);
  std::vector<Gap> longs, shorts;
  for (const Gap& gap : gaps)
    ((has_instants ? !is_instant(gap) : gap.seconds > mean_s) ? longs : shorts).push_back(gap);
  if ((has_instants && longs.size() < 5) || (mean_s < instant_s && all_s < 1)) {
    return {.doubt = fmt::format("its {} step lines came at once, in {} bursts", steps.size(), longs.size() + 1),
            .needs_more = true};
  }
  double long_s = 0;
  int64_t long_others = 0, short_others = 0;
  for (const Gap& gap : longs) long_s += gap.seconds;
  for (const Gap& gap : longs) long_others += gap.has_others ? 1 : 0;
  for (const Gap& gap : shorts) short_others += gap.has_others ? 1 : 0;
  const auto own = own_s(steps);
  // Something else was done in the long gaps, and the program says so, or its clock does.
  const bool are_pauses =
      (own && are_near(*own, usual_s) && !are_near(*own, mean_step_s)) ||
      (!has_instants && 5 * long_others >= 4 * std::ssize(longs) && 5 * short_others <= std::ssize(shorts));
  const bool has_bursts = has_instants && !are_pauses && long_s > 0.8 * all_s;
  if (!has_bursts && !are_pauses && mean_step_s > (usual_s < instant_s ? 1.2 : 2) * usual_s) {
    return {.doubt = fmt::format("its lines come in groups, {:.3g} ms apart and then {:.3g} ms: something hands them "
                                 "on together, or it does "
                                 "other work between; --hook times PyTorch's optimizer",
                                 1000 * median_of(shorts, &Gap::seconds), 1000 * median_of(longs, &Gap::seconds))};
  }
  if (!has_bursts) {
    const double clock_s = clock_of(gaps);
    if (!steps.front().numbered && (clock_s > 0 || is_drawn_by_clock(gaps))) {
      return {
          .doubt = fmt::format(
              "its lines come every {:.0f} ms, as if by a clock, so they count no steps: --steps-from names a number "
              "that counts, --hook times PyTorch's optimizer",
              1000 * median_of(gaps, &Gap::seconds))};
    }
    int64_t common = 0;  // a clock draws any step, or hands on lines of every 10th
    for (const Gap& gap : gaps) common = std::gcd(common, gap.steps);
    const double block_s = quanta * (common > 1 || mean_s > 1.5 * clock_s ? clock_s : std::min(mean_step_s, clock_s));
    return {.pace = {.block_s = block_s > mean_s ? block_s : 0}};
  }
  std::vector<double> of_bursts;  // seconds of a step, of each whole one
  Gap burst{.steps = 0}, all{.steps = 0};
  bool has_begun = false;
  for (const Gap& gap : gaps) {
    if (!is_instant(gap) && std::exchange(has_begun, true)) {
      of_bursts.push_back(burst.step_s());
      all.seconds += burst.seconds;
      all.steps += burst.steps;
    }
    if (!is_instant(gap)) burst = {.steps = 0};
    burst.seconds += gap.seconds;
    burst.steps += gap.steps;
  }
  const double burst_gap_s = median_of(longs, &Gap::seconds);
  const bool are_equal = std::abs(median(of_bursts) / all.step_s() - 1) < 0.03 &&
                         quantile(of_bursts, 0.9) < 1.06 * quantile(of_bursts, 0.1);
  const double block_s = are_equal ? 0 : quanta * std::min(mean_s, burst_gap_s);
  const double burst_s = std::max(mean_s / 2, std::min(late_s, burst_gap_s / 10));
  return {.pace = {.burst_s = burst_s, .block_s = block_s > burst_gap_s ? block_s : 0}};
}

bool StepWindow::take(const StepLine& line) {
  bool any = false;
  if (!open_.empty() && !is_full_) {
    const double last_s = open_.back().seconds, before_s = lines_.empty() ? -pace_.block_s : lines_.back().seconds;
    const bool goes_on = pace_.burst_s > 0 ? line.seconds - last_s <= pace_.burst_s : line.seconds == last_s;
    if (!goes_on && last_s - before_s >= pace_.block_s) any = end();
  }
  if (!is_full_) open_.push_back(line);
  return any;
}

bool StepWindow::end() {
  const size_t before = lines_.size();
  for (StepLine& line : open_) {
    line.seconds = open_.back().seconds;
    if (lines_.empty() || line.step > lines_.back().step) lines_.push_back(line);
  }
  open_.clear();
  if (lines_.size() == before) return false;
  if (!has_begun()) {
    if (steps_from(0) >= warmup_) first_timed_ = lines_.size() - 1;
  } else {
    ++times_;
    is_full_ = times_ >= least_intervals && steps_from(first_timed_) >= timed_;
  }
  has_lines_ = true;
  return true;
}

int64_t StepWindow::steps_from(size_t line) const {
  return counts_lines_ ? std::ssize(lines_) - 1 - static_cast<int64_t>(line) : lines_.back().step - lines_[line].step;
}

int64_t StepWindow::made() const { return lines_.empty() ? 0 : steps_from(0); }

std::vector<double> StepWindow::step_ms() const {
  std::vector<int64_t> steps;
  std::vector<double> seconds;
  for (const StepLine& line : lines_) {
    steps.push_back(line.step);
    seconds.push_back(line.seconds);
  }
  return step_ms_of(steps, seconds);
}

std::vector<double> StepWindow::timed_ms() const {
  std::vector<double> ms = step_ms();
  ms.erase(ms.begin(), ms.begin() + static_cast<std::ptrdiff_t>(std::min(first_timed_, ms.size())));
  return ms;
}

std::vector<double> step_ms_of(const std::vector<int64_t>& steps, const std::vector<double>& seconds) {
  std::vector<double> ms;
  for (size_t i = 1; i < steps.size();) {
    const size_t before = i - 1;
    size_t last = i;
    while (last + 1 < steps.size() && seconds[last + 1] == seconds[i]) ++last;
    const double each = 1000 * (seconds[last] - seconds[before]) / static_cast<double>(steps[last] - steps[before]);
    for (; i <= last; ++i) ms.push_back(std::max(each, least_step_ms));
  }
  return ms;
}

}  // namespace harness
