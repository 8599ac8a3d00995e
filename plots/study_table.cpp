#include "plots/study_table.h"

#include "files/printable.h"
#include "plots/again.h"
#include "plots/remarks.h"
#include "plots/report_document.h"
#include "plots/sentences.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace plots {

using files::shortened;

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

// Ratios of rungs, peers and worths. The last two may be none and have a reason instead.
struct Shown : Bounds {
  std::optional<double> ratio;

  Shown(const Ratio& of) : Bounds(of), ratio(of.ratio) {}
  Shown(const std::optional<Ratio>& of) {
    if (of) *this = Shown(*of);
  }
  Shown(const PeerRatio& of) : Bounds(of), ratio(of.ratio) {}
  Shown(const Worth& of) : Bounds(of), ratio(of.ratio) {}
};

std::string ratio(const Shown& shown) { return shown.ratio ? factor(*shown.ratio) + "x" : "-"; }

bool has_interval(const Shown& shown) { return shown.lo && shown.hi; }

std::string interval(const Shown& shown) {
  if (!has_interval(shown)) return "";
  if (tells_nothing(*shown.lo, *shown.hi)) return "[unknown]";
  return fmt::format("[{}-{}]", factor(*shown.lo), factor(*shown.hi));
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

std::string gibibytes(const std::optional<int64_t>& bytes) { return bytes ? brief(gib(*bytes)) : "-"; }

// The data do not say which way it went.
bool is_unclear(const Shown& shown) { return has_interval(shown) && *shown.lo <= 1.0 && *shown.hi >= 1.0; }

// Of one run each. What is exactly 1 is a rung beside itself.
bool has_no_interval(const Shown& shown) { return shown.ratio && !has_interval(shown) && *shown.ratio != 1.0; }

// For a column with intervals beside it.
std::string bare_ratio(const Shown& shown) { return (has_no_interval(shown) ? "?" : "") + ratio(shown); }

std::string marked_ratio(const Shown& shown) { return (is_unclear(shown) ? "~" : "") + bare_ratio(shown); }

// `alone`, a ratio that counts, with its interval, in `width` columns. Where they do not fit, `below` is a line for the
// interval.
std::string with_interval(const Look& look, const std::string& alone, const Shown& shown, size_t width,
                          std::string& below) {
  const std::string bounds = interval(shown);
  const bool fits = !bounds.empty() && alone.size() + 1 + bounds.size() <= width;
  if (!fits && !bounds.empty()) below = fmt::format("{:>80}\n", bounds);
  const std::string cell = fmt::format("{:>{}}", fits ? alone + " " + bounds : alone, width);
  return look.painted(Style::strong, cell, cell.find_first_not_of(' '), alone.size());
}

std::string rule(const Look& look) { return look.painted(Style::faint, std::string(columns(), '-') + "\n"); }

std::string headed(const Look& look, const std::string& line) { return look.painted(Style::faint, line) + rule(look); }

Style style_of_status(const StudyRung& rung) {
  if (rung.out_of_memory.value_or(false)) return Style::bad;
  switch (rung.status) {
    case RungStatus::not_applicable:
    case RungStatus::not_measured:
      return Style::faint;
    case RungStatus::missing:
      return Style::caution;
    default:
      return style_of(name_of(rung.status));
  }
}

std::string status_line(const Look& look, const std::string& label, size_t width, const StudyRung& rung) {
  const Style style = style_of_status(rung);
  const std::string begin = fmt::format("{:<{}} ", label, width);
  const std::string text = wrapped(begin + why_no_number(rung), std::string(width + 1, ' '));
  return style == Style::faint ? look.painted(style, text)
                               : look.painted(style, text, begin.size(), status_words(rung).size());
}

// With "B=16 " before what a sweep measures.
std::string label(const Study& study, const StudyRung& rung) {
  const bool only_moves = rung.optimization == "gpu" && !rung.command;  // the same arithmetic elsewhere
  return swept_words(study, rung) + (only_moves ? "float32 on the GPU" : rung.label);
}

bool is_disturbed(const StudyRung& rung) { return rung.flags.has_value(); }
const char* mark(const StudyRung& rung) { return is_disturbed(rung) ? "!" : " "; }

// Which columns the ladder's table has. A column without numbers in a mode leaves its room to the label and the bar.
struct Layout {
  std::string step, so_far;  // their headings; empty: not there
  size_t label = label_width, bar = 8;
};

Layout layout_of(const Study& study) {
  // In a sweep of one rung nothing is compared.
  const bool compared = study.mode != Mode::sweep || std::ranges::any_of(study.rungs, [](const StudyRung& rung) {
                          return !rung.peer && rung.speedup_first;
                        });
  const bool is_ladder = study.mode == Mode::cumulative && !are_independent(study);
  Layout layout{.step = is_ladder                           ? "vs prev"
                        : study.mode == Mode::leave_one_out ? "vs all"
                                                            : "",
                .so_far = is_ladder  ? "so far [95 %]"
                          : compared ? "vs first [95 %]"
                                     : ""};
  layout.label += columns() > 80 ? (columns() - 80) / 2 : 0;
  layout.bar += columns() > 80 ? columns() - 80 - (columns() - 80) / 2 : 0;
  if (columns() < 80) {  // no bar, and a short label
    layout.label -= 80 - columns() - std::min<size_t>(80 - columns(), layout.bar);
    layout.bar -= std::min<size_t>(80 - columns(), layout.bar);
  }
  if (layout.step.empty()) layout.label += step_width + 1;
  if (layout.so_far.empty()) layout.bar += ratio_width + 1;
  return layout;
}

double largest_number(const Study& study) {
  double largest = 0;
  for (const StudyRung& rung : study.rungs) {
    if (!rung.peer && rung.ms_per_step) largest = std::max(largest, compared_number(study, rung));
  }
  return largest;
}

// Whether ratios are against this rung, which took the place of the planned reference.
bool replaces_reference(const Study& study, const StudyRung& rung) {
  return study.headline && study.headline->planned && study.headline->first == rung.index;
}

// Below the table: the rungs that were planned without a number, and why. Rungs with the same reason stand together.
std::string left_out_line(const Study& study, const Look& look) {
  std::vector<std::pair<std::string, std::string>> names_of;  // by the reason
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer || !is_left_out(rung)) continue;
    const std::string reason = shortened(why_no_number(rung), 140);
    const auto same = std::ranges::find(names_of, reason, &std::pair<std::string, std::string>::first);
    if (same == names_of.end()) {
      names_of.emplace_back(reason, rung.title);
    } else {
      same->second += ", " + rung.title;
    }
  }
  std::string line;
  for (const auto& [reason, names] : names_of) {
    line += fmt::format("{}{} ({})", line.empty() ? "" : "; ", names, reason);
  }
  return line.empty() ? "" : look.painted(Style::faint, wrapped("Left out: " + line + "."));
}

// The seconds of a log's whole run.
std::string total_seconds(const StudyRung& rung) {
  const auto seconds = rung.numbers.find("seconds");
  return seconds == rung.numbers.end() ? "-" : brief(seconds->second.median);
}

std::string rung_rows(const Study& study, const Look& look) {
  const Layout layout = layout_of(study);
  const double largest = largest_number(study);
  const bool is_value = is_of_value(study);
  // Commands that do not tell their tokens show the seconds until their first step instead, or of the whole run.
  const bool starts = of_commands(study) && std::ranges::none_of(study.rungs, [](const StudyRung& rung) {
                        return rung.tokens_per_s.has_value();
                      });
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
  std::string text =
      headed(look, row("", " ", is_value ? "value" : replaced(compared_unit(study), " per ", "/"),
                       std::string(layout.bar - beyond, ' '), fmt::format("{:>{}}", layout.step, step_width),
                       fmt::format("{:>{}}", layout.so_far, ratio_width),
                       is_value          ? "s"
                       : study.from_logs ? "total"
                       : starts          ? "start"
                                         : "tok/s",
                       "GiB"));
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer || is_left_out(rung)) continue;
    const std::string title = shortened(label(study, rung), layout.label);
    if (!rung.ms_per_step) {
      text += status_line(look, title, layout.label, rung);
      continue;
    }
    std::string below;
    const double number = compared_number(study, rung);
    const auto &step = rung.speedup_against, &so_far = rung.speedup_first;
    const Style style = step && step->is_slower() ? Style::caution : Style::plain;
    text += row(title, mark(rung), milliseconds(number), look.painted(style, look.bar(number / largest, layout.bar)),
                look.painted(style, fmt::format("{:>{}}", marked_ratio(step), step_width)),
                layout.so_far.empty()             ? ""
                : replaces_reference(study, rung) ? fmt::format("{:>{}}", "reference", ratio_width)
                                                  : with_interval(look, bare_ratio(so_far), so_far, ratio_width, below),
                study.from_logs     ? total_seconds(rung)
                : is_value          ? brief(rung.ms_per_step->median / 1000)
                : starts            ? brief(rung.command->first_step_s)
                : rung.tokens_per_s ? rate(rung.tokens_per_s->median)
                                    : "-",
                gibibytes(rung.peak_memory_bytes));
    text += below;
    if (!rung.is_measured()) text += status_line(look, "", layout.label, rung);
  }
  if (is_value) {
    text +=
        wrapped(fmt::format("value: {}, {} is better", ascii_words(study.metric->name), name_of(study.metric->better)));
  }
  return text + rule(look) + left_out_line(study, look);
}

// As brief, but what is below a hundredth stays a decimal number.
std::string small(double ms) { return ms < 0.00995 ? fmt::format("{:.4f}", ms) : brief(ms); }

std::string or_dash(const std::optional<double>& value) { return value ? rate(*value) : "-"; }

// "100>12 %": how much of the file lay in the page cache before and after.
std::string cached(const RungBatches& batches) {
  if (!batches.cached_before || !batches.cached_after || batches.file_bytes == 0) return "-";
  const auto percent = [&](int64_t bytes) {
    return std::clamp(100 * static_cast<double>(bytes) / static_cast<double>(batches.file_bytes), 0.0, 100.0);
  };
  return fmt::format("{:.0f}>{:.0f} %", percent(*batches.cached_before), percent(*batches.cached_after));
}

// What batches cost, where the study is about them.
std::string batch_rows(const Study& study, const Look& look) {
  if (!is_about_batches(study)) return "";
  constexpr const char* row = "{:<25}{:>8}{:>8}{:>7}{:>7}{:>8}{:>6}{:>11}\n";
  std::string text = headed(
      look, "\n" + fmt::format(row, "a step's batch", "ms", "of step", "read", "disk", "faults", "held", "cached"));
  for (const StudyRung& rung : study.rungs) {
    if (!rung.batches) continue;
    const RungBatches& batches = *rung.batches;
    text += fmt::format(
        row, shortened(label(study, rung), label_width), small(batches.ms.median), brief(100 * batches.share) + " %",
        or_dash(batches.bytes_read), or_dash(batches.storage_bytes), or_dash(batches.major_faults),
        batches.resident_bytes ? rate(static_cast<double>(*batches.resident_bytes)) : "-", cached(batches));
  }
  return text + rule(look);
}

std::string peer_rows(const Study& study, const Look& look) {
  if (std::ranges::none_of(study.rungs, [](const StudyRung& rung) { return rung.peer.has_value(); })) return "";
  constexpr std::string_view program = "PyTorch ";  // the heading says it
  constexpr size_t own_width = 22, peer_width = 24;
  std::string text = headed(look, fmt::format("\n{:<{}} {:>9} {:>22}\n", "the same work in PyTorch",
                                              own_width + 1 + peer_width, "ms/step", "our speedup [95 %]"));
  for (const StudyRung& own : study.rungs) {
    for (const PeerRatio& peer : own.peers.value_or(std::vector<PeerRatio>{})) {
      const StudyRung& rung = study.rungs[peer.rung];
      const std::string title = shortened(label(study, own), own_width);
      if (!rung.ms_per_step) {
        text += status_line(look, shortened(rung.title, label_width), label_width, rung);
        continue;
      }
      std::string below;
      const std::string ours = with_interval(look, marked_ratio(peer), peer, 22, below);
      const std::string peers =
          shortened(rung.title.starts_with(program) ? rung.title.substr(program.size()) : rung.title, peer_width);
      text += fmt::format("{:<{}} {:<{}}{}{:>9} {:>22}\n", title, own_width, peers, peer_width, mark(rung),
                          milliseconds(rung.ms_per_step->median), ours);
      text += below;
      if (!rung.is_measured()) text += status_line(look, "", label_width, rung);
    }
  }
  return text + rule(look);
}

// A factorial study has other methods, too, for charts.
std::vector<Worth> worths_shown(const Study& study) {
  std::vector<Worth> worths = study.attribution;
  if (!worths.empty()) {
    std::erase_if(worths, [method = worths.front().method](const Worth& worth) { return worth.method != method; });
  }
  return worths;
}

std::string worth_rows(const Study& study, const Look& look) {
  std::vector<Worth> worths = worths_shown(study);
  if (worths.empty()) return "";
  const Method method = worths.front().method;
  std::ranges::stable_sort(worths, std::greater<>(), [](const Worth& worth) { return worth.ratio.value_or(0.0); });
  const std::string head = method == Method::leave_one_out   ? "what is lost without it"
                           : method == Method::one_at_a_time ? "what it brings alone"
                                                             : "what it brings, averaged over all orders";
  std::string text = headed(look, "\n" + fmt::format("{:<57} {:>22}\n", head, "worth [95 %]"));
  for (const Worth& worth : worths) {
    const std::string title = shortened(worth.title, 57);
    if (!worth.ratio) {
      text += wrapped(fmt::format("{:<{}} no number: {}", shortened(title, label_width), label_width, worth.reason),
                      std::string(label_width + 1, ' '));
      continue;
    }
    std::string below;
    const std::string value = with_interval(look, marked_ratio(worth), worth, 22, below);
    text += fmt::format("{:<57} {}\n", title, value) + below;
  }
  return text + rule(look);
}

// Whether one of the ratios that the tables mark is such; `so_far`: those beside their intervals, too.
bool has_ratio(const Study& study, bool (*is_such)(const Shown&), bool so_far) {
  const Layout layout = layout_of(study);
  const auto any = [&](const auto& ratios) { return std::ranges::any_of(ratios, is_such); };
  return any(worths_shown(study)) || std::ranges::any_of(study.rungs, [&](const StudyRung& rung) {
           if (rung.peer) return false;
           return (!layout.step.empty() && is_such(rung.speedup_against)) ||
                  (so_far && !layout.so_far.empty() && is_such(rung.speedup_first)) || (rung.peers && any(*rung.peers));
         });
}

// The names of the measured rungs for flags; empty if the table shows them all.
std::string names_line(const Study& study) {
  if (study.mode != Mode::cumulative) return "";
  std::string names;
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer || !rung.ms_per_step) continue;
    names += (names.empty() ? "" : ", ") + rung.optimization.value_or("start");
  }
  return names.empty() ? "" : wrapped("Names for --rung and --diff, in this order: " + names + ".");
}

// How the last row of the table is measured by itself; empty: it cannot be.
std::string alone_line(const Study& study) {
  const auto is_row = [](const StudyRung& rung) { return !rung.peer && rung.ms_per_step; };
  const auto last = std::find_if(study.rungs.rbegin(), study.rungs.rend(), is_row);
  if (last == study.rungs.rend() || study.rungs.size() < 2 || study.from_logs) return "";
  std::string command;
  if (last->command) {
    command = command_of_row(study, *last);
  } else if (const std::vector<std::string> commands = commands_of_rung(study, *last); !commands.empty()) {
    command = commands.front();
  }
  return command.empty() ? "" : wrapped(fmt::format("The last row alone: {}", ascii_words(command)));
}

// What pages fold away with each command, and each rung's first steps.
std::string lines_of_rungs(const Study& study) {
  constexpr std::string_view same_words = "the same training: ";
  std::string text, same;
  for (const StudyRung& rung : study.rungs) {
    const std::string name = in_quotes(rung.title);
    const std::string first_steps = rung.training ? ascii_words(rung.training->words) : "";
    if (!rung.command && first_steps.starts_with(same_words)) {
      same += wrapped(fmt::format("  {}: {}", ascii_words(name), first_steps.substr(same_words.size())), "    ");
    } else if (!first_steps.empty()) {
      text += wrapped(fmt::format("First steps of {}: {}.", ascii_words(name), first_steps));
    }
    if (!rung.command) continue;
    const std::string seen = first_of(rung.command->seen.value_or(std::vector<std::string>{}), 3, 400);
    if (!seen.empty()) text += wrapped(ascii_words(fmt::format("Seen with {}: {}.", name, seen)));
    const std::string& losses = rung.command->losses;
    if (!losses.empty()) text += wrapped(ascii_words(fmt::format("Losses of {}: {}.", name, losses)));
  }
  if (!same.empty()) text += "By their first steps the same training as their reference:\n" + same;
  return text;
}

}  // namespace

std::string study_table(const Study& as_written, const Look& look, bool verbose) {
  const Study study = without_claims(with_printable_texts(as_written));
  Said said = said_of(study);
  std::erase_if(said.remarks, [](const Remark& remark) { return remark.code == "found"; });  // stands first
  std::string text = found_text(study.found, look) + "\n" + rung_rows(study, look);
  text += batch_rows(study, look) + worth_rows(study, look) + peer_rows(study, look);
  std::string marks;
  if (has_ratio(study, is_unclear, false)) marks += "~ no clear change   ";
  if (has_ratio(study, has_no_interval, true)) marks += "? one run, no interval   ";
  if (std::ranges::any_of(study.rungs, is_disturbed)) marks += "! disturbed runs   ";
  const auto drifts = [&](const StudyRung& rung) {  // then a reader's own quotient is another
    if (!study.headline || !has_number(rung) || !rung.speedup_first || study.swept || study.metric) return false;
    const double first_ms = study.rungs[study.headline->first].ms_per_step->median;
    return std::abs(first_ms / rung.ms_per_step->median / rung.speedup_first->ratio - 1) > 0.05;
  };
  if (std::ranges::any_of(study.rungs, drifts)) marks += "ratios are paired within repeats, not quotients of medians";
  if (!marks.empty()) text += look.painted(Style::faint, wrapped(marks));
  text += look.painted(Style::faint, alone_line(study));
  text += lines_of_rungs(study);
  if (verbose) {
    for (const StudyRung& rung : study.rungs) {
      if (rung.explanation) text += wrapped(ascii_words(*rung.explanation), "  ");
    }
    text += wrapped(fmt::format("{}{} timed steps each after {} of warm-up; {}; {}.",
                                study.plan.least_window_s > 0 ? "at least " : "", study.plan.timed_steps,
                                study.plan.warmup_steps, study.statistics.center, study.statistics.interval));
    if (study.statistics.attribution) text += wrapped(fmt::format("Worth: {}.", *study.statistics.attribution));
    text += names_line(study);
    for (const Remark& remark : said.remarks) text += wrapped(remark.text);
  }
  const auto trust = std::ranges::find(said.remarks, "trust", &Remark::code);
  const std::string runs = trust == said.remarks.end() ? "" : " | " + trust->text.substr(0, trust->text.find(". "));
  return text + look.painted(Style::faint, wrapped(ascii_words(said.title) + runs)) + said_text(said, look);
}

}  // namespace plots
