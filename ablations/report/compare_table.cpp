#include "ablations/report/compare_table.h"

#include "ablations/text/markdown.h"
#include "ablations/text/text.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ablations {

using harness::Json;

namespace {

std::string ratio_with_interval(const Json& json) {
  std::string center = fmt::format("{:.3f}", json.at("ratio").get<double>());
  if (json.at("lo").is_null()) return center;
  return fmt::format("{} [{:.3f}-{:.3f}]", center, json.at("lo").get<double>(), json.at("hi").get<double>());
}

std::string loss_words(const Json& loss) {
  if (!loss.at("compared").get<bool>()) return loss.at("message");
  if (!loss.at("passed").get<bool>()) return "LOSSES DIFFER: " + loss.at("message").get<std::string>();
  if (loss.at("identical").get<bool>()) return "losses identical to the bit";
  const bool is_typical = loss.contains("deviation");  // of an older program: the largest of all steps
  const double apart = loss.at(is_typical ? "deviation" : "max_deviation");
  return fmt::format("losses {} {:.2g} nats apart, {:g} allowed", is_typical ? "typically" : "at most", std::abs(apart),
                     loss.at("tolerance").get<double>());
}

std::string memory_words(const Json& memory) {
  if (memory.is_null()) return "";
  const std::string verdict = memory.at("lo").is_null()
                                  ? ""
                                  : fmt::format(" ({} by pairs, {:.3f})", memory.at("verdict").get<std::string>(),
                                                memory.at("ratio").get<double>());
  return fmt::format("; peak memory {:.2f} to {:.2f} GiB at most{}", gib(memory.at("base_bytes")),
                     gib(memory.at("head_bytes")), verdict);
}

// What stands below an entry's row.
std::vector<std::string> notes(const Json& entry) {
  const auto pairs = entry.at("pairs").get<int64_t>();
  const Json sessions = entry.at("sessions");
  std::vector<std::string> lines{
      fmt::format("{}slower in {} of {} pair{} (sign test p = {:.2g}); {}{}",
                  sessions.is_null() ? "" : "with the baseline's own runs: ", entry.at("slower_pairs").get<int64_t>(),
                  pairs, pairs == 1 ? "" : "s", entry.at("sign_test_p").get<double>(), loss_words(entry.at("loss")),
                  memory_words(entry.at("memory")))};
  if (!sessions.is_null()) {
    lines.push_back(
        fmt::format("base: the mean of {} sessions of one program; the interval holds 1 for 95 % of its "
                    "further sessions",
                    sessions.get<int64_t>()));
  } else if (pairs == 1) {
    lines.emplace_back("one pair has no interval, so no verdict; more runs give one");
  }
  if (const auto runs = std::max(entry.at("base_runs").get<int64_t>(), entry.at("head_runs").get<int64_t>());
      runs > pairs) {
    lines.push_back(fmt::format("{} of {} runs have a partner", pairs, runs));
  }
  if (!entry.at("recipe_diff").empty()) {
    lines.push_back("recipes differ: " + entry.at("recipe_diff").dump());
  }
  if (const Json& flags = entry.at("flags"); !flags.empty()) {
    lines.push_back(fmt::format("! {} of the runs {} disturbed: {}", flags.size(), flags.size() == 1 ? "was" : "were",
                                flags.front().get<std::string>()));
  }
  return lines;
}

std::string programs_of(const Json& side) {
  std::vector<std::string> names;
  for (const Json& program : side.at("programs")) {
    const std::string name = program;  // a commit, and what is to be said of it
    const size_t end = std::min(name.find(','), name.size());
    names.push_back(name.substr(0, std::min<size_t>(end, 12)) + name.substr(end));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> closing(const Json& comparison) {
  std::vector<std::string> lines;
  for (const Json& arm : comparison.at("unmatched")) {
    lines.push_back(
        fmt::format("only {} has {}", arm.at("side").get<std::string>(), arm.at("label").get<std::string>()));
  }
  for (const char* side : {"base", "head"}) {
    const Json& left_out = comparison.at(side).at("left_out");
    if (left_out.empty()) continue;
    lines.push_back(fmt::format("{} run{} of {} left out, not a number: {}", left_out.size(),
                                left_out.size() == 1 ? "" : "s", side, left_out.front().get<std::string>()));
  }
  for (const Json& warning : comparison.at("warnings")) lines.push_back(warning);
  for (const Json& line : comparison.at("forced")) {
    lines.push_back("FORCED: measured under different circumstances: " + line.get<std::string>());
  }
  return lines;
}

std::string band(const Json& comparison) {
  const double most = 1 + comparison.at("min_effect").get<double>();
  return fmt::format("Least effect that matters: {:g} %, so the same is {:.3f} to {:.3f}.",
                     100 * comparison.at("min_effect").get<double>(), 1 / most, most);
}

}  // namespace

std::string comparison_table(const Json& as_written, const Look& look) {
  const Json comparison = with_printable_texts(as_written);
  std::string text = "\n" + wrapped(fmt::format("base {} ({})", comparison.at("base").at("source").get<std::string>(),
                                                programs_of(comparison.at("base"))));
  text += wrapped(fmt::format("head {} ({})", comparison.at("head").at("source").get<std::string>(),
                              programs_of(comparison.at("head"))));
  constexpr const char* row = "{:<26} {:>8} {:>8}  {:>20}  {:>12}\n";
  const std::string rule = look.painted(Style::faint, std::string(columns, '-') + "\n");
  text += "\n" + look.painted(Style::faint, fmt::format(row, "", "base ms", "head ms", "head/base [95 %]", "")) + rule;
  for (const Json& entry : comparison.at("entries")) {
    const std::string ratio = ratio_with_interval(entry);
    const bool fits = ratio.size() <= 20;
    const std::string verdict = entry.at("verdict");
    const std::string numbers =
        fmt::format(row, files::shortened(entry.at("label"), 26), number(entry.at("base_ms").get<double>()),
                    number(entry.at("head_ms").get<double>()),
                    fits ? ratio : fmt::format("{:.3f}", entry.at("ratio").get<double>()), verdict);
    text += look.painted(style_of(verdict), numbers, numbers.size() - 1 - verdict.size(), verdict.size());
    if (!fits) text += fmt::format("{:>66}\n", ratio.substr(ratio.find('[')));
    for (const std::string& line : notes(entry)) {
      text += look.painted(line.starts_with("!") ? Style::caution : Style::plain, wrapped("  " + line, "  "));
    }
  }
  text += rule + wrapped(band(comparison));
  text += wrapped(comparison.at("method").get<std::string>() + ".");
  for (const std::string& line : closing(comparison)) text += wrapped(line, "  ");
  return text;
}

std::string comparison_markdown(const Json& comparison) {
  std::string text = fmt::format(
      "base {} ({}), head {} ({})\n\n", markdown(comparison.at("base").at("source").get<std::string>()),
      markdown(programs_of(comparison.at("base"))), markdown(comparison.at("head").at("source").get<std::string>()),
      markdown(programs_of(comparison.at("head"))));
  text += "| | base ms | head ms | head/base [95 %] | verdict |\n|---|--:|--:|--:|---|\n";
  for (const Json& entry : comparison.at("entries")) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", markdown(entry.at("label").get<std::string>()),
                        number(entry.at("base_ms").get<double>()), number(entry.at("head_ms").get<double>()),
                        ratio_with_interval(entry), entry.at("verdict").get<std::string>());
  }
  text += "\n";
  for (const Json& entry : comparison.at("entries")) {
    text += fmt::format("- {}: {}\n", markdown(entry.at("label").get<std::string>()),
                        markdown(fmt::format("{}", fmt::join(notes(entry), "; "))));
  }
  text += "\n" + band(comparison) + " " + markdown(comparison.at("method").get<std::string>()) + ".\n";
  for (const std::string& line : closing(comparison)) text += "\n" + markdown(line) + "\n";
  return text;
}

}  // namespace ablations
