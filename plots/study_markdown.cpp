#include "plots/study_markdown.h"

#include "plots/again.h"
#include "plots/remarks.h"
#include "plots/report_document.h"
#include "plots/sentences.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

namespace plots {

namespace {

std::string ratio_cell(const std::optional<Ratio>& ratio, bool is_first) {
  if (is_first) return "1";
  if (!ratio) return "-";
  constexpr double narrow = 1.02;  // an interval whose ends two decimals would make the same
  if (ratio->lo && ratio->hi && *ratio->hi < narrow * *ratio->lo)
    return fmt::format("{:.3f}\u00d7 [{:.3f} \u2013 {:.3f}]", ratio->ratio, *ratio->lo, *ratio->hi);
  const std::string interval = ratio->lo && ratio->hi ? " [" + times_between(*ratio->lo, *ratio->hi) + "]" : "";
  return times(ratio->ratio) + interval;
}

// Of a rung that has one: what is compared, what it brings, its losses.
std::string row(const Study& study, const StudyRung& rung) {
  const std::string name = markdown(swept_words(study, rung) + rung.label);
  if (!rung.ms_per_step) return fmt::format("| {} | | | {} |\n", name, markdown(why_no_number(rung)));
  const bool is_first = study.headline ? rung.index == study.headline->first : &rung == &study.rungs.front();
  const std::string doubt = !rung.is_measured() ? markdown(why_no_number(rung))
                            : rung.flags  ? fmt::format("{} of {} runs disturbed", rung.flags->size(), rung.runs_ok)
                            : !rung.guard ? ""
                                          : "losses the same";
  return fmt::format("| {} | {} | {} | {} |\n", name, digits3(compared_number(study, rung)),
                     ratio_cell(rung.speedup_first, is_first), doubt);
}

}  // namespace

std::string study_markdown(const Study& as_written) {
  const Study study = without_claims(with_printable_texts(as_written));
  const Said said = said_of(study);
  std::string text = fmt::format("**{}**\n", markdown(said.headline));
  for (const std::string& line : said.lines) text += "\n" + markdown_with_code(line) + "\n";
  text += fmt::format("\n| | {} | x first [95 %] | |\n|:--|--:|--:|:--|\n", markdown(compared_unit(study)));
  for (const StudyRung& rung : study.rungs) {
    if (!is_left_out(rung)) text += row(study, rung);
  }
  text += "\n" + markdown(said.title) + "\n";
  for (const Remark& remark : said.remarks) {
    if (remark.severity == Severity::warn || remark.severity == Severity::bad || remark.code == "trust")
      text += "- " + markdown_with_code(remark.text) + "\n";
  }
  const std::string again = command_again(study);
  return again.empty() ? text : text + "\n```\n" + again + "\n```\n";
}

}  // namespace plots
