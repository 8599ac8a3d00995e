#include "plots/gate_text.h"

#include "files/printable.h"
#include "plots/comparison_text.h"
#include "plots/report_document.h"
#include "plots/sentences.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

namespace plots {

using files::shortened;

namespace {

using Entries = std::vector<ComparedRecipe>;

// Whether it says of two programs which is faster; a calibration compares one with itself.
bool compares(const GateResult& result) { return result.comparison && result.verdict != GateOutcome::calibrated; }

const Entries& entries_of(const GateResult& result) {
  static const Entries none;
  return compares(result) ? result.comparison->entries : none;
}

// Of any program's command, which has no model.
bool is_of_commits(const GateResult& result) {
  return result.comparison && !result.comparison->entries.empty() && !result.comparison->entries.front().setting.model;
}

// The verdict in a few words, and what to do.
struct Verdict {
  Severity severity;
  const char *words, *meaning, *fix;
};

Verdict said_of(GateOutcome verdict, bool of_commits) {
  switch (verdict) {
    case GateOutcome::regression:
      return {Severity::bad, "Slower", "A whole interval lies beyond the limit.",
              of_commits ? "" : "`ladder profile --diff` shows which operations take longer."};
    case GateOutcome::improvement:
      return {Severity::good, "Faster", "A whole interval lies beyond the limit, and no rung is slower.", ""};
    case GateOutcome::same:
      return {Severity::good, "No change that matters", "Every interval lies within the limit.", ""};
    case GateOutcome::inconclusive:
      return {Severity::warn, "Inconclusive", "An interval crosses the limit, so these runs cannot tell.",
              "Run it again on a quiet machine, or with more `--pairs`."};
    case GateOutcome::failed:
      return {Severity::bad, "Failed: head has no number", "A run of head failed, was not proven, or lost its loss.",
              ""};
    case GateOutcome::unfit:
      return {Severity::warn, "Unfit to judge", "The base has no number, or the machine is not fit for measuring.", ""};
    case GateOutcome::saved:
      return {Severity::info, "Saved as the baseline", "There was no baseline to compare with.",
              "The next gate compares with these runs."};
    case GateOutcome::calibrated:
      break;
  }
  return {Severity::info, "Noise floor measured", "The program ran against itself.", ""};
}

// The entry that the verdict is about: one whose losses differ, else the one furthest to the verdict's side.
const ComparedRecipe* deciding(const GateResult& result) {
  const Entries& entries = entries_of(result);
  const auto differs = std::ranges::find_if(entries, [](const ComparedRecipe& entry) { return !entry.loss.is_good(); });
  if (differs != entries.end()) return &*differs;
  const ComparedRecipe* found = nullptr;
  for (const ComparedRecipe& entry : entries) {
    if (outcome_of(entry.verdict) != result.verdict) continue;
    const bool is_further =
        found == nullptr ||
        (result.verdict == GateOutcome::improvement ? entry.ratio < found->ratio : entry.ratio > found->ratio);
    if (is_further) found = &entry;
  }
  return found;
}

std::string verdict_line(const GateResult& result) {
  const ComparedRecipe* entry = deciding(result);
  const std::string limit = fmt::format("limit \u00b1 {}", percent(result.min_effect));
  if (entry == nullptr) {
    return result.reasons.empty() ? "" : fmt::format("{}.", fmt::join(result.reasons, "; "));
  }
  const std::string name = shortened(entry->label.starts_with("+ ") ? entry->label.substr(2) : entry->label, 40);
  const auto others = std::ssize(entries_of(result)) - 1;
  return fmt::format("\u201c{}\u201d: {}; {}, {}{}.", name,
                     ratio_words(*entry, sides_of_programs, result.comparison->confidence), limit,
                     number_of(result.pairs, "pair") + " of runs",
                     others > 0 ? fmt::format("; {}", number_of(others, "other rung") + " below") : "");
}

std::string title_of(const GateResult& result) {
  std::vector<std::string> parts;
  const Entries& entries = result.comparison ? result.comparison->entries : Entries{};
  if (!entries.empty()) {
    const Setting& setting = entries.front().setting;
    parts.push_back(setting.model ? model_on_device(*setting.model, setting.device.value_or(""))
                                  : shortened(setting.device.value_or("an unknown device"), 40));
  }
  if (!result.subject.empty()) parts.push_back(shortened(result.subject, 70));
  parts.push_back(files::valid_utf8(result.created.substr(0, 10)));
  if (result.against == Against::baseline) parts.emplace_back("against a baseline");
  return fmt::format("{}", fmt::join(parts, " \u00b7 "));
}

std::string verdict_and_reasons(const GateResult& result) {
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

std::string noise_words(const Noise& noise) {
  return fmt::format(
      "{} of equal runs differ by {} (standard deviation). A slowdown beyond the limit and the noise "
      "floor together is found in 95 % of gates.",
      number_of(noise.pairs, "pair"), percent(noise.sd));
}

Said said_of(const GateResult& result) {
  Verdict verdict = said_of(result.verdict, is_of_commits(result));
  Said said{.title = title_of(result),
            .headline = verdict.words,
            .lines = {verdict_line(result)},
            .remarks = {},
            .command = ""};
  const ComparedRecipe* entry = deciding(result);
  if (result.verdict == GateOutcome::regression && entry != nullptr && !entry->loss.is_good()) {
    said.headline = "No longer learns the same";
    verdict.meaning = "The losses differ.";
  } else if (entry != nullptr && result.verdict <= GateOutcome::improvement) {
    said.headline = fmt::format("{} {}", times(std::max(entry->ratio, 1 / entry->ratio)),
                                result.verdict == GateOutcome::regression ? "slower" : "faster");
    const auto &base = result.comparison->base.programs, &head = result.comparison->head.programs;
    if (is_of_commits(result) && !base.empty() && !head.empty()) {
      said.headline += fmt::format(": {} against {}", head.front().substr(0, 7), base.front().substr(0, 7));
    }
  }
  std::erase(said.lines, "");
  if (!result.found.empty()) {
    said.headline = headline_of_found;
    verdict.meaning = "What was found makes its numbers untrue.";
    said.remarks = found_remarks(result.found);
  }
  said.remarks.push_back(
      {verdict.severity, "verdict",
       fmt::format("{} {} Exit status {}.", name_of(result.verdict) + ":", verdict.meaning, result.exit_status),
       verdict.fix});
  for (const std::string& warning : result.warnings) said.remarks.push_back({Severity::warn, "warning", warning, ""});
  if (result.comparison) {
    for (const Remark& remark : remarks_of(*result.comparison, sides_of_programs)) {
      if (remark.code != "disturbed") said.remarks.push_back(remark);  // the warnings say so
    }
  }
  if (result.topped_up) {
    said.remarks.push_back(
        {Severity::info, "top-up", "The first pairs could not tell, so the declared top-up was made.", ""});
  }
  for (const Noise& noise : result.calibration)
    said.remarks.push_back({Severity::info, "noise-floor", noise_words(noise), ""});
  said.remarks = sorted(std::move(said.remarks));
  return said;
}
// What is said, without the verdict itself.
static std::vector<Remark> doubts_of(const GateResult& result) {
  std::vector<Remark> remarks = said_of(result).remarks;
  std::erase_if(remarks, [](const Remark& remark) { return remark.code == "verdict" || remark.code == "found"; });
  return remarks;
}

std::string noise_table(const Noise& as_written) {
  const Noise noise = with_printable_texts(as_written);
  std::string text = "\n" + wrapped(fmt::format("What this machine can show: {} against itself.", noise.label));
  text += fmt::format("\n{:>8}  {:>12}  {:>34}\n", "pairs", "noise floor", "with a least effect of 2 % it finds");
  text += std::string(columns(), '-') + "\n";
  for (const auto& [pairs, floor] : noise.floors) {
    text += fmt::format("{:>8}  {:>10.2f} %  {:>24.2f} % slower\n", pairs, 100 * floor, 100 * (1.02 * (1 + floor) - 1));
  }
  text += std::string(columns(), '-') + "\n";
  return text + wrapped(noise_words(noise));
}

std::string gate_table(const GateResult& as_written, const Look& look) {
  const GateResult result = with_printable_texts(as_written);
  std::string text = found_text(result.found, look);
  if (compares(result)) text += comparison_table(*result.comparison, look);
  for (const Noise& noise : result.calibration) text += noise_table(noise);
  text += remarks_text(doubts_of(result), look);
  const std::string word = name_of(result.verdict);
  text += "\n" + look.painted(style_of(word), wrapped(verdict_and_reasons(result), "  "), 0, word.size());
  if (const char* fix = said_of(result.verdict, is_of_commits(result)).fix; *fix != 0) text += wrapped(fix);
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
  if (!result.subject.empty()) text += "Gated: " + markdown(result.subject) + "\n\n";
  for (const std::string& reason : result.reasons) text += "- " + markdown(reason) + "\n";
  text += remarks_markdown(doubts_of(result));
  if (compares(result)) text += "\n" + comparison_markdown(*result.comparison);
  for (const Noise& noise : result.calibration) {
    text += fmt::format("\n{}: noise floor\n\n| pairs | floor |\n|--:|--:|\n", markdown(noise.label));
    for (const auto& [pairs, floor] : noise.floors) text += fmt::format("| {} | {:.2f} % |\n", pairs, 100 * floor);
  }
  if (!result.said.command.empty()) text += "\n```\n" + result.said.command + "\n```\n";
  return text;
}

void tell_github(const GateResult& result) {
  const char* in_github = std::getenv("GITHUB_ACTIONS");
  if (in_github == nullptr || std::string_view(in_github) != "true") return;
  if (result.exit_status != 0) {
    fmt::print(stderr, "::{} title=ladder gate::{}\n", result.exit_status == 1 ? "error" : "warning",
               command_text(files::printable(verdict_and_reasons(result))));
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

}  // namespace plots
