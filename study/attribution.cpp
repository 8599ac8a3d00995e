#include "study/attribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace study {

using harness::Estimate;

namespace {

using Reasons = std::vector<std::string>;

Worth worth_of(const std::string& optimization, Method method, const std::optional<Estimate>& estimate) {
  Worth worth;
  worth.optimization = optimization;
  worth.method = method;
  if (!estimate) return worth;
  static_cast<Bounds&>(worth) = bounds(*estimate);
  worth.ratio = estimate->center;
  worth.repeats = estimate->n;
  return worth;
}

std::string no_number(const Plan& plan, const Reasons& reasons, size_t rung) {
  return fmt::format("\"{}\" has none: {}", plan.rungs[rung].title, reasons[rung]);
}

// Rungs that say what they are compared with: with and without one optimization.
std::vector<Worth> of_pairs(const Plan& plan, const std::vector<Times>& times, const Reasons& reasons) {
  const bool left_out = plan.mode == Mode::leave_one_out;
  std::vector<Worth> result;
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const Rung& rung = plan.rungs[i];
    if (!rung.against) continue;
    const size_t off = left_out ? i : *rung.against, on = left_out ? *rung.against : i;
    Worth worth = worth_of(rung.optimization, left_out ? Method::leave_one_out : Method::one_at_a_time,
                           paired(times[off], times[on]));
    if (!worth.ratio) {
      worth.reason = times[i].empty()               ? reasons[i]
                     : times[*rung.against].empty() ? no_number(plan, reasons, *rung.against)
                                                    : "no repeat has both runs yet";
    }
    result.push_back(worth);
  }
  return result;
}

std::vector<Worth> of_subsets(const Plan& plan, const std::vector<Times>& times, const Reasons& reasons) {
  const auto largest = std::ranges::max_element(plan.rungs, {}, [](const Rung& rung) { return rung.applied.size(); });
  std::vector<std::string> factors;
  for (const std::string& name : largest->applied) {
    const auto& base = plan.rungs[plan.reference].applied;
    if (std::ranges::find(base, name) == base.end()) factors.push_back(name);
  }
  std::vector<size_t> rung_of(size_t{1} << factors.size());  // by subset
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    size_t subset = 0;
    for (size_t f = 0; f < factors.size(); ++f) {
      const bool on = std::ranges::find(plan.rungs[i].applied, factors[f]) != plan.rungs[i].applied.end();
      subset |= static_cast<size_t>(on) << f;
    }
    rung_of[subset] = i;
  }
  std::vector<Worth> result;
  result.reserve(4 * factors.size());
  std::vector<std::vector<double>> values(factors.size());  // by factor, of each complete repeat
  for (int64_t repeat = 0; repeat < plan.repeats; ++repeat) {
    std::vector<double> log_times;
    for (const size_t rung : rung_of) {
      if (const auto time = times[rung].find(repeat); time != times[rung].end()) {
        log_times.push_back(std::log(time->second));
      }
    }
    if (log_times.size() < rung_of.size()) continue;
    const std::vector<double> phi = shapley_values(log_times);
    for (size_t f = 0; f < factors.size(); ++f) values[f].push_back(phi[f]);
  }
  const auto lacking = std::ranges::find_if(rung_of, [&](size_t rung) { return times[rung].empty(); });
  for (size_t f = 0; f < factors.size(); ++f) {
    if (!values[f].empty()) {
      result.push_back(worth_of(factors[f], Method::shapley, harness::mean_ratio(values[f])));
    } else {
      result.push_back(worth_of(factors[f], Method::shapley, std::nullopt));
      result.back().reason =
          lacking == rung_of.end() ? "no repeat has the runs of all subsets yet" : no_number(plan, reasons, *lacking);
    }
  }
  // What the other modes would have told, from the subsets that they would have measured.
  const size_t all = rung_of.size() - 1;
  for (const Method method : {Method::cumulative, Method::leave_one_out, Method::one_at_a_time}) {
    for (size_t f = 0; f < factors.size(); ++f) {
      const size_t bit = size_t{1} << f;
      const size_t with = method == Method::cumulative ? 2 * bit - 1 : method == Method::leave_one_out ? all : bit;
      const size_t off = rung_of[with ^ bit], on = rung_of[with];
      Worth worth = worth_of(factors[f], method, paired(times[off], times[on]));
      if (!worth.ratio) {
        worth.reason = times[off].empty()  ? no_number(plan, reasons, off)
                       : times[on].empty() ? no_number(plan, reasons, on)
                                           : "no repeat has both runs yet";
      }
      result.push_back(worth);
    }
  }
  return result;
}

}  // namespace

std::vector<double> shapley_values(std::span<const double> log_times) {
  const auto k = static_cast<size_t>(std::countr_zero(log_times.size()));
  // |S|! (k-|S|-1)! / k! is 1 / (k * (k-1 choose |S|)).
  std::vector<double> weight(k);
  double choose = 1;
  for (size_t size = 0; size < k; ++size) {
    weight[size] = 1.0 / (static_cast<double>(k) * choose);
    choose = choose * static_cast<double>(k - 1 - size) / static_cast<double>(size + 1);
  }
  std::vector<double> values(k);
  for (size_t factor = 0; factor < k; ++factor) {
    for (size_t subset = 0; subset < log_times.size(); ++subset) {
      const size_t bit = size_t{1} << factor;
      if ((subset & bit) != 0) continue;
      values[factor] +=
          weight[static_cast<size_t>(std::popcount(subset))] * (log_times[subset] - log_times[subset | bit]);
    }
  }
  return values;
}

std::optional<Estimate> paired(const Times& before, const Times& after) {
  std::vector<double> before_ms, after_ms;
  for (const auto& [repeat, ms] : after) {
    const auto pair = before.find(repeat);
    if (pair == before.end()) continue;
    before_ms.push_back(pair->second);
    after_ms.push_back(ms);
  }
  if (after_ms.empty()) return std::nullopt;
  return harness::paired_ratio(before_ms, after_ms);
}

std::vector<Worth> attribution(const Plan& plan, const std::vector<Times>& times, const Reasons& reasons) {
  switch (plan.mode) {
    case Mode::leave_one_out:
    case Mode::one_at_a_time:
      return of_pairs(plan, times, reasons);
    case Mode::factorial:
      return of_subsets(plan, times, reasons);
    default:
      return {};
  }
}

}  // namespace study
