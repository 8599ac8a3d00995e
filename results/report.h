// A report: all that the pages, charts and exports of one study, or of two beside each other, are made from. Its fields
// are explained in results/schemas/report.v1.json. It is made by plots/report_document.h.
#pragma once

#include "results/common.h"
#include "results/comparison.h"
#include "results/history.h"
#include "results/study.h"
#include "results/trace.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace results {

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

  LADDER_FIELDS(ReportedRun, id, rung, (repeat, from_0), (position, from_0), status, started, (warmup_steps, from_0),
                (step_ms, {.least = 1e-6, .most = 1e12}), (data_ms, absent), loss, flags, (first_flags, absent),
                processor_lost, conditions, (compile_s, {.none = None::absent, .least = 0}))
};

// A guarded rung's losses beside those that they have to follow, step by step; none: not finite.
struct RungLosses {
  size_t rung = 0, guarded_by = 0;
  int64_t repeat = 0;
  std::vector<std::optional<double>> loss, reference, lo, hi, deviation;

  LADDER_FIELDS(RungLosses, rung, guarded_by, (repeat, from_0), (loss, {.least = -1e101, .most = 1e101}),
                (reference, {.least = -1e101, .most = 1e101}), (lo, {.least = -1e101, .most = 1e101}),
                (hi, {.least = -1e101, .most = 1e101}), (deviation, {.least = -1e101, .most = 1e101}))
};

// What one rung does less than another; below 0: more.
struct SavedWork {
  double flops = 0, bytes = 0;

  LADDER_FIELDS(SavedWork, flops, bytes)
};

// What to expect of a rung from the least work of its step (plots/predictions.h).
struct Prediction {
  size_t rung = 0;
  Work work;
  std::optional<SavedWork> saved;  // of the rung above it less its own
  std::optional<double> ratio;     // of the least times of the two; above 1: it is faster

  LADDER_FIELDS(Prediction, rung, work, saved, (ratio, from_0))
};

// Paragraphs, with `code`, and blocks of lines that begin with four spaces.
struct TextPart {
  std::string title, text;

  LADDER_FIELDS(TextPart, title, text)
};

// What Google Benchmark measured of single operations.
struct MicroResults {
  files::Json context;                  // without the machine's name and paths
  std::vector<files::Json> benchmarks;  // "name", "real_time", "time_unit" and counters, which are numbers

  // Throws std::invalid_argument for a benchmark without these, or with a value of another type.
  void check(const std::string& where) const;

  LADDER_FIELDS(MicroResults, context, benchmarks)
};

struct ReportedStudy {
  std::string source;  // the last part of its name
  Study study;
  std::vector<ReportedRun> runs;  // in the order in which they were made
  std::vector<RungLosses> losses;
  std::map<std::string, std::vector<TextPart>> techniques;  // their texts, by optimization
  std::vector<size_t> noise;                                // those of the report's that say something of it
  std::vector<Prediction> predictions;                      // of rungs whose least work is known
  StudySaid said;

  LADDER_FIELDS(ReportedStudy, source, study, runs, losses, techniques, noise, (predictions, absent), said)
};

struct Report {
  static constexpr auto kind = "report";
  static constexpr auto about =
      "What the pages, the charts and the exports of one study, or of two beside each other, are made from";

  std::vector<ReportedStudy> studies;    // one or two
  std::optional<Comparison> comparison;  // of two
  std::vector<GateResult> gates;
  std::vector<History> histories;
  std::vector<Noise> noise;
  std::vector<TraceDocument> traces;
  std::vector<MicroResults> micro;
  std::vector<std::string> notes;  // what was left out, and why
  std::optional<Said> said;        // of two studies beside each other

  // Checks what a schema cannot. Throws std::invalid_argument where it refers to what it does not have. `where` begins
  // the message.
  void check(const std::string& where) const;

  LADDER_FIELDS(Report, (studies, {.items = 1, .most_items = 2}), comparison, gates, histories, noise, traces, micro,
                notes, (said, absent))
};

LADDER_COMPILED_ONCE(Report)

}  // namespace results
