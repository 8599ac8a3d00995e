#include "ablations/report/table.h"

#include "ablations/plan/modes.h"
#include "ablations/text/text.h"
#include "files/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace ablations {

using files::shortened;
using harness::Json;

namespace {

constexpr size_t label_width = 25, step_width = 7, ratio_width = 17;

// Three significant digits in at most 5 columns, whatever the number: "0.84" "12.3" "16384" "5e-3" "1e300".
std::string brief(double value) {
  if (value < 1e-99) return "0";
  if (value >= 0.005 && value < 9.995) return fmt::format("{:.2f}", value);
  if (value >= 9.995 && value < 99.95) return fmt::format("{:.1f}", value);
  if (value >= 99.95 && value < 99999.5) return fmt::format("{:.0f}", value);
  const std::string text = fmt::format("{:.0e}", value);  // "1e+05"
  const size_t e = text.find('e');
  return fmt::format("{}e{}", text.substr(0, e), std::stoi(text.substr(e + 1)));
}

// As brief, but what two decimals would make 1 keeps three; plots/words.py does the same.
std::string factor(double value) {
  const std::string text = brief(value);
  return text == "1.00" && value != 1.0 ? fmt::format("{:.3f}", value) : text;
}

std::string ratio(const Json& speedup) {
  if (speedup.is_null() || speedup.at("ratio").is_null()) return "-";
  return factor(speedup.at("ratio").get<double>()) + "x";
}

std::string interval(const Json& speedup) {
  if (speedup.is_null() || speedup.at("lo").is_null()) return "";
  const double lo = speedup.at("lo"), hi = speedup.at("hi");
  // As two runs far from each other have it; plots/words.py says so, too.
  if (hi > 1000 * lo) return "[unknown]";
  return fmt::format("[{}-{}]", factor(lo), factor(hi));
}

// At most 7 columns.
std::string milliseconds(double value) { return value < 999999.5 ? number(value) : brief(value); }

// "16.4K", at most 5 columns.
std::string rate(double value) {
  if (value < 999.5) return brief(value);
  for (const char* unit : {"K", "M", "G", "T"}) {
    value /= 1000;
    if (value < 999.5) return fmt::format("{:.{}f}{}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, unit);
  }
  return brief(1e12 * value);
}

std::string gibibytes(const Json& bytes) { return bytes.is_null() ? "-" : brief(gib(bytes)); }

// The data do not say which way it went.
bool is_unclear(const Json& speedup) {
  return !speedup.is_null() && !speedup.at("lo").is_null() && speedup.at("lo") <= 1.0 && speedup.at("hi") >= 1.0;
}

// Of one run each. What is exactly 1 is a rung beside itself.
bool has_no_interval(const Json& speedup) {
  return !speedup.is_null() && !speedup.at("ratio").is_null() && speedup.at("lo").is_null() &&
         speedup.at("ratio") != 1.0;
}

// For a column whose intervals stand beside it.
std::string bare_ratio(const Json& speedup) { return (has_no_interval(speedup) ? "?" : "") + ratio(speedup); }

std::string marked_ratio(const Json& speedup) { return (is_unclear(speedup) ? "~" : "") + bare_ratio(speedup); }

// `alone`, a ratio that counts, with its interval, in `width` columns; where they do not fit, `below` is a line for the
// interval.
std::string with_interval(const Look& look, const std::string& alone, const Json& speedup, size_t width,
                          std::string& below) {
  const std::string bounds = interval(speedup);
  const bool fits = !bounds.empty() && alone.size() + 1 + bounds.size() <= width;
  if (!fits && !bounds.empty()) below = fmt::format("{:>80}\n", bounds);
  const std::string cell = fmt::format("{:>{}}", fits ? alone + " " + bounds : alone, width);
  return look.painted(Style::strong, cell, cell.find_first_not_of(' '), alone.size());
}

std::string rule(const Look& look) { return look.painted(Style::faint, std::string(columns, '-') + "\n"); }

std::string headed(const Look& look, const std::string& line) { return look.painted(Style::faint, line) + rule(look); }

// How a rung without a number stands: the words of plots/study.py.
std::pair<std::string, Style> standing(const Json& rung) {
  const std::string status = rung.at("status");
  if (rung.value("out_of_memory", false)) return {"out of memory", Style::bad};
  if (status == "not_applicable") return {"not applicable", Style::faint};
  if (status == "not_measured") return {"not measured", Style::faint};
  if (status == "missing") return {"not run yet", Style::caution};
  return {status, style_of(status)};
}

std::string status_line(const Look& look, const std::string& label, size_t width, const Json& rung) {
  const auto [words, style] = standing(rung);
  const std::string begin = fmt::format("{:<{}} ", label, width);
  const std::string text =
      wrapped(fmt::format("{}{}: {}", begin, words, rung.at("reason").get<std::string>()), std::string(width + 1, ' '));
  return style == Style::faint ? look.painted(style, text) : look.painted(style, text, begin.size(), words.size());
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

bool is_disturbed(const Json& rung) { return rung.contains("flags"); }
const char* mark(const Json& rung) { return is_disturbed(rung) ? "!" : " "; }

// Which columns the ladder's table has: what a mode has no numbers for gives its room to the label and the bar.
struct Layout {
  std::string step, so_far;  // their headings; empty: not there
  size_t label = label_width, bar = 8;
};

Layout layout_of(const Json& study) {
  const std::string mode = study.at("mode");
  // In a sweep of one rung nothing is compared.
  const bool compared = mode != "sweep" || std::ranges::any_of(study.at("rungs"), [](const Json& rung) {
                          return !is_peer(rung) && !rung.at("speedup_first").is_null();
                        });
  Layout layout{.step = mode == "cumulative"      ? "vs prev"
                        : mode == "leave-one-out" ? "vs all"
                                                  : "",
                .so_far = mode == "cumulative" ? "so far [95 %]"
                          : compared           ? "vs first [95 %]"
                                               : ""};
  if (layout.step.empty()) layout.label += step_width + 1;
  if (layout.so_far.empty()) layout.bar += ratio_width + 1;
  return layout;
}

// Slower than the rung before it, and the data say so.
bool costs_time(const Json& rung) {
  const Json& step = rung.at("speedup_previous");
  return !step.is_null() && !step.at("hi").is_null() && step.at("hi") < 1.0;
}

double median_ms(const Json& rung) { return rung.at("ms_per_step").at("median"); }

double slowest_ms(const Json& study) {
  double slowest = 0;
  for (const Json& rung : study.at("rungs")) {
    if (!is_peer(rung) && !rung.at("ms_per_step").is_null()) slowest = std::max(slowest, median_ms(rung));
  }
  return slowest;
}

// Whether ratios are against this rung, which took the place of the planned reference.
bool took_its_place(const Json& study, size_t rung) {
  const Json& headline = study.at("headline");
  return !headline.is_null() && headline.contains("planned") && headline.at("first") == rung;
}

std::string rung_rows(const Json& study, const Look& look) {
  const Layout layout = layout_of(study);
  const double slowest = slowest_ms(study);
  const auto row = [&](const std::string& label, const char* flag, const std::string& ms, const std::string& bar,
                       const std::string& step, const std::string& so_far, const std::string& tokens,
                       const std::string& memory) {
    std::string line = fmt::format("{:<{}}{}{:>7} {}", label, layout.label, flag, ms, bar);
    if (!layout.step.empty()) line += " " + step;
    if (!layout.so_far.empty()) line += " " + so_far;
    return line + fmt::format(" {:>5} {:>5}\n", tokens, memory);
  };
  // The bars have no heading: one that is longer than its column reaches in there.
  const size_t beyond = std::max(layout.step.size(), step_width) - step_width;
  std::string text = headed(look, row("", " ", "ms/step", std::string(layout.bar - beyond, ' '),
                                      fmt::format("{:>{}}", layout.step, step_width),
                                      fmt::format("{:>{}}", layout.so_far, ratio_width), "tok/s", "GiB"));
  for (size_t i = 0; i < study.at("rungs").size(); ++i) {
    const Json& rung = study.at("rungs")[i];
    if (is_peer(rung)) continue;
    const std::string title = shortened(label(study, rung), layout.label);
    if (rung.at("ms_per_step").is_null()) {
      text += status_line(look, title, layout.label, rung);
      continue;
    }
    std::string below;
    const Style style = costs_time(rung) ? Style::caution : Style::plain;
    text += row(title, mark(rung), milliseconds(median_ms(rung)),
                look.painted(style, look.bar(median_ms(rung) / slowest, layout.bar)),
                look.painted(style, fmt::format("{:>{}}", marked_ratio(rung.at("speedup_previous")), step_width)),
                layout.so_far.empty()      ? ""
                : took_its_place(study, i) ? fmt::format("{:>{}}", "reference", ratio_width)
                                           : with_interval(look, bare_ratio(rung.at("speedup_first")),
                                                           rung.at("speedup_first"), ratio_width, below),
                rate(rung.at("tokens_per_s").at("median")), gibibytes(rung.at("peak_memory_bytes")));
    text += below;
    if (rung.at("status") != "measured") text += status_line(look, "", layout.label, rung);
  }
  return text + rule(look);
}

std::string peer_rows(const Json& study, const Look& look) {
  const Json& rungs = study.at("rungs");
  if (std::ranges::none_of(rungs, is_peer)) return "";
  constexpr const char* row = "{:<25} {:<21}{}{:>9} {:>22}\n";
  std::string text =
      headed(look, "\n" + fmt::format(row, "the same work in PyTorch", "", " ", "ms/step", "our speedup [95 %]"));
  for (const Json& own : rungs) {
    for (const Json& peer : own.value("peers", Json::array())) {
      const Json& rung = rungs.at(peer.at("rung").get<size_t>());
      const std::string title = shortened(label(study, own), label_width);
      if (rung.at("ms_per_step").is_null()) {
        text += status_line(look, shortened(rung.at("title"), label_width), label_width, rung);
        continue;
      }
      std::string below;
      const std::string ours = with_interval(look, marked_ratio(peer), peer, 22, below);
      text +=
          fmt::format(row, title, rung.at("title").get<std::string>(), mark(rung), milliseconds(median_ms(rung)), ours);
      text += below;
      if (rung.at("status") != "measured") text += status_line(look, "", label_width, rung);
    }
  }
  return text + rule(look);
}

// A factorial study has other methods, too, for charts.
std::vector<Json> worths_shown(const Json& study) {
  const Json& all = study.at("attribution");
  std::vector<Json> worths;
  std::ranges::copy_if(all, std::back_inserter(worths),
                       [&](const Json& worth) { return worth.at("method") == all.front().at("method"); });
  return worths;
}

std::string worth_rows(const Json& study, const Look& look) {
  std::vector<Json> worths = worths_shown(study);
  if (worths.empty()) return "";
  const std::string method = worths.front().at("method");
  std::ranges::stable_sort(worths, std::greater<>(), [](const Json& worth) {
    return worth.at("ratio").is_null() ? 0.0 : worth.at("ratio").get<double>();
  });
  const std::string head = method == "leave_one_out"   ? "what is lost without it"
                           : method == "one_at_a_time" ? "what it brings alone"
                                                       : "what it brings, averaged over all orders";
  std::string text = headed(look, "\n" + fmt::format("{:<57} {:>22}\n", head, "worth [95 %]"));
  for (const Json& worth : worths) {
    const std::string title = shortened(worth.at("title"), 57);
    if (worth.at("ratio").is_null()) {
      text += wrapped(fmt::format("{:<{}} no number: {}", shortened(title, label_width), label_width,
                                  worth.at("reason").get<std::string>()),
                      std::string(label_width + 1, ' '));
      continue;
    }
    std::string below;
    const std::string value = with_interval(look, marked_ratio(worth), worth, 22, below);
    text += fmt::format("{:<57} {}\n", title, value) + below;
  }
  return text + rule(look);
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

// Whether one of the ratios that the tables mark is such; `so_far`: those beside their intervals, too.
bool has_ratio(const Json& study, bool (*is_such)(const Json&), bool so_far) {
  const Layout layout = layout_of(study);
  return std::ranges::any_of(study.at("rungs"),
                             [&](const Json& rung) {
                               if (is_peer(rung)) return false;
                               return (!layout.step.empty() && is_such(rung.at("speedup_previous"))) ||
                                      (so_far && !layout.so_far.empty() && is_such(rung.at("speedup_first"))) ||
                                      std::ranges::any_of(rung.value("peers", Json::array()), is_such);
                             }) ||
         std::ranges::any_of(worths_shown(study), is_such);
}

// That it is no more than a quick look, and how to have all of it; else empty.
std::string quick_lines(const Json& study) {
  if (!study.contains("quick")) return "";
  return wrapped(
      "A quick look: two repeats of a few rungs. The whole ladder goes on from here: ladder ablate --resume --out "
      "FOLDER, with this study's folder.");
}

// The names by which flags take the rungs that were measured; empty where each stands in the table.
std::string names_line(const Json& study) {
  if (study.at("mode") != "cumulative") return "";
  std::string names;
  for (const Json& rung : study.at("rungs")) {
    if (is_peer(rung) || rung.at("ms_per_step").is_null() || !rung.contains("optimization")) continue;
    const Json& optimization = rung.at("optimization");
    names += (names.empty() ? "" : ", ") + (optimization.is_null() ? "start" : optimization.get<std::string>());
  }
  return names.empty() ? "" : wrapped("Names for --rung and --diff, in this order: " + names + ".");
}

// What the study comes to: the rung that it leads with against its reference, both by name. Empty without a headline.
std::string headline_line(const Json& study) {
  const Json& headline = study.at("headline");
  if (headline.is_null()) return "";
  const bool leads_earlier = headline.contains("fastest");
  const auto rung_of = [&](const char* end) { return study.at("rungs").at(headline.at(end).get<size_t>()); };
  const Json rung = rung_of(leads_earlier ? "fastest" : "last");
  const Json& speedup = leads_earlier ? rung.at("speedup_first") : headline.at("speedup");
  const std::string name = rung.at("title"), reference = rung_of("first").at("title");
  const std::string bounds = interval(speedup).empty() ? "" : " " + interval(speedup);
  if (speedup.at("lo").is_null()) {
    return fmt::format("{} from \"{}\" to \"{}\", without an interval.", ratio(speedup), reference, name);
  }
  if (is_unclear(speedup)) {
    return fmt::format("No clear change from \"{}\" to \"{}\": {}{}.", reference, name, ratio(speedup), bounds);
  }
  if (speedup.at("ratio") < 1.0) {
    return fmt::format("Slower: \"{}\" has {}{} the speed of \"{}\".", name, ratio(speedup), bounds, reference);
  }
  return fmt::format("{}{} faster than \"{}\" at \"{}\".", ratio(speedup), bounds, reference, name);
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

}  // namespace

std::string study_table(const Json& as_written, const Look& look) {
  const Json study = with_printable_texts(as_written);
  const auto& device = study.at("device");
  const std::string mode = study.at("mode");
  std::string text =
      "\n" + look.painted(Style::strong, wrapped(study.at("ladder").at("title").get<std::string>() +
                                                 (mode == "cumulative" ? "" : fmt::format(" ({})", mode))));
  text += wrapped(fmt::format("{}, {}", sizes(study), device.at("name").get<std::string>()));
  if (device.at("kind") == "cpu") text += "These are CPU figures; they say nothing about a GPU.\n";
  text += quick_lines(study);
  text += "\n" + rung_rows(study, look);
  if (const std::string headline = headline_line(study); !headline.empty()) {
    text += look.painted(Style::strong, wrapped(headline));
  }
  for (const Json& note : study.value("notes", Json::array())) text += wrapped(note);
  text += worth_rows(study, look) + peer_rows(study, look);
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
  if (has_ratio(study, is_unclear, false)) text += "~ no clear change: the interval includes 1.00x.\n";
  if (has_ratio(study, has_no_interval, true)) text += "? no interval, as of one run: it may be no change.\n";
  if (std::ranges::any_of(study.at("rungs"), is_disturbed))
    text += look.painted(Style::caution, "! marks rungs with disturbed runs.\n");
  text += mfu_line(study) + names_line(study);
  for (const Json& warning : study.at("warnings")) text += warning_line(look, warning);
  return text;
}

}  // namespace ablations
