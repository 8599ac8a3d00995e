#include "ablations/report/history_table.h"

#include "ablations/text/text.h"
#include "files/printable.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace ablations {

using files::shortened;
using harness::Json;

namespace {

constexpr const char* row = "{:<34} {:>7} {:>9} {:>9} {:>8} {:>8}\n";

// "+5.2 %", at most 8 columns.
std::string change(double ratio) {
  const double percent = 100 * (ratio - 1);
  return std::abs(percent) < 999.5 ? fmt::format("{:+.1f} %", percent) : fmt::format("x {}", number(ratio));
}

// What stands in a setting; null: nothing.
std::string with_name(const char* name, const Json& value) {
  if (value.is_null()) return "";
  return fmt::format(", {} {}", name, value.is_string() ? value.get<std::string>() : value.dump());
}

std::string device(const Json& setting) {
  const Json& name = setting.at("device");
  std::string text = name.is_string() ? name.get<std::string>() : "unknown device";
  if (const Json threads = setting.value("threads", Json()); !threads.is_null())
    text += fmt::format(", {} threads", threads.dump());
  return text;
}

std::string workload(const Json& setting) {
  std::string text = setting.at("model").get<std::string>();
  text += fmt::format(" B={} T={}", setting.at("batch").get<int64_t>(), setting.at("context").get<int64_t>());
  if (setting.at("accumulation") != 1)
    text += fmt::format(" x {} micro-steps", setting.at("accumulation").get<int64_t>());
  return text + with_name("torch", setting.at("torch")) + with_name("driver", setting.value("driver", Json()));
}

std::string told(const std::string& text) { return wrapped("  " + text, "    "); }

}  // namespace

std::string history_table(const Json& as_written, const Look& look) {
  const Json history = with_printable_texts(as_written);
  const std::string rule = look.painted(Style::faint, std::string(columns, '-') + "\n");
  std::string text;
  std::string slug;
  for (const Json& series : history.at("series")) {
    const Json& points = series.at("points");
    const Json& setting = series.at("setting");
    if (series.at("device_slug") != slug) {
      slug = series.at("device_slug").get<std::string>();
      text += "\n" + look.painted(Style::strong, wrapped(device(setting))) +
              (setting.contains("threads") ? "These are CPU figures; they say nothing about a GPU.\n" : "");
      text += look.painted(Style::faint,
                           fmt::format(row, "ms per step", "studies", "first", "latest", "vs first", "vs best")) +
              rule;
    }
    text +=
        fmt::format(row, shortened(series.at("label").get<std::string>(), 34), points.size(),
                    number(points.front().at("median").get<double>()), number(points.back().at("median").get<double>()),
                    points.size() == 1 ? "-" : change(series.at("against_first").get<double>()),
                    points.size() == 1 ? "-" : change(series.at("against_best").get<double>()));
    text += told(series.at("recipe_hash").get<std::string>() + ", " + workload(setting));
    std::string because;
    for (const Json& line : series.at("new_because"))
      because += (because.empty() ? "" : "; ") + line.get<std::string>();
    if (!because.empty()) text += told("another series than the one above: " + because);
    if (series.at("left_out") != 0)
      text += told(fmt::format("the {} oldest studies are left out", series.at("left_out").get<int64_t>()));
    const std::string verdict = series.at("verdict");
    const std::string word = verdict == "slower" ? "SLOWER" : verdict == "faster" ? "faster" : "";
    const std::string finding = told((word.empty() ? "" : word + ": ") + series.at("finding").get<std::string>());
    text += look.painted(style_of(word), finding, 2, word.size());
  }
  text += rule;
  text +=
      wrapped(fmt::format("{} {}. {}.", history.at("studies").get<int64_t>(),
                          history.at("studies") == 1 ? "study" : "studies", history.at("finding").get<std::string>()));
  text += wrapped(history.at("method").get<std::string>());
  for (const Json& note : history.at("notes")) text += told("note: " + note.get<std::string>());
  for (const Json& skipped : history.at("skipped")) {
    text += told(
        fmt::format("skipped: {}: {}", skipped.at("file").get<std::string>(), skipped.at("reason").get<std::string>()));
  }
  return text;
}

}  // namespace ablations
