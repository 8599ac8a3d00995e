#include "ablations/report/gate_table.h"

#include "ablations/report/compare_table.h"
#include "ablations/report/gate_words.h"
#include "ablations/text/markdown.h"
#include "ablations/text/text.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

namespace ablations {

namespace {

// Whether it says of two programs which is faster; a calibration compares one with itself.
bool compares(const GateResult& result) { return result.comparison && result.verdict != GateOutcome::calibrated; }

std::string headline(const GateResult& result) {
  const std::string reasons = fmt::format("{}", fmt::join(result.reasons, "; "));
  return name_of(result.verdict) + (reasons.empty() ? "" : ": " + reasons);
}

// The text of a workflow command: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
std::string command_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '%':
        escaped += "%25";
        break;
      case '\r':
        escaped += "%0D";
        break;
      case '\n':
        escaped += "%0A";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::string noise_table(const Noise& as_written) {
  const Noise noise = with_printable_texts(as_written);
  std::string text = "\n" + wrapped(fmt::format("What this machine can show: {} against itself.", noise.label));
  text += fmt::format("\n{:>8}  {:>12}  {:>34}\n", "pairs", "noise floor", "with a least effect of 2 % it finds");
  text += std::string(columns, '-') + "\n";
  for (const auto& [pairs, floor] : noise.floors) {
    text += fmt::format("{:>8}  {:>10.2f} %  {:>24.2f} % slower\n", pairs, 100 * floor, 100 * (1.02 * (1 + floor) - 1));
  }
  text += std::string(columns, '-') + "\n";
  return text + wrapped(noise_words(noise));
}

std::string gate_table(const GateResult& as_written, const Look& look) {
  const GateResult result = with_printable_texts(as_written);
  std::string text;
  if (compares(result)) text += comparison_table(*result.comparison, look);
  for (const Noise& noise : result.calibration) text += noise_table(noise);
  for (const std::string& warning : result.warnings) text += warning_line(look, warning);
  const std::string word = name_of(result.verdict);
  text += "\n" + look.painted(style_of(word), wrapped(headline(result), "  "), 0, word.size());
  if (!result.saved.empty()) {
    text += result.verdict == GateOutcome::calibrated ? "noise floor:\n" : "new baseline:\n";
    for (const std::string& file : result.saved) text += "  " + file + "\n";
  }
  if (!result.added_to.empty()) {
    text += "one more session of the baseline's program:\n";
    for (const std::string& file : result.added_to) text += "  " + file + "\n";
  }
  return text;
}

std::string gate_markdown(const GateResult& result) {
  std::string text = "## ladder gate: " + name_of(result.verdict) + "\n\n";
  if (result.subject) text += "Gated: " + markdown(*result.subject) + "\n\n";
  for (const std::string& reason : result.reasons) text += "- " + markdown(reason) + "\n";
  for (const std::string& warning : result.warnings) text += "- warning: " + markdown(warning) + "\n";
  if (compares(result)) text += "\n" + comparison_markdown(*result.comparison);
  for (const Noise& noise : result.calibration) {
    text += fmt::format("\n{}: noise floor\n\n| pairs | floor |\n|--:|--:|\n", markdown(noise.label));
    for (const auto& [pairs, floor] : noise.floors) text += fmt::format("| {} | {:.2f} % |\n", pairs, 100 * floor);
  }
  return text;
}

void tell_github(const GateResult& result) {
  const char* in_github = std::getenv("GITHUB_ACTIONS");
  if (in_github == nullptr || std::string_view(in_github) != "true") return;
  if (result.exit_status != 0) {
    fmt::print(stderr, "::{} title=ladder gate::{}\n", result.exit_status == 1 ? "error" : "warning",
               command_text(files::printable(headline(result))));
  }
  for (const std::string& warning : result.warnings) {
    fmt::print(stderr, "::warning title=ladder gate::{}\n", command_text(files::printable(warning)));
  }
  if (const char* summary = std::getenv("GITHUB_STEP_SUMMARY"); summary != nullptr && *summary != 0) {
    std::ofstream file(summary, std::ios::app);
    file << gate_markdown(result) << std::flush;
    if (file) return;
    const std::string why = fmt::format("the step summary was not written: {}: {}", summary, std::strerror(errno));
    fmt::print(stderr, "::warning title=ladder gate::{}\n", command_text(files::printable(why)));
  }
}

}  // namespace ablations
