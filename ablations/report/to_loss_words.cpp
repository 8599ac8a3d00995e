#include "ablations/report/to_loss_words.h"

#include "ablations/report/origin.h"
#include "ablations/text/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ablations {

namespace {

using harness::Quality;

// "1.52x as fast [1.40-1.60]"
std::string speedup_text(const OverSeeds& speedup) {
  const std::string interval =
      speedup.lo && speedup.hi ? fmt::format(" [{:.2f}-{:.2f}]", *speedup.lo, *speedup.hi) : "";
  return fmt::format("{:.2f}x as fast{}", speedup.mean, interval);
}

// "+0.0031 nats [-0.0040, +0.0102]"
std::string difference_text(const OverSeeds& difference) {
  const std::string interval =
      difference.lo && difference.hi ? fmt::format(" [{:+.4f}, {:+.4f}]", *difference.lo, *difference.hi) : "";
  return fmt::format("{:+.4f} nats{}", difference.mean, interval);
}

// Why trainings of the rung did not end well.
std::vector<std::string> faults_of(const TimeToLoss& study, size_t rung) {
  std::vector<std::string> faults;
  for (const SeedTraining& training : study.trainings) {
    if (training.rung != rung) continue;
    if (!training.not_finite.empty()) {
      faults.push_back(fmt::format("diverged with seed {}: {} is not finite", training.seed, training.not_finite));
    } else if (!training.failure.empty()) {
      faults.push_back(fmt::format("failed with seed {}: {}", training.seed, training.failure));
    }
  }
  return faults;
}

std::string words_of_rung(const TimeToLoss& study, size_t index) {
  const RungToLoss& rung = study.rungs[index];
  if (rung.status != Rung::Status::planned) return "skipped: " + rung.reason;
  std::vector<std::string> said = faults_of(study, index);
  if (rung.ended == 0) {
    if (said.empty()) said.emplace_back("not trained yet");
    return fmt::format("{}", fmt::join(said, "; "));
  }
  if (rung.reached < rung.ended) {
    said.push_back(rung.reached == 0
                       ? "the loss was not reached"
                       : fmt::format("the loss was reached in {} of {} trainings", rung.reached, rung.ended));
  }
  if (index == study.reference) said.emplace_back("the others are compared with it");
  if (rung.speedup) {
    said.push_back(speedup_text(*rung.speedup) + (rung.counts ? "" : ", which does not count"));
  }
  if (rung.difference) said.push_back("at the end " + difference_text(*rung.difference));
  return fmt::format("{}", fmt::join(said, "; "));
}

// The rung with the largest speedup that counts and whose interval lies above 1.
const RungToLoss* clearly_fastest(const TimeToLoss& study) {
  const RungToLoss* best = nullptr;
  for (const RungToLoss& rung : study.rungs) {
    if (!rung.counts || rung.speedup->lo.value_or(0) <= 1) continue;
    if (best == nullptr || rung.speedup->mean > best->speedup->mean) best = &rung;
  }
  return best;
}

int64_t compared(const TimeToLoss& study) {
  return std::ranges::count_if(study.rungs, [](const RungToLoss& rung) { return rung.quality.has_value(); });
}

int64_t with_quality(const TimeToLoss& study, Quality quality) {
  return std::ranges::count(study.rungs, std::optional(quality), &RungToLoss::quality);
}

bool is_reached(const TimeToLoss& study) {
  return std::ranges::any_of(study.rungs, [](const RungToLoss& rung) { return rung.reached > 0; });
}

std::string to_loss_headline(const TimeToLoss& study) {
  if (study.trainings.empty()) return "No training has ended yet";
  if (!is_reached(study)) return fmt::format("No training reached a validation loss of {:g}", study.loss);
  const RungToLoss& reference = study.rungs[study.reference];
  if (const RungToLoss* best = clearly_fastest(study)) {
    return fmt::format("\"{}\" is {} to a validation loss of {:g}, with the same quality as \"{}\"", best->title,
                       speedup_text(*best->speedup), study.loss, reference.title);
  }
  if (compared(study) > 0) {
    return fmt::format("No rung is clearly faster than \"{}\" to a validation loss of {:g} with the same quality",
                       reference.title, study.loss);
  }
  return reference.seconds ? fmt::format("\"{}\" reaches a validation loss of {:g} in {} s", reference.title,
                                         study.loss, digits3(*reference.seconds))
                           : "There is no rung to compare";
}

std::vector<std::string> to_loss_remarks(const TimeToLoss& study) {
  std::vector<std::string> remarks;
  const auto made = std::ssize(study.trainings);
  if (made < study.planned()) {
    remarks.push_back(
        fmt::format("Interrupted: {} of {} trainings were made. `ladder ablate --resume` makes the others.", made,
                    study.planned()));
  }
  if (study.seeds == 1) {
    remarks.emplace_back("One seed has no interval, so there is no verdict on quality: `--seeds 3` or more gives one.");
  }
  const RungToLoss& reference = study.rungs[study.reference];
  if (reference.ended > 0 && reference.reached < reference.ended && reference.loss) {
    remarks.push_back(fmt::format(
        "The reference ends at {:.4f}, averaged over its seeds: a higher `--to-loss`, or more steps, can be reached.",
        *reference.loss));
  }
  if (with_quality(study, Quality::unclear) > 0) {
    remarks.emplace_back(
        "Unclear: the margin lies within the interval of the difference. More `--seeds` make the interval narrower.");
  }
  return remarks;
}

std::vector<Card> to_loss_cards(const TimeToLoss& study) {
  const int64_t rungs = compared(study), same = with_quality(study, Quality::same);
  const auto made = std::ssize(study.trainings);
  const TrainingSettings& settings = study.training.settings;
  std::vector<Card> cards{
      {"Validation loss", fmt::format("{:g}", study.loss), Mood::plain, "`--to-loss`"},
      {"Margin", fmt::format("{:g} nats", study.margin), Mood::plain, "`--margin`"},
      {"Trainings", fmt::format("{} of {}", made, study.planned()), made < study.planned() ? Mood::warn : Mood::good,
       fmt::format("{} with {} each, {} long", number_of(study.planned() / study.seeds, "rung"),
                   number_of(study.seeds, "seed"), number_of(settings.steps, "step"))}};
  if (rungs > 0) {
    cards.push_back({"Same quality", fmt::format("{} of {}", same, number_of(rungs, "rung")),
                     same == rungs ? Mood::good : Mood::warn, ""});
  }
  return cards;
}

std::vector<Term> to_loss_terms(const TimeToLoss& study) {
  return {
      {"A training", "is one process. With one seed all rungs begin with the same weights and see the same batches."},
      {"Seconds",
       "are those of the steps. Starting the process, drawing the first weights and validation take their time "
       "besides."},
      {"The loss is reached",
       fmt::format("where the validation loss is first at or below {:g}, on the straight line between two "
                   "validations. Validation is every {}.",
                   study.loss, number_of(study.training.settings.validation_every, "step"))},
      {"The difference",
       "is of the validation losses at the end, from the reference's with the same seed. Its interval is Student's "
       "95 % interval of the mean over the seeds; above 0 is worse."},
      {"Same quality",
       fmt::format("means that the whole interval lies below the margin of {:g} nats (a test of non-inferiority; "
                   "Piaggio et al. 2012, CONSORT's extension). Worse: all of it lies above the margin, or a training "
                   "diverged. Unclear: the margin lies in it.",
                   study.margin)},
      {"A speedup",
       "is the reference's seconds to the loss over the rung's: the geometric mean over the seeds with Student's 95 % "
       "interval. It counts only if the quality is the same. There is none if a training did not reach the loss."}};
}

}  // namespace

TimeToLoss with_words(TimeToLoss study) {
  for (size_t i = 0; i < study.rungs.size(); ++i) study.rungs[i].words = words_of_rung(study, i);
  const std::string headline = to_loss_headline(study);
  study.words = {.headline = headline,
                 .remarks = to_loss_remarks(study),
                 .cards = to_loss_cards(study),
                 .how_to_read = to_loss_terms(study),
                 .findings = {{"to_loss", headline}},
                 .origin = origin_of(study.training, study.device)};
  return study;
}

}  // namespace ablations
