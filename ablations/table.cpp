#include "ablations/table.h"

#include "ablations/modes.h"
#include "ablations/terminal.h"
#include "files/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ablations {

using files::shortened;
using harness::Json;

namespace {

constexpr size_t label_width = 26;

// At most 7 columns.
std::string factor(double value) {
  if (value < 0.005) return fmt::format("{:.0e}", value);
  if (value < 999.995) return fmt::format("{:.2f}", value);
  return value < 99999.5 ? fmt::format("{:.0f}", value) : fmt::format("{:.1e}", value);
}

std::string ratio(const Json& speedup) {
  if (speedup.is_null() || speedup.at("ratio").is_null()) return "-";
  return factor(speedup.at("ratio").get<double>()) + "x";
}

std::string interval(const Json& speedup) {
  if (speedup.is_null() || speedup.at("lo").is_null()) return "";
  return fmt::format("[{}-{}]", factor(speedup.at("lo").get<double>()), factor(speedup.at("hi").get<double>()));
}

// A rate in at most 8 columns.
std::string rate(double value) {
  const std::string text = number(value);
  return text.size() <= 8 ? text : fmt::format("{:.2f}M", value / 1e6);
}

std::string gibibytes(const Json& bytes) {
  return bytes.is_null() ? "-" : fmt::format("{:.2f}", bytes.get<double>() / (1024.0 * 1024.0 * 1024.0));
}

// A ratio with its interval, in `width` columns; where they do not fit, `below` is a line for the interval.
std::string with_interval(const Json& speedup, size_t width, std::string& below) {
  const std::string alone = ratio(speedup), bounds = interval(speedup);
  if (bounds.empty()) return alone;
  if (alone.size() + 1 + bounds.size() <= width) return alone + " " + bounds;
  below = fmt::format("{:>80}\n", bounds);
  return alone;
}

std::string headed(const std::string& line) { return line + std::string(columns, '-') + "\n"; }

std::string status_line(const std::string& label, const Json& rung) {
  std::string status = rung.at("status").get<std::string>();
  std::ranges::replace(status, '_', ' ');
  if (rung.at("status") == "not_applicable") status = "not applicable here";
  if (rung.value("out_of_memory", false)) status = "out of memory";
  return wrapped(fmt::format("{:<26} {}: {}", label, status, rung.at("reason").get<std::string>()),
                 std::string(label_width + 1, ' '));
}

// "B=16 " before what a sweep measures.
std::string swept_value(const Json& study, const Json& rung) {
  if (!study.contains("swept")) return "";
  const std::string swept = study.at("swept");
  const std::string letter = swept == "batch" ? "B=" : swept == "context" ? "T=" : "micro-steps=";
  return fmt::format("{}{} ", letter, rung.at("workload").at(swept).get<int64_t>());
}

std::string label(const Json& study, const Json& rung) {
  return swept_value(study, rung) + rung.at("label").get<std::string>();
}

bool is_peer(const Json& rung) { return rung.contains("peer"); }

bool is_flagged(const Json& rung) { return rung.contains("flags"); }
const char* mark(const Json& rung) { return is_flagged(rung) ? "!" : " "; }

std::string rung_rows(const Json& study) {
  const std::string mode = study.at("mode");
  const bool cumulative = mode == "cumulative", left_out = mode == "leave-one-out";
  // In a sweep of one rung nothing is compared.
  const bool compared = mode != "sweep" || std::ranges::any_of(study.at("rungs"), [](const Json& rung) {
                          return !is_peer(rung) && !rung.at("speedup_first").is_null();
                        });
  constexpr const char* row = "{:<26}{}{:>9} {:>8} {:>18} {:>8} {:>6}\n";
  std::string text = headed(fmt::format(row, "", " ", "ms/step",
                                        cumulative ? "step"
                                        : left_out ? "vs full"
                                                   : "",
                                        cumulative ? "so far [95 %]"
                                        : compared ? "vs first [95 %]"
                                                   : "",
                                        "tok/s", "GiB"));
  for (const Json& rung : study.at("rungs")) {
    if (is_peer(rung)) continue;
    const std::string title = shortened(label(study, rung), label_width);
    if (rung.at("ms_per_step").is_null()) {
      text += status_line(title, rung);
      continue;
    }
    std::string below;
    const std::string so_far = compared ? with_interval(rung.at("speedup_first"), 18, below) : "";
    text +=
        fmt::format(row, title, mark(rung), number(rung.at("ms_per_step").at("median").get<double>()),
                    cumulative || left_out ? ratio(rung.at("speedup_previous")) : "", so_far,
                    rate(rung.at("tokens_per_s").at("median").get<double>()), gibibytes(rung.at("peak_memory_bytes")));
    text += below;
    if (rung.at("status") != "measured") text += status_line("", rung);
  }
  return text + std::string(columns, '-') + "\n";
}

std::string peer_rows(const Json& study) {
  const Json& rungs = study.at("rungs");
  if (std::ranges::none_of(rungs, is_peer)) return "";
  constexpr const char* row = "{:<26} {:<20}{}{:>9} {:>22}\n";
  std::string text =
      headed("\n" + fmt::format(row, "the same work in PyTorch", "", " ", "ms/step", "ours is as fast [95 %]"));
  for (const Json& own : rungs) {
    for (const Json& peer : own.value("peers", Json::array())) {
      const Json& rung = rungs.at(peer.at("rung").get<size_t>());
      const std::string title = shortened(label(study, own), label_width);
      if (rung.at("ms_per_step").is_null()) {
        text += status_line(shortened(rung.at("title"), label_width), rung);
        continue;
      }
      std::string below;
      const std::string ours = with_interval(peer, 22, below);
      text += fmt::format(row, title, rung.at("title").get<std::string>(), mark(rung),
                          number(rung.at("ms_per_step").at("median").get<double>()), ours);
      text += below;
      if (rung.at("status") != "measured") text += status_line("", rung);
    }
  }
  return text + std::string(columns, '-') + "\n";
}

std::string worth_rows(const Json& study) {
  std::vector<Json> worths = study.at("attribution");
  if (worths.empty()) return "";
  const std::string method = worths.front().at("method");
  // A factorial study has other methods, too, for charts.
  std::erase_if(worths, [&](const Json& worth) { return worth.at("method") != method; });
  std::ranges::stable_sort(worths, std::greater<>(), [](const Json& worth) {
    return worth.at("ratio").is_null() ? 0.0 : worth.at("ratio").get<double>();
  });
  const std::string head = method == "leave_one_out"   ? "what is lost without it"
                           : method == "one_at_a_time" ? "what it brings alone"
                                                       : "what it brings, averaged over all orders";
  std::string text = headed("\n" + fmt::format("{:<57} {:>22}\n", head, "worth [95 %]"));
  for (const Json& worth : worths) {
    const std::string title = shortened(worth.at("title"), 57);
    if (worth.at("ratio").is_null()) {
      text += wrapped(
          fmt::format("{:<26} no number: {}", shortened(title, label_width), worth.at("reason").get<std::string>()),
          std::string(label_width + 1, ' '));
      continue;
    }
    std::string below;
    const std::string value = with_interval(worth, 22, below);
    text += fmt::format("{:<57} {:>22}\n", title, value) + below;
  }
  return text + std::string(columns, '-') + "\n";
}

std::string sizes(const Json& study) {
  const Json& workload = study.at("workload");
  const std::string swept = study.value("swept", "");
  std::string text = workload.at("model").get<std::string>();
  if (swept != "batch") text += fmt::format(", B={}", workload.at("batch").get<int64_t>());
  if (swept != "context") text += fmt::format(" T={}", workload.at("context").get<int64_t>());
  if (swept != "accumulation" && workload.at("accumulation") != 1) {
    text += fmt::format(" x {} micro-steps", workload.at("accumulation").get<int64_t>());
  }
  return text;
}

// Of the last rung that has one; the table has no room for a column.
std::string mfu_line(const Json& study) {
  std::string line;
  for (const Json& rung : study.at("rungs")) {
    const Json mfu = rung.value("mfu", Json());
    if (is_peer(rung) || mfu.is_null() || mfu.at("value").is_null()) continue;
    line = fmt::format("MFU of \"{}\": {:.1f} % of {} TFLOP/s ({}); {}.", label(study, rung),
                       100 * mfu.at("value").get<double>(), number(mfu.at("peak_flops").get<double>() / 1e12),
                       mfu.at("peak_source").get<std::string>(), mfu.at("formula").get<std::string>());
  }
  return line.empty() ? "" : wrapped(line);
}

Json with_what_older_ones_lack(Json study) {
  if (!study.contains("mode")) study["mode"] = "cumulative";
  if (!study.contains("attribution")) study["attribution"] = Json::array();
  for (size_t i = 0; i < study.at("rungs").size(); ++i) {
    Json& rung = study["rungs"][i];
    if (!rung.contains("label")) rung["label"] = (i == 0 ? "" : "+ ") + rung.at("title").get<std::string>();
  }
  return study;
}

}  // namespace

std::string study_table(const Json& as_written) {
  const Json study = with_what_older_ones_lack(with_printable_texts(as_written));
  const auto& device = study.at("device");
  const std::string mode = study.at("mode");
  std::string text = "\n" + wrapped(study.at("ladder").at("title").get<std::string>() +
                                    (mode == "cumulative" ? "" : fmt::format(" ({})", mode)));
  text += wrapped(fmt::format("{}, {}", sizes(study), device.at("name").get<std::string>()));
  if (device.at("kind") == "cpu") text += "These are CPU figures; they say nothing about a GPU.\n";
  text += "\n" + rung_rows(study) + worth_rows(study) + peer_rows(study);
  for (const Json& rung : study.at("rungs")) {
    if (rung.contains("explanation")) text += wrapped(rung.at("explanation").get<std::string>(), "  ");
  }
  const auto& plan = study.at("plan");
  const auto& statistics = study.at("statistics");
  text +=
      wrapped(fmt::format("{} of {} runs, {} timed steps each after {} of warm-up; {}; {}.",
                          plan.at("runs_ok").get<int64_t>(), plan.at("runs_planned").get<int64_t>(),
                          plan.at("timed_steps").get<int64_t>(), plan.at("warmup_steps").get<int64_t>(),
                          statistics.at("center").get<std::string>(), statistics.at("interval").get<std::string>()));
  if (statistics.contains("attribution")) {
    text += wrapped(fmt::format("Worth: {}.", statistics.at("attribution").get<std::string>()));
  }
  if (std::ranges::any_of(study.at("rungs"), is_flagged)) text += "! marks rungs with disturbed runs.\n";
  text += mfu_line(study);
  for (const Json& warning : study.at("warnings")) text += wrapped("warning: " + warning.get<std::string>(), "  ");
  return text;
}

}  // namespace ablations
