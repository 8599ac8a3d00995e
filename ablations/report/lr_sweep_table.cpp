#include "ablations/report/lr_sweep_table.h"

#include "ablations/text/figures.h"
#include "ablations/text/text.h"

#include <fmt/format.h>

#include <string_view>

namespace ablations {

namespace {

constexpr const char* rate_row = "{:<9} {:>7} {:>6}  {:<8}  {}";
constexpr size_t why_at = 36;  // the last column

}  // namespace

std::string lr_sweep_table(const LearningRateSweep& as_written, const Look& look) {
  const LearningRateSweep sweep = with_printable_texts(as_written);
  const TrainingSettings& settings = sweep.training.settings;
  std::string text = look.painted(
      Style::strong, wrapped(fmt::format("{}, {} of {} tokens, {}", settings.model, number_of(settings.steps, "step"),
                                         settings.tokens_per_step(), sweep.device.name)));
  text += look.painted(Style::faint, fmt::format(rate_row, "rate", "ends at", "swing", "verdict", "why") + "\n" +
                                         std::string(columns, '-') + "\n");
  for (const SweptRate& rate : sweep.rates) {
    const std::string verdict = name_of(rate.verdict);
    const std::string line =
        wrapped(fmt::format(rate_row, fmt::format("{:.3g}", rate.learning_rate.peak),
                            rate.end ? fmt::format("{:.4g}", rate.end->mean) : "-",
                            rate.end ? fmt::format("{:.2f}", rate.end->swing) : "-", verdict, rate.words),
                std::string(why_at, ' '));
    text += look.painted(style_of(verdict), line, line.find(verdict), verdict.size());
  }
  text += look.painted(Style::faint, std::string(columns, '-') + "\n");
  text += wrapped(sweep.words.headline + ".");
  for (const std::string& remark : sweep.words.remarks) text += wrapped(remark);
  return text;
}

}  // namespace ablations
