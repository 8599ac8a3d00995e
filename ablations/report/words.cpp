#include "ablations/report/words.h"

#include "ablations/report/again.h"
#include "ablations/report/comparison_words.h"
#include "ablations/report/findings.h"
#include "ablations/report/gate_words.h"
#include "ablations/report/how_to_read.h"
#include "ablations/report/predictions.h"
#include "ablations/report/sentences.h"
#include "ablations/report/trust.h"

#include <utility>

namespace ablations {

StudyWords words_of(const ReportedStudy& entry, const std::vector<Noise>& noise) {
  const Study& study = entry.study;
  StudyWords words{.headline = headline_words(study),
                   .remarks = remarks_of(study),
                   .rungs = {},
                   .trust = trust_cards(study, entry.runs, noise),
                   .disturbance = disturbance_words(study, entry.runs),
                   .worth = worth_words(study.mode),
                   .memory = memory_words(study),
                   .prediction = prediction_words(entry.predictions),
                   .batches = batch_words(study),
                   .how_to_read = how_to_read(study),
                   .command = command_again(study),
                   .findings = findings_of(study, entry.runs, entry.losses)};
  for (const StudyRung& rung : study.rungs) {
    const bool has_number = rung.is_measured() && rung.ms_per_step;
    words.rungs.push_back({.status = status_words(rung),
                           .reason = has_number ? "" : why_no_number(rung),
                           .guard = rung.guard ? guard_words(*rung.guard) : "",
                           .commands = commands_of_rung(study, rung)});
  }
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
  return report;
}

}  // namespace ablations
