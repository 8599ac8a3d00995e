#include "ablations/report/chart_notes.h"

#include "ablations/report/findings.h"
#include "ablations/report/sentences.h"
#include "ablations/text/figures.h"
#include "ablations/text/list.h"
#include "files/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace ablations {

using files::shortened;

namespace {

using Notes = std::vector<std::string>;

std::string named_rung(const Study& study, const StudyRung& rung) {
  return shortened(swept_words(study, rung) + rung.label, 60);
}

// How many of a rung's losses are not finite.
int64_t missing_in(const RungLosses& losses) { return std::ranges::count(losses.deviation, std::optional<double>()); }

Notes notes_on_losses(const Study& study, const std::vector<RungLosses>& losses) {
  bool has_offset = false;
  Notes voided, broken, notes;
  for (const RungLosses& entry : losses) {
    const StudyRung& rung = study.rungs.at(entry.rung);
    if (rung.peer || !rung.guard) continue;
    const std::string name = named_rung(study, rung);
    has_offset = has_offset || rung.guard->known_offset != 0;
    if (!rung.guard->passed) voided.push_back(fmt::format("{}: {}", name, shortened(rung.guard->message, 110)));
    if (const int64_t missing = missing_in(entry); missing > 0) {
      broken.push_back(fmt::format("{}, {} of {}", name, missing, number_of(std::ssize(entry.deviation), "step")));
    }
  }
  if (has_offset) {
    notes.emplace_back(
        "Padding columns of a softmax change the loss by a known amount, which the guard does not count.");
  }
  if (!voided.empty()) notes.push_back("void: " + first_of(voided, 1));
  if (!broken.empty()) notes.push_back("a line breaks where a loss is not finite: " + first_of(broken, 3));
  return notes;
}

Notes notes_on_steps(const Study& study, const std::vector<ReportedRun>& runs) {
  Notes disturbed;
  for (const ReportedRun& run : runs) {
    const bool is_drawn = run.status == RunStatus::ok && !study.rungs.at(run.rung).peer && !run.step_ms.empty();
    if (!is_drawn || run.flags.empty()) continue;
    disturbed.push_back(fmt::format("{} {}", shortened(run.id, 60), shortened(run.flags.front(), 100)));
  }
  if (disturbed.empty()) return {};
  return {"disturbed: " + first_of(disturbed, 1)};
}

// Of sizes that have no number.
Notes notes_on_sweep(const Study& study) {
  Notes without;
  for (const StudyRung& rung : study.rungs) {
    if (rung.is_measured() && rung.ms_per_step) continue;
    const std::string beside = rung.peer && rung.against ? ", " + study.rungs.at(*rung.against).title : "";
    without.push_back(fmt::format("{}{}: {}", swept_words(study, rung), shortened(rung.title + beside, 90),
                                  shortened(why_no_number(rung), 110)));
  }
  if (without.empty()) return {};
  return {"no number: " + first_of(without, 1)};
}

// Parts that are faster than what the limits allow.
Notes names_of_faster(const Roofline& roofline) {
  Notes names;
  for (const RooflineRow& part : roofline.parts) {
    if (part.measured_ms && part.distance && *part.distance < 1) names.push_back(part_words(part));
  }
  return names;
}

Notes notes_on_roofline(const TraceDocument& trace) {
  Notes notes{"limits: " + shortened(trace.roofline->limits.source, 120)};
  if (const Notes faster = names_of_faster(*trace.roofline); !faster.empty()) {
    notes.push_back("faster than ideal: " + first_of(faster, 3));
  }
  notes.push_back(fmt::format("median of {} of one run, no interval", number_of(trace.summary.steps, "traced step")));
  return notes;
}

}  // namespace

ChartNotes chart_notes_of(const Report& report) {
  const TraceDocument* trace = trace_with_roofline(report);
  return trace == nullptr ? ChartNotes{} : ChartNotes{{"roofline", notes_on_roofline(*trace)}};
}

ChartNotes chart_notes_of(const Study& study, const std::vector<ReportedRun>& runs,
                          const std::vector<RungLosses>& losses) {
  ChartNotes notes{{"losses", notes_on_losses(study, losses)},
                   {"steps", notes_on_steps(study, runs)},
                   {"throughput", mfu_words(study)}};
  if (study.swept) notes["sweep"] = notes_on_sweep(study);
  if (const std::string memory = memory_words(study); !memory.empty()) notes["memory"] = {memory};
  if (const std::string worth = worth_words(study.mode); !worth.empty()) notes["attribution"] = {worth};
  std::erase_if(notes, [](const auto& chart) { return chart.second.empty(); });
  return notes;
}

}  // namespace ablations
