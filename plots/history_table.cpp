#include "plots/history_table.h"

#include "files/printable.h"
#include "plots/report_document.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

namespace plots {

using files::shortened;

namespace {

constexpr const char* history_row = "{:<34} {:>7} {:>9} {:>9} {:>8} {:>8}\n";

// "+5.2 %", at most 8 columns.
std::string change(double ratio) {
  const double percent = 100 * (ratio - 1);
  return std::abs(percent) < 999.5 ? fmt::format("{:+.1f} %", percent) : fmt::format("x {}", number(ratio));
}

// "" where it is not known.
std::string with_name(const char* name, const std::optional<std::string>& value) {
  return value ? fmt::format(", {} {}", name, *value) : "";
}

std::string device(const Setting& setting) {
  const auto threads = setting.threads.value_or(std::nullopt);
  return setting.device.value_or("unknown device") + (threads ? ", " + number_of(*threads, "thread") : "");
}

std::string workload(const Setting& setting) {
  std::string text = fmt::format("{} B={} T={}", setting.model.value_or("unknown model"), setting.batch.value_or(0),
                                 setting.context.value_or(0));
  if (const int64_t micro_steps = setting.accumulation.value_or(1); micro_steps != 1)
    text += fmt::format(" x {} micro-steps", micro_steps);
  return text + with_name("torch", setting.torch) + with_name("driver", setting.driver.value_or(std::nullopt));
}

std::string told(const std::string& text) { return wrapped("  " + text, "    "); }

}  // namespace

std::string history_table(const History& as_written, const Look& look) {
  const History history = with_printable_texts(as_written);
  const std::string rule = look.painted(Style::faint, std::string(columns(), '-') + "\n");
  std::string text;
  std::string slug;
  for (const DescribedSeries& series : history.series) {
    const std::vector<SeriesPoint>& points = series.points;
    if (series.device_slug != slug) {
      slug = series.device_slug;
      text += "\n" + look.painted(Style::strong, wrapped(device(series.setting))) +
              (series.setting.is_of_cpu() ? "These are CPU figures; they say nothing about a GPU.\n" : "");
      text += look.painted(Style::faint, fmt::format(history_row, "ms per step", "studies", "first", "latest",
                                                     "vs first", "vs best")) +
              rule;
    }
    const bool one = points.size() == 1;
    text += fmt::format(history_row, shortened(series.label, 34), points.size(), number(points.front().median),
                        number(points.back().median), one ? "-" : change(series.against_first),
                        one ? "-" : change(series.against_best));
    const bool is_command = series.setting.model == "";
    text += told(series.recipe_hash + (is_command ? "" : ", " + workload(series.setting)));
    if (!series.new_because.empty()) {
      text += told(fmt::format("another series than the one above: {}", fmt::join(series.new_because, "; ")));
    }
    if (series.left_out != 0) text += told(fmt::format("the {} oldest studies are left out", series.left_out));
    const std::string word = series.verdict == Trend::slower   ? "SLOWER"
                             : series.verdict == Trend::faster ? "faster"
                                                               : "";
    const std::string finding = told((word.empty() ? "" : word + ": ") + series.finding);
    text += look.painted(style_of(word), finding, 2, word.size());
  }
  text += rule;
  text +=
      wrapped(fmt::format("{} {}. {}.", history.studies, history.studies == 1 ? "study" : "studies", history.finding));
  text += wrapped(history.method);
  for (const std::string& note : history.notes) text += told("note: " + note);
  for (const auto& [file, reason] : history.skipped) text += told(fmt::format("skipped: {}: {}", file, reason));
  return text;
}

}  // namespace plots
