#include "ablations/report/chart_notes.h"

#include "ablations/report/findings.h"
#include "ablations/report/sentences.h"
#include "ablations/text/figures.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace ablations {

using files::shortened;

namespace {

using Notes = std::vector<std::string>;

std::string and_more(size_t all, size_t named) {
  return all > named ? fmt::format(" (and {} more)", all - named) : std::string();
}

// "a; b; c (and 2 more)"
std::string first_three(const Notes& said, const char* between) {
  const Notes first(said.begin(), said.begin() + std::min<std::ptrdiff_t>(std::ssize(said), 3));
  return fmt::format("{}{}", fmt::join(first, between), and_more(said.size(), first.size()));
}

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
    notes.emplace_back("A padded vocabulary adds a known offset to the loss. The guard allows it on top.");
  }
  if (!voided.empty()) notes.push_back("void: " + voided[0] + and_more(voided.size(), 1));
  if (!broken.empty()) {
    notes.push_back("a line breaks where a loss is not finite: " + first_three(broken, "; "));
  }
  return notes;
}

Notes notes_on_steps(const Study& study, const std::vector<ReportedRun>& runs) {
  const auto is_disturbed = [&](const ReportedRun& run) {
    return run.status == RunStatus::ok && !study.rungs.at(run.rung).peer && !run.step_ms.empty() && !run.flags.empty();
  };
  const auto first = std::ranges::find_if(runs, is_disturbed);
  if (first == runs.end()) return {};
  return {fmt::format("disturbed: {} {}{}", shortened(first->id, 60), shortened(first->flags.front(), 100),
                      and_more(static_cast<size_t>(std::ranges::count_if(runs, is_disturbed)), 1))};
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
  return {"no number: " + without[0] + and_more(without.size(), 1)};
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
    notes.push_back(fmt::format("faster than ideal, so the measured roof is too low for {}: {}",
                                faster.size() == 1 ? "it" : "them", first_three(faster, ", ")));
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
