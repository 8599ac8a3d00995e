#include "ablations/report/to_loss_table.h"

#include "ablations/plan/ladder.h"
#include "ablations/text/figures.h"
#include "ablations/text/text.h"

#include <fmt/format.h>

#include <string>

namespace ablations {

namespace {

constexpr const char* to_loss_row = "{:<34} {:>9} {:>8} {:>8}  {}";
constexpr size_t title_width = 34;

std::string quality_of(const TimeToLoss& study, size_t index) {
  const RungToLoss& rung = study.rungs[index];
  if (rung.quality) return name_of(*rung.quality);
  return rung.status != Rung::Status::planned ? "skipped" : index == study.reference ? "reference" : "-";
}

}  // namespace

std::string to_loss_table(const TimeToLoss& as_written, const Look& look) {
  const TimeToLoss study = with_printable_texts(as_written);
  const TrainingSettings& settings = study.training.settings;
  std::string text =
      look.painted(Style::strong,
                   wrapped(fmt::format("{}, {} of {} tokens, {}, {}", settings.model, number_of(settings.steps, "step"),
                                       settings.tokens_per_step(), number_of(study.seeds, "seed"), study.device.name)));
  text += look.painted(Style::faint, fmt::format(to_loss_row, fmt::format("to a validation loss of {:g}", study.loss),
                                                 "seconds", "speedup", "ends at", "quality") +
                                         "\n" + std::string(columns, '-') + "\n");
  for (size_t i = 0; i < study.rungs.size(); ++i) {
    const RungToLoss& rung = study.rungs[i];
    const std::string quality = quality_of(study, i);
    const std::string line = wrapped(fmt::format(to_loss_row, files::shortened(label_of(rung), title_width),
                                                 rung.seconds ? digits3(*rung.seconds) : "-",
                                                 rung.counts ? fmt::format("{:.2f}x", rung.speedup->mean) : "-",
                                                 rung.loss ? fmt::format("{:.4f}", *rung.loss) : "-", quality));
    const size_t at = line.rfind(quality);  // not there where figures of a made-up document take the line
    text += at == std::string::npos ? line : look.painted(style_of(quality), line, at, quality.size());
    text += look.painted(Style::faint, wrapped("  " + rung.words, "  "));
  }
  text += look.painted(Style::faint, std::string(columns, '-') + "\n");
  text += wrapped(study.words.headline + ".");
  for (const std::string& remark : study.words.remarks) text += wrapped(remark);
  return text;
}

}  // namespace ablations
