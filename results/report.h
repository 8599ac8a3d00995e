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

  static void fields(auto&& field) {
    field("id", &ReportedRun::id);
    field("rung", &ReportedRun::rung);
    field("repeat", &ReportedRun::repeat);
    field("position", &ReportedRun::position);
    field("status", &ReportedRun::status);
    field("started", &ReportedRun::started);
    field("warmup_steps", &ReportedRun::warmup_steps);
    field("step_ms", &ReportedRun::step_ms);
    field("data_ms", &ReportedRun::data_ms, None::default_absent);
    field("loss", &ReportedRun::loss);
    field("flags", &ReportedRun::flags);
    field("first_flags", &ReportedRun::first_flags, None::absent);
    field("processor_lost", &ReportedRun::processor_lost);
    field("conditions", &ReportedRun::conditions);
    field("compile_s", &ReportedRun::compile_s, None::absent);
  }
};

// A guarded rung's losses beside those that they have to follow, step by step; none: not finite.
struct RungLosses {
  size_t rung = 0, guarded_by = 0;
  int64_t repeat = 0;
  std::vector<std::optional<double>> loss, reference, lo, hi, deviation;

  static void fields(auto&& field) {
    field("rung", &RungLosses::rung);
    field("guarded_by", &RungLosses::guarded_by);
    field("repeat", &RungLosses::repeat);
    field("loss", &RungLosses::loss);
    field("reference", &RungLosses::reference);
    field("lo", &RungLosses::lo);
    field("hi", &RungLosses::hi);
    field("deviation", &RungLosses::deviation);
  }
};

// What the least work of a rung's step lets one expect of it (report/predictions.h).
struct Prediction {
  size_t rung = 0;
  LeastWork work;
  std::optional<LeastWork> saved;  // of the rung above it less its own
  std::optional<double> ratio;     // of the least times of the two; above 1: it is faster

  static void fields(auto&& field) {
    field("rung", &Prediction::rung);
    field("work", &Prediction::work);
    field("saved", &Prediction::saved);
    field("ratio", &Prediction::ratio);
  }
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

  static void fields(auto&& field) {
    field("source", &ReportedStudy::source);
    field("study", &ReportedStudy::study);
    field("runs", &ReportedStudy::runs);
    field("losses", &ReportedStudy::losses);
    field("techniques", &ReportedStudy::techniques, None::absent);
    field("noise", &ReportedStudy::noise);
    field("predictions", &ReportedStudy::predictions, None::default_absent);
    field("said", &ReportedStudy::said, None::absent);
  }
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

  static void fields(auto&& field) {
    field("studies", &Report::studies);
    field("comparison", &Report::comparison);
    field("gates", &Report::gates);
    field("histories", &Report::histories);
    field("noise", &Report::noise);
    field("traces", &Report::traces);
    field("micro", &Report::micro);
    field("published", &Report::published);
    field("notes", &Report::notes);
    field("said", &Report::said, None::absent);
  }
};

// Compiled once, in the source beside this.
extern template files::Json json_of(const Report&);
extern template Report value_from(const files::Json&, const std::string&);

}  // namespace ablations
