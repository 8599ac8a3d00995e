#include "plots/lr_sweep_text.h"

#include "files/printable.h"
#include "plots/report_document.h"
#include "plots/sentences.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

namespace plots {

namespace {

// "3.2e-4", as axes have it.
std::string shown_rate(const SweptRate& rate) {
  const std::string text = fmt::format("{:.1e}", rate.learning_rate.peak);
  return fmt::format("{}e{}", text.substr(0, text[2] == '0' ? 1 : 3), std::stoi(text.substr(4)));
}

int64_t count_of(const LearningRateSweep& sweep, RateVerdict verdict) {
  return std::ranges::count(sweep.rates, verdict, &SweptRate::verdict);
}

// "0.001 to 0.00316", "0.001", "0.001, 0.01 to 0.0316": from one to another only where all between them are so, too.
std::string ranges_of(const LearningRateSweep& sweep, RateVerdict verdict) {
  std::vector<std::string> ranges;
  const auto end = sweep.rates.end();
  const auto is_so = [&](const SweptRate& rate) { return rate.verdict == verdict; };
  for (auto first = std::find_if(sweep.rates.begin(), end, is_so); first != end;) {
    const auto after = std::find_if_not(first, end, is_so);
    const std::string from = shown_rate(*first), to = shown_rate(*(after - 1));
    ranges.push_back(after - first == 1 ? from : fmt::format("{} to {}", from, to));
    first = std::find_if(after, end, is_so);
  }
  return fmt::format("{}", fmt::join(ranges, ", "));
}

std::string words_of_rate(const LearningRateSweep& sweep, size_t index) {
  const SweptRate& rate = sweep.rates[index];
  if (rate.reason == RateReason::diverged) {
    if (!rate.not_finite.empty()) return fmt::format("diverged: {} is not finite", rate.not_finite);
    const std::optional<double> before = sweep.loss_before(rate);
    if (!rate.end || !before) return "diverged: its last losses are not finite";
    return fmt::format("diverged: it ends at {:.2f}, above {:.2f} without training", rate.end->mean, *before);
  }
  const LossesAtTheEnd& end = *rate.end;
  if (!sweep.best) {
    return fmt::format("does not learn: it ends at {:.2f}; without training {:.2f}", end.mean,
                       *sweep.loss_before(rate));
  }
  const LossesAtTheEnd& best = *sweep.rates[*sweep.best].end;
  const double above = end.mean - best.mean;
  switch (rate.reason) {
    case RateReason::oscillates:
      return fmt::format(
          "oscillates: its last {} losses swing by {:.2f} nats about their line, the best rate's by "
          "{:.2f}",
          sweep.end_steps, end.swing, best.swing);
    case RateReason::falls_behind:
    case RateReason::falls_slowly:
      return fmt::format("{}: it ends {:.2f} nats above the best", name_of(rate.reason), above);
    case RateReason::still_falling:
      return fmt::format(
          "still falling: {:.2f} nats in its last {} steps, the best rate {:.2f}; it ends {:.2f} above it", end.fall,
          sweep.end_steps, best.fall, above);
    case RateReason::near_the_best:
    case RateReason::diverged:
      break;
  }
  return index == *sweep.best ? fmt::format("the best: it ends at {:.2f}", end.mean)
                              : fmt::format("it ends at {:.2f}, {:.2f} nats above the best", end.mean, above);
}

std::string sweep_headline(const LearningRateSweep& sweep) {
  if (sweep.best) return "Best learning rate " + shown_rate(sweep.rates[*sweep.best]);
  return count_of(sweep, RateVerdict::too_low) == 0 ? "Every learning rate diverged" : "No learning rate learns";
}

std::vector<std::string> sweep_lines(const LearningRateSweep& sweep) {
  std::vector<std::string> parts;
  for (const auto& [verdict, name] : {std::pair(RateVerdict::too_low, "too low"), std::pair(RateVerdict::good, "good"),
                                      std::pair(RateVerdict::too_high, "too high")}) {
    if (const std::string ranges = ranges_of(sweep, verdict); !ranges.empty()) {
      parts.push_back(fmt::format("{}: {}", name, ranges));
    }
  }
  std::string line = fmt::format("{}", fmt::join(parts, " \u00b7 "));
  if (!sweep.best) return {line};
  const SweptRate& best = sweep.rates[*sweep.best];
  return {
      fmt::format("It ends at a loss of {:.2f}, from {:.2f}, in {}.", best.end->mean,
                  sweep.loss_before(best).value_or(best.end->mean), number_of(sweep.training.settings.steps, "step")),
      capitalized(line)};
}

std::vector<Remark> sweep_remarks(const LearningRateSweep& sweep) {
  std::vector<Remark> remarks;
  const auto trained = std::ssize(sweep.rates);
  if (trained < sweep.planned) {
    remarks.push_back({Severity::warn, "unfinished",
                       fmt::format("Interrupted: {} of {} rates were trained.", trained, sweep.planned), ""});
  }
  if (!sweep.best) {
    const bool all_high = count_of(sweep, RateVerdict::too_low) == 0,
               no_high = count_of(sweep, RateVerdict::too_high) == 0;
    remarks.push_back({Severity::bad, "nothing-learns",
                       fmt::format("No rate ends {:g} nats below the loss without training.", sweep.margin),
                       all_high  ? "Try lower rates."
                       : no_high ? "Try higher rates, or more steps."
                                 : "Take more steps."});
  } else if (trained > 1 && *sweep.best == 0) {
    remarks.push_back(
        {Severity::warn, "at-the-edge", "The best rate is the lowest that was tried.", "Lower ones may be better."});
  } else if (trained > 1 && *sweep.best + 1 == sweep.rates.size()) {
    remarks.push_back(
        {Severity::warn, "at-the-edge", "The best rate is the highest that was tried.", "Higher ones may be better."});
  }
  return remarks;
}

constexpr const char* rate_row = "{:<9} {:>7} {:>6}  {:<8}  {}";
constexpr size_t why_at = 36;  // the last column

}  // namespace

LearningRateSweep with_said(LearningRateSweep sweep) {
  for (size_t i = 0; i < sweep.rates.size(); ++i) sweep.rates[i].words = words_of_rate(sweep, i);
  sweep.said = {.title = title_of(sweep.training, sweep.device),
                .headline = sweep_headline(sweep),
                .lines = sweep_lines(sweep),
                .remarks = sweep_remarks(sweep),
                .command = ""};
  return sweep;
}

std::string lr_sweep_table(const LearningRateSweep& as_written, const Look& look) {
  const LearningRateSweep sweep = with_printable_texts(as_written);
  const TrainingSettings& settings = sweep.training.settings;
  std::string text = look.painted(
      Style::strong, wrapped(fmt::format("{}, {} of {} tokens, {}", settings.model, number_of(settings.steps, "step"),
                                         settings.tokens_per_step(), sweep.device.name)));
  text += look.painted(Style::faint, fmt::format(rate_row, "rate", "ends at", "swing", "verdict", "why") + "\n" +
                                         std::string(columns(), '-') + "\n");
  for (const SweptRate& rate : sweep.rates) {
    const std::string verdict = name_of(rate.verdict);
    const std::string line =
        wrapped(fmt::format(rate_row, shown_rate(rate), rate.end ? fmt::format("{:.4g}", rate.end->mean) : "-",
                            rate.end ? fmt::format("{:.2f}", rate.end->swing) : "-", verdict, rate.words),
                std::string(why_at, ' '));
    text += look.painted(style_of(verdict), line, line.find(verdict), verdict.size());
  }
  text += look.painted(Style::faint, std::string(columns(), '-') + "\n");
  return text + said_text(sweep.said, look);
}

}  // namespace plots
