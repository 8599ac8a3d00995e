#include "ablations/report/words.h"

#include "ablations/report/again.h"
#include "ablations/report/chart_notes.h"
#include "ablations/report/comparison_words.h"
#include "ablations/report/findings.h"
#include "ablations/report/gate_words.h"
#include "ablations/report/how_to_read.h"
#include "ablations/report/origin.h"
#include "ablations/report/predictions.h"
#include "ablations/report/sentences.h"
#include "ablations/report/trust.h"
#include "ablations/report/unusable.h"
#include "ablations/text/figures.h"
#include "harness/stats/stats.h"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace ablations {

namespace {

// "31.5 s, then 11.2 s": of the first run, and the median of the later ones, which find code on the disk.
std::string compiling_words(const ReportedStudy& entry, size_t rung) {
  std::map<int64_t, double> by_repeat;
  for (const ReportedRun& run : entry.runs) {
    if (run.rung == rung && run.compile_s) by_repeat[run.repeat] = *run.compile_s;
  }
  if (by_repeat.empty()) return "";
  std::vector<double> later;
  for (auto run = std::next(by_repeat.begin()); run != by_repeat.end(); ++run) later.push_back(run->second);
  const std::string first = digits3(by_repeat.begin()->second) + " s";
  return later.empty() ? first : fmt::format("{}, then {} s", first, digits3(harness::median(later)));
}

RungWords words_on(const ReportedStudy& entry, const StudyRung& rung) {
  const Study& study = entry.study;
  RungWords words{.status = status_words(rung),
                  .reason = rung.is_measured() && rung.ms_per_step ? "" : why_no_number(rung),
                  .figures = figure_words(rung),
                  .clock = clock_words(study, rung),
                  .disturbances = {},
                  .proofs = own_proofs(rung),
                  .other_proofs = "",
                  .guard = rung.guard ? guard_words(*rung.guard) : "",
                  .commands = commands_of_rung(study, rung),
                  .compiling = compiling_words(entry, rung.index)};
  for (const std::string& flag : rung.flags.value_or(std::vector<std::string>{})) {
    words.disturbances.push_back("Disturbed: run " + flag);
  }
  if (const auto others = std::ssize(rung.proofs) - std::ssize(words.proofs); others > 0) {
    words.other_proofs =
        fmt::format("{}, of settings that it shares with the rung before, passed.", number_of(others, "other proof"));
  }
  return words;
}

// A study without a speedup has the title of the chart that it begins with.
std::string page_headline(const Study& study, const Findings& findings) {
  for (const char* chart : {"attribution", "sweep"}) {
    if (findings.contains(chart) && !lead_of(study)) return findings.at(chart);
  }
  return headline_words(study);
}

}  // namespace

StudyWords words_of(const ReportedStudy& entry, const std::vector<Noise>& noise) {
  const Study study = without_claims(entry.study);
  StudyWords words{.headline = "",
                   .evidence = evidence_words(study),
                   .change = change_words(study),
                   .remedy = remedy_words(study),
                   .measured = measured_words(study),
                   .origin = origin_of(study),
                   .remarks = remarks_of(study),
                   .rungs = {},
                   .trust = trust_cards(study, entry.runs, noise),
                   .disturbance = disturbance_words(study, entry.runs),
                   .vs_previous = vs_previous_words(study.mode),
                   .vs_first = vs_first_words(study),
                   .runs = runs_words(study),
                   .ranges = range_words(study.statistics),
                   .methods = method_words(study),
                   .mfu = mfu_words(study),
                   .worth = worth_words(study.mode),
                   .memory = memory_words(study),
                   .prediction = prediction_words(entry.predictions),
                   .peers = peer_words(study),
                   .batches = batch_words(study),
                   .how_to_read = how_to_read(study),
                   .plan = plan_words(study.plan),
                   .command = command_again(study),
                   .findings = findings_of(study, entry.runs, entry.losses),
                   .chart_notes = chart_notes_of(study, entry.runs, entry.losses)};
  words.headline = page_headline(study, words.findings);
  for (const StudyRung& rung : study.rungs) words.rungs.push_back(words_on(entry, rung));
  return words;
}

Report with_words(Report report) {
  for (ReportedStudy& entry : report.studies) {
    std::vector<Noise> noise;
    for (const size_t place : entry.noise) noise.push_back(report.noise.at(place));
    entry.words = words_of(entry, noise);
  }
  if (report.comparison) report.comparison = with_words(std::move(*report.comparison), sides_of_studies);
  for (GateResult& gate : report.gates) gate = with_words(std::move(gate));
  report.findings = findings_of(report);
  report.chart_notes = chart_notes_of(report);
  report.origins.clear();
  if (const TraceDocument* trace = trace_with_roofline(report)) report.origins["roofline"] = origin_of(*trace);
  return report;
}

}  // namespace ablations
