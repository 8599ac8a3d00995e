#include "ablations/report/lr_sweep_words.h"

#include "ablations/report/origin.h"
#include "ablations/text/figures.h"
#include "ablations/training/rate_verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace ablations {

namespace {

std::string shown_rate(const SweptRate& rate) { return fmt::format("{:.3g}", rate.learning_rate.peak); }

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
    if (!rate.end || !rate.losses.front()) return "diverged: its last losses are not finite";
    return fmt::format("diverged: it ends at {:.2f}, above its first loss of {:.2f}", rate.end->mean,
                       *rate.losses.front());
  }
  const LossesAtTheEnd& end = *rate.end;
  if (!sweep.best) {
    return fmt::format("does not learn: it ends at {:.2f}, its first loss is {:.2f}", end.mean, *rate.losses.front());
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
  if (!sweep.best && count_of(sweep, RateVerdict::too_low) == 0) return "Every learning rate diverged: try lower ones";
  if (!sweep.best) {
    return fmt::format(
        "No learning rate learns: none ends {:g} nats below its first loss; {}", sweep.margin,
        count_of(sweep, RateVerdict::too_high) == 0 ? "try higher ones, or more steps" : "take more steps");
  }
  const std::string best = shown_rate(sweep.rates[*sweep.best]);
  return count_of(sweep, RateVerdict::good) == 1
             ? fmt::format("One good learning rate: {}", best)
             : fmt::format("Good learning rates: {}, the best is {}", ranges_of(sweep, RateVerdict::good), best);
}

std::vector<std::string> sweep_remarks(const LearningRateSweep& sweep) {
  std::vector<std::string> remarks;
  const auto count = std::ssize(sweep.rates);
  if (count < sweep.planned) {
    remarks.push_back(fmt::format("Interrupted: {} of {} rates were trained.", count, sweep.planned));
  }
  if (!sweep.best || count == 1) return remarks;
  if (*sweep.best == 0) {
    remarks.emplace_back("The best rate is the lowest that was tried: lower ones may be better.");
  } else if (*sweep.best + 1 == sweep.rates.size()) {
    remarks.emplace_back("The best rate is the highest that was tried: higher ones may be better.");
  }
  return remarks;
}

// How many rates have that verdict, and which.
Card card_of(const LearningRateSweep& sweep, RateVerdict verdict, const std::string& what, Mood mood) {
  const int64_t rates = count_of(sweep, verdict);
  return {what, fmt::format("{} of {}", rates, sweep.rates.size()), rates == 0 ? Mood::plain : mood,
          rates == 0 ? "" : ranges_of(sweep, verdict)};
}

std::vector<Card> sweep_cards(const LearningRateSweep& sweep) {
  const TrainingSettings& settings = sweep.training.settings;
  std::vector<Card> cards;
  if (sweep.best) {
    const SweptRate& best = sweep.rates[*sweep.best];
    cards.push_back({"Best rate", shown_rate(best), Mood::good,
                     fmt::format("ends at a loss of {:.2f}, from {:.2f}", best.end->mean,
                                 best.losses.front().value_or(best.end->mean))});
  }
  cards.push_back(card_of(sweep, RateVerdict::too_low, "Too low", Mood::plain));
  cards.push_back(card_of(sweep, RateVerdict::good, "Good", Mood::good));
  cards.push_back(card_of(sweep, RateVerdict::too_high, "Too high", Mood::warn));
  const int64_t warmup = settings.learning_rate.warmup_steps;
  cards.push_back({"Warm-up", warmup == 0 ? "none" : number_of(warmup, "step"), Mood::plain, "`--warmup-steps`"});
  cards.push_back({"Clipping", settings.clip ? fmt::format("to a norm of {}", plain(*settings.clip)) : "none",
                   Mood::plain, "`--clip`"});
  return cards;
}

std::vector<Term> sweep_terms(const LearningRateSweep& sweep) {
  return {
      {"A rate",
       fmt::format("is the highest of its training, which has {} and begins with the same weights as the others, on "
                   "the same text. Warm-up and decay have the same shape for all.",
                   number_of(sweep.training.settings.steps, "step"))},
      {"The end",
       fmt::format(
           "of a training is its last quarter, four steps at least, here {}. Its loss is their mean, the whiskers are "
           "their standard deviation about a straight line.",
           number_of(sweep.end_steps, "step"))},
      {"The best",
       fmt::format("rate ends with the lowest loss, at least {:g} nats below its first one, which is the loss without "
                   "training. Where no rate does, none is the best.",
                   sweep.margin)},
      {"Good", fmt::format("rates end at most {:g} nats above the best.", sweep.margin)},
      {"Too low",
       fmt::format("is a rate below the best that ends further above it. It is still falling where the line through "
                   "its end falls further than the best rate's, by more than {:g} nats: it is where the best was "
                   "before. Otherwise it falls slowly.",
                   sweep.margin)},
      {"Too high",
       fmt::format("is a rate above the best that ends further above it, or that oscillates: the losses at its end "
                   "swing by more than {0:g} nats, and by more than {1:g} times as much as the best rate's, which has "
                   "the same batches. It has diverged where a loss or a norm is not finite, or where it ends above its "
                   "first loss.",
                   sweep.margin, swing_ratio)},
      {"Short trainings",
       "find the order of magnitude. A long training often needs a lower rate than the best of a "
       "short one, and another model, batch or text another rate."}};
}

}  // namespace

LearningRateSweep with_words(LearningRateSweep sweep) {
  for (size_t i = 0; i < sweep.rates.size(); ++i) sweep.rates[i].words = words_of_rate(sweep, i);
  const std::string headline = sweep_headline(sweep);
  const auto count = [&](RateVerdict verdict) { return count_of(sweep, verdict); };
  sweep.words = {
      .headline = headline,
      .remarks = sweep_remarks(sweep),
      .cards = sweep_cards(sweep),
      .how_to_read = sweep_terms(sweep),
      .findings = {{"lr_sweep", headline},
                   {"lr_curves", fmt::format("Rates: {} too low, {} good, {} too high", count(RateVerdict::too_low),
                                             count(RateVerdict::good), count(RateVerdict::too_high))}},
      .origin = origin_of(sweep.training, sweep.device)};
  return sweep;
}

}  // namespace ablations
