#include "ablations/report/gate_table.h"

#include "ablations/report/compare_table.h"
#include "ablations/text/markdown.h"
#include "ablations/text/text.h"
#include "files/printable.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <system_error>

namespace ablations {

using harness::Json;

namespace {

// Whether it says of two programs which is faster; a calibration compares one with itself.
bool compares(const Json& verdict) {
  return !verdict.at("comparison").is_null() && verdict.at("verdict") != "CALIBRATED";
}

std::string headline(const Json& verdict) {
  std::string line = verdict.at("verdict");
  for (const Json& reason : verdict.at("reasons")) {
    line += (line.size() == verdict.at("verdict").get<std::string>().size() ? ": " : "; ") + reason.get<std::string>();
  }
  return line;
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

std::string noise_table(const Json& as_written) {
  const Json noise = with_printable_texts(as_written);
  std::string text =
      "\n" + wrapped(fmt::format("What this machine can show: {} against itself, {} pairs of runs that differ by "
                                 "{:.2g} % (standard deviation).",
                                 noise.at("label").get<std::string>(), noise.at("pairs").get<int64_t>(),
                                 100 * noise.at("sd").get<double>()));
  text += fmt::format("\n{:>8}  {:>12}  {:>34}\n", "pairs", "noise floor", "with a least effect of 2 % it finds");
  text += std::string(columns, '-') + "\n";
  for (const Json& entry : noise.at("floors")) {
    const double floor = entry.at("floor");
    text += fmt::format("{:>8}  {:>10.2f} %  {:>24.2f} % slower\n", entry.at("pairs").get<int64_t>(), 100 * floor,
                        100 * (1.02 * (1 + floor) - 1));
  }
  text += std::string(columns, '-') + "\n";
  return text +
         wrapped(
             "The floor is what must come on top of the least effect for a regression to be found in 95 % of "
             "studies. A least effect well below the floor leaves most comparisons of equal programs inconclusive.");
}

std::string gate_table(const Json& as_written, const Look& look) {
  const Json verdict = with_printable_texts(as_written);
  std::string text;
  if (compares(verdict)) text += comparison_table(verdict.at("comparison"), look);
  for (const Json& noise : verdict.at("calibration")) text += noise_table(noise);
  for (const Json& warning : verdict.at("warnings")) text += warning_line(look, warning);
  const std::string word = verdict.at("verdict");
  text += "\n" + look.painted(style_of(word), wrapped(headline(verdict), "  "), 0, word.size());
  if (const Json& saved = verdict.at("saved"); !saved.empty()) {
    text += verdict.at("verdict") == "CALIBRATED" ? "noise floor:\n" : "new baseline:\n";
    for (const Json& file : saved) text += "  " + file.get<std::string>() + "\n";
  }
  if (const Json& added_to = verdict.at("added_to"); !added_to.empty()) {
    text += "one more session of the baseline's program:\n";
    for (const Json& file : added_to) text += "  " + file.get<std::string>() + "\n";
  }
  return text;
}

std::string gate_markdown(const Json& verdict) {
  std::string text = "## ladder gate: " + verdict.at("verdict").get<std::string>() + "\n\n";
  for (const Json& reason : verdict.at("reasons")) text += "- " + markdown(reason.get<std::string>()) + "\n";
  for (const Json& warning : verdict.at("warnings")) {
    text += "- warning: " + markdown(warning.get<std::string>()) + "\n";
  }
  if (compares(verdict)) text += "\n" + comparison_markdown(verdict.at("comparison"));
  for (const Json& noise : verdict.at("calibration")) {
    text += fmt::format("\n{}: noise floor\n\n| pairs | floor |\n|--:|--:|\n",
                        markdown(noise.at("label").get<std::string>()));
    for (const Json& entry : noise.at("floors")) {
      text +=
          fmt::format("| {} | {:.2f} % |\n", entry.at("pairs").get<int64_t>(), 100 * entry.at("floor").get<double>());
    }
  }
  return text;
}

void tell_github(const Json& verdict) {
  const char* in_github = std::getenv("GITHUB_ACTIONS");
  if (in_github == nullptr || std::string_view(in_github) != "true") return;
  const int status = verdict.at("exit_status");
  if (status != 0) {
    fmt::print(stderr, "::{} title=ladder gate::{}\n", status == 1 ? "error" : "warning",
               command_text(files::printable(headline(verdict))));
  }
  for (const Json& warning : verdict.at("warnings")) {
    fmt::print(stderr, "::warning title=ladder gate::{}\n", command_text(files::printable(warning.get<std::string>())));
  }
  if (const char* summary = std::getenv("GITHUB_STEP_SUMMARY"); summary != nullptr && *summary != 0) {
    std::ofstream file(summary, std::ios::app);
    file << gate_markdown(verdict) << std::flush;
    if (!file) throw std::system_error(errno, std::generic_category(), summary);
  }
}

}  // namespace ablations
