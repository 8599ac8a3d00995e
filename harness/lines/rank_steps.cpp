#include "harness/lines/rank_steps.h"

#include "harness/lines/step_pace.h"
#include "harness/stats/stats.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

namespace harness {

namespace {

constexpr int64_t most_ranks = 4096;
constexpr size_t most_said = 8192;  // of a rank

// Not waited for is a rank that is silent for so many steps of the lowest, and for so long.
constexpr int64_t patience_steps = 16;
constexpr double patience_s = 5;

// Of all values but one of this size, at least one. They are sorted.
double median_without(const std::vector<double>& sorted, double value) {
  const auto left_out = static_cast<size_t>(std::ranges::lower_bound(sorted, value) - sorted.begin());
  const auto other = [&](size_t i) { return sorted[i < left_out ? i : i + 1]; };
  const size_t others = sorted.size() - 1;
  return (other((others - 1) / 2) + other(others / 2)) / 2;
}

// Those of all ranks in a step.
std::vector<double> sorted(const auto& by_rank, auto value) {
  std::vector<double> all;
  for (const auto& [rank, one] : by_rank) all.push_back(value(one));
  std::ranges::sort(all);
  return all;
}

}  // namespace

void RankSteps::add(double rank, const std::vector<StepLine>& steps) {
  if (steps.empty() || (!ranks_.contains(rank) && seen() >= most_ranks)) return;
  Rank& of = ranks_[rank];
  of.silent = 0;
  for (const StepLine& step : steps) {
    if (!of.said.empty() && step.step <= of.said.back().step) continue;
    if (of.said.size() == most_said) of.said.erase(of.said.begin(), of.said.begin() + most_said / 2);
    of.said.push_back({.step = step.step, .seconds = step.seconds, .wait_ms = step.wait_ms});
  }
  if (rank != lowest_) return;
  held_.insert(held_.end(), steps.begin(), steps.end());
  for (auto& [other, one] : ranks_) one.silent += other == lowest_ ? 0 : std::ssize(steps);
}

bool RankSteps::waits(int64_t step) const {
  const Rank& lowest = ranks_.at(lowest_);
  const double now_s = lowest.said.back().seconds;
  if (seen() < expected_) {
    const bool is_late = std::ssize(lowest.said) >= patience_steps && now_s - lowest.said.front().seconds > patience_s;
    if (!is_late) return true;
  }
  return std::ranges::any_of(ranks_, [&](const auto& one) {
    const Said& last = one.second.said.back();
    const bool is_silent = one.second.silent >= patience_steps && now_s - last.seconds > patience_s;
    return last.step < step && !is_silent;
  });
}

StepLine RankSteps::ended(StepLine step) {
  step.lowest_s = step.seconds;
  for (const auto& [rank, of] : ranks_) {
    const auto said = std::ranges::lower_bound(of.said, step.step, {}, &Said::step);
    if (said == of.said.end() || said->step != step.step) continue;
    step.seconds = std::max(step.seconds, said->seconds);
    step.wait_ms = std::max(step.wait_ms, said->wait_ms);
  }
  ended_s_ = step.seconds = std::max(step.seconds, ended_s_);
  return step;
}

std::vector<StepLine> RankSteps::take() {
  std::vector<StepLine> out;
  for (; !held_.empty() && !waits(held_.front().step); held_.pop_front()) out.push_back(ended(held_.front()));
  return out;
}

std::vector<StepLine> RankSteps::end() {
  std::vector<StepLine> out;
  for (; !held_.empty(); held_.pop_front()) out.push_back(ended(held_.front()));
  return out;
}

std::pair<std::vector<int64_t>, RankSteps::Times> RankSteps::common(int64_t first_step, int64_t last_step) const {
  std::map<int64_t, int64_t> made_by;
  const auto is_within = [&](const Said& said) { return said.step >= first_step && said.step <= last_step; };
  for (const auto& [rank, of] : ranks_) {
    for (const Said& said : of.said) made_by[said.step] += is_within(said) ? 1 : 0;
  }
  std::vector<int64_t> steps;
  for (const auto& [step, ranks] : made_by) {
    if (ranks == seen()) steps.push_back(step);
  }
  Times times;
  for (const auto& [rank, of] : ranks_) {
    for (const Said& said : of.said) {
      if (std::ranges::binary_search(steps, said.step)) times[rank].push_back(said.seconds);
    }
  }
  return {steps, times};
}

std::optional<SlowRank> RankSteps::slowest(int64_t first_step, int64_t last_step, double least_lag_s) const {
  constexpr double least_longer = 0.01, least_lag = 0.1, in_most = 0.9;
  const auto [steps, times] = common(first_step, last_step);
  if (seen() < 2 || std::ssize(steps) <= least_intervals) return std::nullopt;
  const auto made = static_cast<double>(steps.back() - steps.front());
  std::map<double, double> means, medians;  // seconds of a step
  for (const auto& [rank, at] : times) {
    means[rank] = (at.back() - at.front()) / made;
    medians[rank] = median(step_ms_of(steps, at)) / 1000;
    if (!(means[rank] > 0)) return std::nullopt;
  }
  SlowRank slow;
  const std::vector<double> all_means = sorted(means, std::identity()), all_medians = sorted(medians, std::identity());
  // Ranks that wait for each other are never more than a step apart. A single pause makes the mean longer, uneven lines
  // the median.
  for (const auto& [rank, mean] : means) {
    const double others = median_without(all_means, mean);
    const double longer = std::min(mean / others, medians[rank] / median_without(all_medians, medians[rank])) - 1;
    const bool are_apart = (mean - others) * made > std::max(mean, least_lag_s);
    if (are_apart && longer > std::max(least_longer, slow.behind)) {
      slow = {std::llround(rank), longer, /*takes_longer=*/true};
    }
  }
  std::map<double, std::vector<double>> lags;  // shares of a step
  for (size_t i = 0; i < steps.size() && !slow.takes_longer; ++i) {
    const std::vector<double> all = sorted(times, [i](const auto& at) { return at[i]; });
    for (const auto& [rank, at] : times) lags[rank].push_back((at[i] - median_without(all, at[i])) / means.at(rank));
  }
  for (const auto& [rank, of] : lags) {
    const double least = std::max(least_lag, least_lag_s / means.at(rank));
    if (quantile(of, 1 - in_most) > std::max(least, slow.behind)) slow = {std::llround(rank), median(of), false};
  }
  slow.behind = std::min(slow.behind, most_behind);
  return slow.behind > 0 ? std::optional(slow) : std::nullopt;
}

RankReader::RankReader(const StepFormat& format) : steps_(format.of_rank, format.copies) {
  if (format.rank) format_ = format;
  StepFormat own = format;
  if (format.rank) own.copies = 1;
  readers_.emplace(format.of_rank, Reader{StepReader(std::move(own))});
}

std::vector<StepLine> RankReader::take(const LogLine& line) {
  if (!format_) return readers_.begin()->second.reader.take(line);
  if (const auto words = heading_of(line.text)) {
    heading_ = *words;
    heading_line_ = line;
    ++headings_;
    return {};
  }
  const Line read = line_of(line.text, heading_);
  const Number* const number = read.find(*format_->rank);
  const double rank = number == nullptr || !number->whole ? format_->of_rank : number->value;
  auto reader = readers_.find(rank);
  if (reader == readers_.end()) {
    if (std::ssize(readers_) >= most_ranks) return {};
    StepFormat own = *format_;
    own.of_rank = rank;
    own.copies = 1;
    reader = readers_.emplace(rank, Reader{StepReader(std::move(own))}).first;
  }
  auto& [of_rank, headings] = reader->second;
  if (std::exchange(headings, headings_) != headings_) (void)of_rank.take(heading_line_);
  steps_.add(rank, of_rank.take(line));
  return steps_.take();
}

std::vector<StepLine> RankReader::end() {
  if (!format_) return readers_.begin()->second.reader.end();
  for (auto& [rank, of] : readers_) steps_.add(rank, of.reader.end());
  return steps_.end();
}

}  // namespace harness
