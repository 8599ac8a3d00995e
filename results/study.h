// A study: the plan, its outcome and every derived number. results/schemas/study.v1.json explains the fields.
// study/analysis.h makes it from records, and everything that is shown of a study is made from it.
#pragma once

#include "harness/stats/stats.h"
#include "results/common.h"
#include "results/mfu.h"
#include "results/record.h"
#include "results/trace.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// `voided`: its losses do not follow the reference's.
enum class RungStatus { measured, not_applicable, not_measured, failed, unproven, voided, missing };
template <>
struct Names<RungStatus> {
  static constexpr std::array list{"measured", "not_applicable", "not_measured", "failed",
                                   "unproven", "void",           "missing"};
};

// Methods of telling what an optimization is worth (study/attribution.h).
enum class Method { cumulative, leave_one_out, one_at_a_time, shapley };
template <>
struct Names<Method> {
  static constexpr std::array list{"cumulative", "leave_one_out", "one_at_a_time", "shapley"};
};

// Over runs.
struct Median : Bounds {
  double median = 0;

  static void fields(auto&& field) {
    Bounds::fields(field);
    field("median", &Median::median);
  }
};

// Of runs' median steps, in ms; the rest is of all their timed steps.
struct RungTimes : Median {
  double q1 = 0, q3 = 0, min = 0, max = 0;
  size_t n = 0;

  static void fields(auto&& field) {
    Median::fields(field);
    field("q1", &RungTimes::q1);
    field("q3", &RungTimes::q3);
    field("min", &RungTimes::min);
    field("max", &RungTimes::max);
    field("n", &RungTimes::n);
  }
};

// Time before / time after, paired by repeat: above 1 is faster.
struct Ratio : Bounds {
  double ratio = 1;
  int64_t pairs = 0;

  [[nodiscard]] bool is_faster() const { return lo && *lo > 1; }  // and the runs say so
  [[nodiscard]] bool is_slower() const { return hi && *hi < 1; }

  static void fields(auto&& field) {
    Bounds::fields(field);
    field("ratio", &Ratio::ratio);
    field("pairs", &Ratio::pairs);
  }
};

// The same work in another program, whose own figures are at `rung`.
struct PeerRatio : Bounds {
  std::string peer;
  size_t rung = 0;
  std::optional<double> ratio;  // its time / ours
  std::optional<int64_t> pairs;

  static void fields(auto&& field) {
    Bounds::fields(field);
    field("peer", &PeerRatio::peer);
    field("rung", &PeerRatio::rung);
    field("ratio", &PeerRatio::ratio);
    field("pairs", &PeerRatio::pairs, None::absent);
  }
};

// What an optimization is worth: above 1, it makes a step shorter.
struct Worth : Bounds {
  std::string optimization, title;
  Method method = Method::cumulative;
  std::optional<double> ratio;  // none: see reason
  int64_t repeats = 0;
  std::string reason;

  static void fields(auto&& field) {
    Bounds::fields(field);
    field("optimization", &Worth::optimization);
    field("title", &Worth::title);
    field("method", &Worth::method);
    field("ratio", &Worth::ratio);
    field("repeats", &Worth::repeats);
    field("reason", &Worth::reason);
  }
};

// A rung's step.
struct StepSize : Shape {
  int64_t tokens_per_step = 0;

  static void fields(auto&& field) {
    field("batch", &StepSize::B);
    field("context", &StepSize::T);
    field("accumulation", &StepSize::accumulation);
    field("tokens_per_step", &StepSize::tokens_per_step);
  }
};

// The verdict of study/guard.h.
struct RungGuard {
  bool passed = false;
  std::optional<std::optional<double>> deviation;  // no value: a loss is not finite. absent: an older program's verdict
  std::optional<double> max_deviation;
  double tolerance = 0, known_offset = 0;
  int64_t steps = 0;
  std::string message;
  size_t guarded_by = 0;
  int64_t repeat = 0;

  static void fields(auto&& field) {
    field("passed", &RungGuard::passed);
    field("deviation", &RungGuard::deviation, None::absent);
    field("max_deviation", &RungGuard::max_deviation);
    field("tolerance", &RungGuard::tolerance);
    field("known_offset", &RungGuard::known_offset);
    field("steps", &RungGuard::steps);
    field("message", &RungGuard::message);
    field("guarded_by", &RungGuard::guarded_by);
    field("repeat", &RungGuard::repeat);
  }
};

// What a rung's batches cost, where a study is about them: where its rungs differ in how batches come to be.
struct RungBatches {
  Median ms;                                           // of a step: the host's time for its batch
  double share = 0;                                    // of the step's time
  std::optional<double> bytes_read, storage_bytes;     // of a step: by calls, and from a disk
  double major_faults = 0;                             // of a step
  std::optional<int64_t> resident_bytes;               // of memory that holds data: the most of all runs
  int64_t file_bytes = 0;                              // of the file that batches come from
  std::optional<int64_t> cached_before, cached_after;  // bytes of it in the page cache around the first run's steps
  bool cold = false;                                   // it was to be taken out of the page cache before each run

  static void fields(auto&& field) {
    field("ms", &RungBatches::ms);
    field("share", &RungBatches::share);
    field("bytes_read", &RungBatches::bytes_read);
    field("storage_bytes", &RungBatches::storage_bytes);
    field("major_faults", &RungBatches::major_faults);
    field("resident_bytes", &RungBatches::resident_bytes);
    field("file_bytes", &RungBatches::file_bytes);
    field("cached_before", &RungBatches::cached_before);
    field("cached_after", &RungBatches::cached_after);
    field("cold", &RungBatches::cold, None::default_absent);
  }
};

// What a GPU's SM clock was in a rung's runs.
struct RungClock {
  double sm_mhz = 0, highest_mhz = 0;  // median over runs of their medians; the highest sample of all
  double at_power_limit = 0;           // share of the samples, median over runs

  [[nodiscard]] bool is_power_limited() const { return at_power_limit >= 0.5; }

  static void fields(auto&& field) {
    field("sm_mhz", &RungClock::sm_mhz);
    field("highest_mhz", &RungClock::highest_mhz);
    field("at_power_limit", &RungClock::at_power_limit);
  }
};

struct StudyRung {
  size_t index = 0;
  std::optional<std::string> optimization;
  std::string title, label, summary;  // label: "+ bf16 autocast"
  std::optional<std::string> peer;    // who did the work; none: this program
  std::optional<size_t> against;
  RungStatus status = RungStatus::measured;
  std::string reason;
  std::optional<bool> out_of_memory;
  files::Json recipe, recipe_diff;  // an older recipe has fewer fields than model::Recipe
  std::optional<StepSize> workload;
  size_t runs_ok = 0;
  std::optional<RungTimes> ms_per_step;
  std::optional<Median> tokens_per_s;
  std::optional<Ratio> speedup_first, speedup_against;
  std::optional<int64_t> peak_memory_bytes;
  std::optional<RunMemory> memory;      // as in the record of its first run
  std::optional<LeastWork> least_work;  // likewise
  std::optional<RungBatches> batches;
  std::optional<int64_t> skipped_steps;
  std::optional<double> page_faults_per_step, joules_per_token;
  std::optional<RungClock> clock;
  std::optional<std::optional<Mfu>> mfu;          // no value: it has no time. absent: an older study's
  std::optional<std::vector<std::string>> flags;  // what disturbed its runs
  std::optional<RungGuard> guard;
  std::vector<Proof> proofs;
  std::optional<std::vector<PeerRatio>> peers;
  std::optional<RungProfile> profile;
  std::optional<std::string> explanation, changed;  // against the rung below; the names of operations behind it

  [[nodiscard]] bool is_measured() const { return status == RungStatus::measured; }

  static void fields(auto&& field) {
    field("index", &StudyRung::index);
    field("optimization", &StudyRung::optimization);
    field("title", &StudyRung::title);
    field("label", &StudyRung::label);
    field("summary", &StudyRung::summary);
    field("peer", &StudyRung::peer, None::absent);
    field("against", &StudyRung::against, None::absent);
    field("status", &StudyRung::status);
    field("reason", &StudyRung::reason);
    field("out_of_memory", &StudyRung::out_of_memory, None::absent);
    field("recipe", &StudyRung::recipe);
    field("recipe_diff", &StudyRung::recipe_diff);
    field("workload", &StudyRung::workload, None::absent);
    field("runs_ok", &StudyRung::runs_ok);
    field("ms_per_step", &StudyRung::ms_per_step);
    field("tokens_per_s", &StudyRung::tokens_per_s);
    field("speedup_first", &StudyRung::speedup_first);
    field("speedup_previous", &StudyRung::speedup_against);
    field("peak_memory_bytes", &StudyRung::peak_memory_bytes);
    field("memory", &StudyRung::memory, None::absent);
    field("least_work", &StudyRung::least_work, None::absent);
    field("batches", &StudyRung::batches, None::absent);
    field("skipped_steps", &StudyRung::skipped_steps, None::absent);
    field("page_faults_per_step", &StudyRung::page_faults_per_step);
    field("joules_per_token", &StudyRung::joules_per_token, None::absent);
    field("clock", &StudyRung::clock, None::absent);
    field("mfu", &StudyRung::mfu, None::absent);
    field("flags", &StudyRung::flags, None::absent);
    field("guard", &StudyRung::guard);
    field("proofs", &StudyRung::proofs);
    field("peers", &StudyRung::peers, None::absent);
    field("profile", &StudyRung::profile, None::absent);
    field("explanation", &StudyRung::explanation, None::absent);
    field("changed", &StudyRung::changed, None::absent);
  }
};

struct StudyRun {
  std::string id;
  size_t rung = 0;
  int64_t repeat = 0, position = 0;
  RunStatus status = RunStatus::missing;
  std::string reason;
  std::optional<double> median_ms;
  std::optional<std::string> record;  // path within the study's folder

  static void fields(auto&& field) {
    field("id", &StudyRun::id);
    field("rung", &StudyRun::rung);
    field("repeat", &StudyRun::repeat);
    field("position", &StudyRun::position);
    field("status", &StudyRun::status);
    field("reason", &StudyRun::reason);
    field("median_ms", &StudyRun::median_ms);
    field("record", &StudyRun::record);
  }
};

struct Headline {
  size_t first = 0, last = 0;
  Ratio speedup;                           // of the last
  std::optional<size_t> fastest, planned;  // fastest: a study leads with it, where there is one

  static void fields(auto&& field) {
    field("first", &Headline::first);
    field("last", &Headline::last);
    field("speedup", &Headline::speedup);
    field("fastest", &Headline::fastest, None::absent);
    field("planned", &Headline::planned, None::absent);
  }
};

struct StudyPlan {
  int64_t repeats = 1, warmup_steps = 0, timed_steps = 1;
  double least_window_s = 0;  // as in the plan
  uint64_t order_seed = 0;
  size_t runs_planned = 0;
  int64_t runs_ok = 0;
  bool cold_cache = false;                    // --cold-cache; an older study does not say
  std::optional<RepeatedText> repeated = {};  // likewise

  static void fields(auto&& field) {
    field("repeats", &StudyPlan::repeats);
    field("warmup_steps", &StudyPlan::warmup_steps);
    field("timed_steps", &StudyPlan::timed_steps);
    field("least_window_s", &StudyPlan::least_window_s, None::default_absent);
    field("order_seed", &StudyPlan::order_seed);
    field("runs_planned", &StudyPlan::runs_planned);
    field("runs_ok", &StudyPlan::runs_ok);
    field("cold_cache", &StudyPlan::cold_cache, None::default_absent);
    field("repeated", &StudyPlan::repeated, None::absent);
  }
};

// How its numbers were computed, in words.
struct Statistics {
  std::string center, interval;
  double confidence = harness::confidence;
  std::optional<std::string> attribution;  // where that is not computed as the rest is

  static void fields(auto&& field) {
    field("center", &Statistics::center);
    field("interval", &Statistics::interval);
    field("confidence", &Statistics::confidence);
    field("attribution", &Statistics::attribution, None::absent);
  }
};

struct Study {
  static constexpr auto kind = "study";

  std::string id, created;
  std::optional<std::string> finished;
  std::optional<bool> quick;
  Mode mode = Mode::cumulative;
  std::optional<Swept> swept;  // of a sweep
  NamedLadder ladder;
  Workload workload;
  StudyPlan plan;
  NamedDevice device;
  Statistics statistics;
  std::optional<Headline> headline;
  std::vector<StudyRung> rungs;
  std::optional<std::vector<Worth>> attribution;  // absent in older studies
  std::vector<StudyRun> runs;
  std::vector<std::string> warnings;
  Environment environment;
  std::optional<std::map<std::string, std::string>> hashes;  // study/seal.h; absent until it is sealed
  std::optional<std::string> sha256;

  // Checks what a schema cannot: throws std::invalid_argument if it refers to rungs that it does not have, or
  // contradicts itself otherwise; `where` begins the message.
  void check(const std::string& where) const;

  static void fields(auto&& field) {
    field("id", &Study::id);
    field("created", &Study::created);
    field("finished", &Study::finished);
    field("quick", &Study::quick, None::absent);
    field("mode", &Study::mode);
    field("swept", &Study::swept, None::absent);
    field("ladder", &Study::ladder);
    field("workload", &Study::workload);
    field("plan", &Study::plan);
    field("device", &Study::device);
    field("statistics", &Study::statistics);
    field("headline", &Study::headline);
    field("rungs", &Study::rungs);
    field("attribution", &Study::attribution, None::absent);
    field("runs", &Study::runs);
    field("warnings", &Study::warnings);
    field("environment", &Study::environment);
    field("hashes", &Study::hashes, None::absent);
    field("sha256", &Study::sha256, None::absent);
  }
};

// What to do about disturbed runs with these flags, before they are made anew: "stop the other work".
std::string remedy_for(const std::vector<std::string>& flags);

// What disturbed more than half of a study's runs, so that nothing follows from it.
struct Disturbance {
  std::string what;    // "other work ran during 32 of 32 runs"
  std::string remedy;  // as of remedy_for
};
std::optional<Disturbance> disturbance_of_most(const Study& study);

// Whether it has rungs that tell what their batches cost.
bool is_about_batches(const Study& study);

// Of a rung of a sweep: the size that it varies.
int64_t swept_size(Swept swept, const StudyRung& rung);

// Compiled once, in the source beside this.
extern template files::Json json_of(const Study&);
extern template Study value_from(const files::Json&, const std::string&);
extern template files::Json json_of(const StudyRung&);
extern template StudyRung value_from(const files::Json&, const std::string&);

}  // namespace ablations
