#include "study/training/rate_verdict.h"

#include "files/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace study {

namespace {

// By how much its end is above the loss without training; below 0: it has learned. None where one is not finite.
std::optional<double> risen(const LearningRateSweep& sweep, const SweptRate& rate) {
  const std::optional<double> before = sweep.loss_before(rate);
  return rate.end && before ? std::optional(rate.end->mean - *before) : std::nullopt;
}

std::optional<size_t> best_of(const LearningRateSweep& sweep) {
  std::optional<size_t> best;
  for (size_t i = 0; i < sweep.rates.size(); ++i) {
    if (risen(sweep, sweep.rates[i]).value_or(0) > -rate_margin) continue;
    if (!best || sweep.rates[i].end->mean < sweep.rates[*best].end->mean) best = i;
  }
  return best;
}

// Of a rate below or above the best one.
RateReason reason_of(const LearningRateSweep& sweep, const SweptRate& rate, const SweptRate& best, bool is_above) {
  if (!rate.end || (is_above && risen(sweep, rate).value_or(0) > rate_margin)) return RateReason::diverged;
  if (is_above && rate.end->swing > std::max(rate_margin, swing_ratio * best.end->swing)) return RateReason::oscillates;
  // One training each: what its losses swing by anyway tells no two rates apart.
  if (rate.end->mean <= best.end->mean + std::max(rate_margin, best.end->swing)) return RateReason::near_the_best;
  if (is_above) return RateReason::falls_behind;
  return rate.end->fall > best.end->fall + rate_margin ? RateReason::still_falling : RateReason::falls_slowly;
}

RateVerdict verdict_of(RateReason reason) {
  if (reason == RateReason::near_the_best) return RateVerdict::good;
  const bool is_low = reason == RateReason::falls_slowly || reason == RateReason::still_falling;
  return is_low ? RateVerdict::too_low : RateVerdict::too_high;
}

}  // namespace

int64_t end_steps_of(int64_t steps) { return std::min(steps, std::max<int64_t>(4, (steps + 3) / 4)); }

std::optional<LossesAtTheEnd> losses_at_the_end(const std::vector<std::optional<double>>& losses, int64_t count) {
  const int64_t n = std::min(count, std::ssize(losses));
  std::vector<double> last;
  for (auto loss = losses.end() - n; loss != losses.end(); ++loss) {
    if (!*loss) return std::nullopt;
    last.push_back(**loss);
  }
  const double mean = std::accumulate(last.begin(), last.end(), 0.0) / static_cast<double>(n);
  // Least squares, with steps counted from the middle of the part.
  const double middle = static_cast<double>(n - 1) / 2;
  double xx = 0, xy = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(i) - middle;
    xx += x * x;
    xy += x * (last[static_cast<size_t>(i)] - mean);
  }
  const double slope = xx > 0 ? xy / xx : 0;
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double rest = last[static_cast<size_t>(i)] - mean - slope * (static_cast<double>(i) - middle);
    squares += rest * rest;
  }
  const LossesAtTheEnd end{.mean = mean,
                           .fall = -slope * static_cast<double>(n - 1),
                           .swing = n > 2 ? std::sqrt(squares / static_cast<double>(n - 2)) : 0};
  const bool counts = std::isfinite(end.mean) && std::isfinite(end.fall) && std::isfinite(end.swing);
  return counts ? std::optional(end) : std::nullopt;
}

LearningRateSweep with_verdicts(LearningRateSweep sweep) {
  const int64_t steps = sweep.training.settings.steps;
  sweep.end_steps = end_steps_of(steps);
  sweep.margin = rate_margin;
  for (SweptRate& rate : sweep.rates) {
    const bool is_whole = rate.not_finite.empty() && std::ssize(rate.losses) == steps;
    rate.end = is_whole ? losses_at_the_end(rate.losses, sweep.end_steps) : std::nullopt;
    if (rate.end && rate.held_out) rate.end->mean = *rate.held_out;
  }
  sweep.best = best_of(sweep);
  bool is_above_diverged = false;
  for (size_t i = 0; i < sweep.rates.size(); ++i) {
    SweptRate& rate = sweep.rates[i];
    if (sweep.best) {
      rate.reason = reason_of(sweep, rate, sweep.rates[*sweep.best], i > *sweep.best);
    } else {
      const bool has_diverged = risen(sweep, rate).value_or(INFINITY) > rate_margin;
      is_above_diverged = is_above_diverged || has_diverged;
      rate.reason = has_diverged        ? RateReason::diverged
                    : is_above_diverged ? RateReason::falls_behind
                                        : RateReason::falls_slowly;
    }
    rate.verdict = verdict_of(rate.reason);
  }
  return sweep;
}

namespace {

constexpr int64_t most_rates = 100;  // as the schema of a sweep has it
constexpr double lowest_rate = 1e-30, highest_rate = 1e30;

// None: the text is no such number.
template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::vector<double> rates_of(const std::string& text) {
  const size_t first = text.find(':'), second = first == std::string::npos ? first : text.find(':', first + 1);
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(
        fmt::format("--lr-sweep must be MIN:MAX:COUNT, such as 1e-5:1e-1:9, {}, got {}", why, files::in_quotes(text)));
  };
  if (second == std::string::npos) refuse("three numbers with colons between them");
  const std::string_view view = text;
  const auto least = number_in<double>(view.substr(0, first));
  const auto most = number_in<double>(view.substr(first + 1, second - first - 1));
  const auto count = number_in<int64_t>(view.substr(second + 1));
  if (!least || !most || !(*least >= lowest_rate && *least < *most && *most <= highest_rate)) {
    refuse(fmt::format("with rates between {:g} and {:g} and MIN below MAX", lowest_rate, highest_rate));
  }
  if (!count || *count < 2 || *count > most_rates) refuse(fmt::format("with a COUNT between 2 and {}", most_rates));
  std::vector<double> rates{*least};
  for (int64_t i = 1; i < *count - 1; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(*count - 1);
    rates.push_back(std::stod(fmt::format("{:.3g}", *least * std::pow(*most / *least, share))));
  }
  rates.push_back(*most);
  if (std::ranges::adjacent_find(rates, std::greater_equal<>()) != rates.end()) {
    refuse("with rates that differ in their first three digits");
  }
  return rates;
}

}  // namespace study
