#include "plots/to_loss_text.h"

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

using harness::Quality;

// " [1.40–1.60]"; empty: one seed has none.
std::string between_text(const OverSeeds& speedup) {
  return speedup.lo && speedup.hi ? fmt::format(" [{:.2f}\u2013{:.2f}]", *speedup.lo, *speedup.hi) : "";
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
    if (!rung.counts) {
      said.push_back(
          fmt::format("{:.2f}\u00d7 as fast{}, which does not count", rung.speedup->mean, between_text(*rung.speedup)));
    } else if (rung.speedup->lo) {
      said.push_back("95 %" + between_text(*rung.speedup));
    }
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

// "Trains 1.87× faster to loss 6.7"
std::string to_loss_headline(const TimeToLoss& study) {
  if (study.trainings.empty()) return "No training has ended yet";
  if (!is_reached(study)) return fmt::format("No training reached loss {:g}", study.loss);
  if (const RungToLoss* best = clearly_fastest(study)) {
    return fmt::format("{} faster to loss {:g}", times(best->speedup->mean), study.loss);
  }
  if (compared(study) > 0) return fmt::format("No rung is clearly faster to loss {:g}", study.loss);
  const RungToLoss& reference = study.rungs[study.reference];
  return reference.seconds ? fmt::format("Loss {:g} in {} s", study.loss, digits3(*reference.seconds))
                           : "There is no rung to compare";
}

std::vector<std::string> to_loss_lines(const TimeToLoss& study) {
  std::vector<std::string> lines;
  const RungToLoss& reference = study.rungs[study.reference];
  if (const RungToLoss* best = clearly_fastest(study)) {
    std::string line = fmt::format("\u201c{}\u201d against \u201c{}\u201d: 95 %{}", best->title, reference.title,
                                   between_text(*best->speedup));
    if (best->difference) {
      line +=
          fmt::format("; same quality: {} at the end, margin {:g}", difference_text(*best->difference), study.margin);
    }
    lines.push_back(line + ".");
  }
  const auto rungs = compared(study);
  if (rungs > 0) {
    lines.push_back(fmt::format("{} of {} learn as well as the reference; {} with {} of {} each.",
                                with_quality(study, Quality::same), number_of(rungs, "rung"),
                                number_of(study.planned() / study.seeds, "rung"), number_of(study.seeds, "seed"),
                                number_of(study.training.settings.steps, "step")));
  }
  return lines;
}

std::vector<Remark> to_loss_remarks(const TimeToLoss& study) {
  std::vector<Remark> remarks;
  const auto made = std::ssize(study.trainings);
  if (made < study.planned()) {
    remarks.push_back({Severity::warn, "unfinished",
                       fmt::format("Interrupted: {} of {} trainings were made.", made, study.planned()),
                       "`ladder ablate --resume` makes the others."});
  }
  if (study.seeds == 1) {
    remarks.push_back({Severity::warn, "one-seed", "One seed has no interval, so there is no verdict on quality.",
                       "`--seeds 3` or more gives one."});
  }
  const RungToLoss& reference = study.rungs[study.reference];
  if (reference.ended > 0 && reference.reached < reference.ended && reference.loss) {
    remarks.push_back({Severity::warn, "not-reached",
                       fmt::format("The reference ends at {:.4f}, averaged over its seeds.", *reference.loss),
                       "A higher `--to-loss`, or more steps, can be reached."});
  }
  if (with_quality(study, Quality::unclear) > 0) {
    remarks.push_back({Severity::warn, "unclear-quality",
                       "Unclear: the margin lies within the interval of the difference.",
                       "More `--seeds` make it narrower."});
  }
  return remarks;
}

constexpr const char* to_loss_row = "{:<34} {:>9} {:>8} {:>8}  {}";
constexpr size_t title_width = 34;

std::string quality_of(const TimeToLoss& study, size_t index) {
  const RungToLoss& rung = study.rungs[index];
  if (rung.quality) return name_of(*rung.quality);
  return rung.status != Rung::Status::planned ? "skipped" : index == study.reference ? "reference" : "-";
}

}  // namespace

TimeToLoss with_said(TimeToLoss study) {
  for (size_t i = 0; i < study.rungs.size(); ++i) study.rungs[i].words = words_of_rung(study, i);
  study.said = {.title = title_of(study.training, study.device),
                .headline = to_loss_headline(study),
                .lines = to_loss_lines(study),
                .remarks = to_loss_remarks(study),
                .command = ""};
  return study;
}

std::string to_loss_table(const TimeToLoss& as_written, const Look& look) {
  const TimeToLoss study = with_printable_texts(as_written);
  const TrainingSettings& settings = study.training.settings;
  std::string text =
      look.painted(Style::strong,
                   wrapped(fmt::format("{}, {} of {} tokens, {}, {}", settings.model, number_of(settings.steps, "step"),
                                       settings.tokens_per_step(), number_of(study.seeds, "seed"), study.device.name)));
  text += look.painted(Style::faint, fmt::format(to_loss_row, fmt::format("to a validation loss of {:g}", study.loss),
                                                 "seconds", "speedup", "ends at", "quality") +
                                         "\n" + std::string(columns(), '-') + "\n");
  for (size_t i = 0; i < study.rungs.size(); ++i) {
    const RungToLoss& rung = study.rungs[i];
    const std::string quality = quality_of(study, i);
    const std::string line = wrapped(fmt::format(to_loss_row, files::shortened(label_of(rung), title_width),
                                                 rung.seconds ? digits3(*rung.seconds) : "-",
                                                 rung.counts ? fmt::format("{:.2f}x", rung.speedup->mean) : "-",
                                                 rung.loss ? fmt::format("{:.4f}", *rung.loss) : "-", quality));
    const size_t at = line.rfind(quality);  // not there where figures of a made-up document take the line
    text += at == std::string::npos ? line : look.painted(style_of(quality), line, at, quality.size());
    text += look.painted(Style::faint, wrapped("  " + ascii_words(rung.words), "  "));
  }
  text += look.painted(Style::faint, std::string(columns(), '-') + "\n");
  return text + said_text(study.said, look);
}

}  // namespace plots
