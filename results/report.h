// A report (results/schemas/report.v1.json, which says what its fields mean): everything that the pages, charts and
// exports of one study, or of two beside each other, are made from. report/report.h makes it.
#pragma once

#include "results/gate.h"
#include "results/history.h"
#include "results/study.h"
#include "results/trace.h"
#include "results/words.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// A run that left times.
struct ReportedRun {
  std::string id;
  size_t rung = 0;
  int64_t repeat = 0, position = 0;
  RunStatus status = RunStatus::ok;
  std::string started;  // UTC, ISO 8601
  int64_t warmup_steps = 0;
  std::vector<double> step_ms;                          // of all steps, warm-up first
  std::vector<double> data_ms;                          // of their batches, where the study is about them
  std::vector<std::optional<double>> loss;              // none: not finite
  std::vector<std::string> flags;                       // what disturbed it
  std::optional<std::vector<std::string>> first_flags;  // of its first record, where it was made again
  std::optional<double> processor_lost;
  std::optional<MonitorSummary> conditions;  // the record's monitor; none: nobody looked
  std::optional<double> compile_s;           // of a peer that compiles its model

  LADDER_FIELDS(ReportedRun, id, rung, repeat, position, status, started, warmup_steps, step_ms, (data_ms, absent),
                loss, flags, (first_flags, absent), processor_lost, conditions, (compile_s, absent))
};

// A guarded rung's losses beside those that they have to follow, step by step; none: not finite.
struct RungLosses {
  size_t rung = 0, guarded_by = 0;
  int64_t repeat = 0;
  std::vector<std::optional<double>> loss, reference, lo, hi, deviation;

  LADDER_FIELDS(RungLosses, rung, guarded_by, repeat, loss, reference, lo, hi, deviation)
};

// What the least work of a rung's step lets one expect of it (report/predictions.h).
struct Prediction {
  size_t rung = 0;
  LeastWork work;
  std::optional<LeastWork> saved;  // of the rung above it less its own
  std::optional<double> ratio;     // of the least times of the two; above 1: it is faster

  LADDER_FIELDS(Prediction, rung, work, saved, ratio)
};

struct ReportedStudy {
  std::string source;  // the last part of its name
  Study study;
  std::vector<ReportedRun> runs;  // in the order in which they were made
  std::vector<RungLosses> losses;
  std::optional<std::map<std::string, files::Json>> techniques;  // by optimization; absent in older reports
  std::vector<size_t> noise;                                     // those of the report's that say something of it
  std::vector<Prediction> predictions;                           // of rungs whose least work is known
  std::optional<StudySaid> said;                                 // absent in older reports

  LADDER_FIELDS(ReportedStudy, source, study, runs, losses, (techniques, absent), noise, (predictions, absent),
                (said, absent))
};

struct Report {
  static constexpr auto kind = "report";

  std::vector<ReportedStudy> studies;    // one or two
  std::optional<Comparison> comparison;  // of two
  std::vector<GateResult> gates;
  std::vector<History> histories;
  std::vector<Noise> noise;
  std::vector<TraceDocument> traces;
  std::vector<files::Json> micro;      // what Google Benchmark measured of single operations
  std::vector<files::Json> published;  // entries of results/published.json
  std::vector<std::string> notes;      // what was left out, and why
  std::optional<Said> said;            // of two studies beside each other

  // What a schema cannot say: throws std::invalid_argument where it refers to what it does not have; `where` begins the
  // message.
  void check(const std::string& where) const;

  LADDER_FIELDS(Report, studies, comparison, gates, histories, noise, traces, micro, published, notes, (said, absent))
};

LADDER_COMPILED_ONCE(Report)

}  // namespace ablations
