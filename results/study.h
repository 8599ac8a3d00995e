// A study: the plan, its outcome and every derived number. Its fields are explained in results/schemas/study.v1.json.
// It is made from records by study/analysis.h. Everything that is shown of a study is made from it.
#pragma once

#include "harness/stats/stats.h"
#include "results/common.h"
#include "results/ledger.h"
#include "results/record.h"
#include "results/trace.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace results {

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

  LADDER_MORE_FIELDS(Bounds, Median, median)
};

// The median is over runs' median steps, in ms. The rest is over all their timed steps.
struct RungTimes : Median {
  double q1 = 0, q3 = 0, min = 0, max = 0;
  size_t n = 0;

  LADDER_MORE_FIELDS(Median, RungTimes, q1, q3, min, max, n)
};

// Time before / time after, paired by repeat: above 1 is faster.
struct Ratio : Bounds {
  double ratio = 1;
  int64_t pairs = 0;

  [[nodiscard]] bool is_faster() const { return lo && *lo > 1; }  // and the runs say so
  [[nodiscard]] bool is_slower() const { return hi && *hi < 1; }

  LADDER_MORE_FIELDS(Bounds, Ratio, ratio, pairs)
};

// The same work in another program, whose own figures are at `rung`.
struct PeerRatio : Bounds {
  std::string peer;
  size_t rung = 0;
  std::optional<double> ratio;  // its time / ours
  std::optional<int64_t> pairs;

  LADDER_MORE_FIELDS(Bounds, PeerRatio, peer, rung, ratio, (pairs, absent))
};

// What an optimization is worth: above 1, it makes a step shorter.
struct Worth : Bounds {
  std::string optimization, title;
  Method method = Method::cumulative;
  std::optional<double> ratio;  // none: see reason
  int64_t repeats = 0;
  std::string reason;

  LADDER_MORE_FIELDS(Bounds, Worth, optimization, title, method, ratio, repeats, reason)
};

// A rung's step.
struct StepSize : Shape {
  int64_t tokens_per_step = 0;

  LADDER_FIELDS(StepSize, (B, {.name = "batch"}), (T, {.name = "context"}), accumulation, tokens_per_step)
};

// The verdict of study/guard.h.
struct RungGuard {
  bool passed = false;
  std::optional<double> deviation;  // nats: median over the first 16 steps, with its sign; none: a loss is not finite
  std::optional<double> max_deviation;
  double tolerance = 0, known_offset = 0;
  int64_t steps = 0;
  std::string message;
  size_t guarded_by = 0;
  int64_t repeat = 0;

  LADDER_FIELDS(RungGuard, passed, deviation, max_deviation, tolerance, known_offset, steps, message, guarded_by,
                (repeat, from_0))
};

// What a rung's batches cost. Only a study whose rungs differ in how batches are made has it.
struct RungBatches {
  Median ms;                                           // of a step: the host's time for its batch
  double share = 0;                                    // of the step's time
  std::optional<double> bytes_read, storage_bytes;     // of a step: by calls, and from a disk
  double major_faults = 0;                             // of a step
  std::optional<int64_t> resident_bytes;               // of memory that holds data: the most of all runs
  int64_t file_bytes = 0;                              // of the file that batches come from
  std::optional<int64_t> cached_before, cached_after;  // bytes of it in the page cache around the first run's steps
  bool cold = false;                                   // it was to be taken out of the page cache before each run

  LADDER_FIELDS(RungBatches, ms, share, bytes_read, storage_bytes, major_faults, resident_bytes, file_bytes,
                cached_before, cached_after, (cold, absent))
};

// What a GPU's SM clock was in a rung's runs.
struct RungClock {
  double sm_mhz = 0, highest_mhz = 0;  // median over runs of their medians; the highest sample of all
  double at_power_limit = 0;           // share of the samples, median over runs

  [[nodiscard]] bool is_power_limited() const { return at_power_limit >= 0.5; }

  LADDER_FIELDS(RungClock, sm_mhz, highest_mhz, (at_power_limit, {.least = 0, .most = 1}))
};

// How long the host waits for input in a mean step: of the timed ones, or before a look.
struct InputWait {
  double wait_ms = 0, step_ms = 1;
  bool by_look = false;  // of a few steps, which nobody else timed

  [[nodiscard]] double share() const { return wait_ms / step_ms; }

  LADDER_FIELDS(InputWait, (wait_ms, {.least = 0, .most = 1e12}), (step_ms, {.above = 0, .most = 1e12}),
                (by_look, absent))
};

// Whether a command or a rung and its reference are the same training (study/same_training.h). unknown: nothing could
// be said.
enum class Sameness { same, another, unknown };
template <>
struct Names<Sameness> {
  static constexpr std::array list{"same", "another", "unknown"};
};

struct SameTraining {
  Sameness verdict = Sameness::unknown;
  std::string words;  // "the same training: 148 of 148 gradients agree to 0.003 (bfloat16 allows 0.02)"

  LADDER_FIELDS(SameTraining, verdict, words)
};

// What a command shows beside its steps' times. `seen`: how a look at it and at the command before it differed; none:
// nobody looked.
struct StudyCommand {
  std::string text, typed;
  std::string shape;                       // of the lines that its steps were read from
  std::string unit = "step";               // what they count
  bool has_all = false;                    // a time is with all that is done between steps
  bool by_loss = false;                    // each of them has a loss
  double mean_ms = 0;                      // of a step: beside the median
  double first_step_s = 0;                 // median over runs: from the start to the first step, caches warm
  double cold_first_step_s = 0;            // in the trial
  std::optional<double> own_ms;            // of a step, as the program prints it
  std::optional<int64_t> pays_from_step;   // against the first command; none: never, or at once
  std::optional<InputWait> input = {};     // none: nobody timed it
  std::optional<CommandRanks> ranks = {};  // over runs: the slowest is so in most of them
  std::optional<std::vector<std::string>> seen;
  std::map<std::string, std::string> stated;         // by the program itself, unchecked
  std::map<std::string, std::string> versions = {};  // of what it loads
  std::string losses;                                // what the guard says of them, in words
  std::optional<double> cpu_ms = {};                 // processor time of a timed step, median over runs

  LADDER_FIELDS(StudyCommand, text, typed, shape, (unit, absent), (has_all, absent), by_loss, mean_ms, first_step_s,
                cold_first_step_s, (own_ms, absent), (pays_from_step, absent), (input, absent), (ranks, absent),
                (seen, absent), (stated, {.none = None::absent, .most_items = 50}),
                (versions, {.none = None::absent, .most_items = 50}), losses,
                (cpu_ms, {.none = None::absent, .least = 0, .most = 1e12}))
};

struct StudyRung {
  size_t index = 0;
  std::optional<std::string> optimization;
  std::string title, label, summary;  // label: "+ bf16 autocast"
  std::string text;                   // the file of its text, as in the plan
  std::optional<std::string> peer;    // who did the work; none: this program
  std::optional<size_t> against;
  RungStatus status = RungStatus::measured;
  std::string reason;
  std::optional<bool> out_of_memory;
  files::Json recipe, recipe_diff;
  std::optional<StepSize> workload;
  size_t runs_ok = 0;
  std::optional<RungTimes> ms_per_step;
  std::map<std::string, Median> numbers = {};  // over runs, as their records name them
  std::optional<Median> tokens_per_s;
  std::optional<Ratio> speedup_first, speedup_against;
  std::optional<int64_t> peak_memory_bytes;
  std::optional<RunMemory> memory;  // as in the record of its first run
  std::optional<Work> least_work;   // likewise
  std::optional<RungBatches> batches;
  std::optional<int64_t> skipped_steps;
  std::optional<double> page_faults_per_step, joules_per_token;
  std::optional<RungClock> clock;
  std::optional<Mfu> mfu;                         // none: it has no time
  std::optional<std::vector<std::string>> flags;  // what disturbed its runs
  std::optional<RungGuard> guard;
  std::optional<SameTraining> training = {};  // none: it or its reference has no sketch
  std::vector<Proof> proofs;
  std::optional<std::vector<PeerRatio>> peers;
  std::optional<RungProfile> profile;
  std::optional<StudyCommand> command;              // in place of a recipe
  std::optional<std::string> explanation, changed;  // against the rung below; the names of operations behind it

  [[nodiscard]] bool is_measured() const { return status == RungStatus::measured; }

  LADDER_FIELDS(StudyRung, index, optimization, title, label, summary,
                (text, {.none = None::absent, .pattern = text_pattern}), (peer, absent), (against, absent), status,
                reason, (out_of_memory, absent), recipe, recipe_diff, (workload, absent), runs_ok, ms_per_step,
                (numbers, {.none = None::absent, .most_items = 50}), tokens_per_s, speedup_first,
                (speedup_against, {.name = "speedup_previous"}), peak_memory_bytes, (memory, absent),
                (least_work, absent), (batches, absent), (skipped_steps, absent), page_faults_per_step,
                (joules_per_token, absent), (clock, absent), mfu, (flags, absent), guard, (training, absent), proofs,
                (peers, absent), (profile, absent), (command, absent), (explanation, absent), (changed, absent))
};

struct StudyRun {
  std::string id;
  size_t rung = 0;
  int64_t repeat = 0, position = 0;
  RunStatus status = RunStatus::missing;
  std::string reason;
  std::optional<double> median_ms;
  std::optional<std::string> record;  // path within the study's folder

  LADDER_FIELDS(StudyRun, id, rung, repeat, position, status, reason, median_ms, record)
};

struct Headline {
  size_t first = 0, last = 0;
  Ratio speedup;                           // of the last
  std::optional<size_t> fastest, planned;  // fastest: a study leads with it, where there is one

  LADDER_FIELDS(Headline, first, last, speedup, (fastest, absent), (planned, absent))
};

struct StudyPlan {
  int64_t repeats = 1, warmup_steps = 0, timed_steps = 1;
  double least_window_s = 0;  // as in the plan
  uint64_t order_seed = 0;
  size_t runs_planned = 0;
  int64_t runs_ok = 0;
  bool cold_cache = false;  // --cold-cache
  std::optional<RepeatedText> repeated = {};

  LADDER_FIELDS(StudyPlan, (repeats, from_1), (warmup_steps, from_0), (timed_steps, from_1),
                (least_window_s, {.none = None::absent, .above = 0}), order_seed, runs_planned, runs_ok,
                (cold_cache, absent), (repeated, absent))
};

// How the study's numbers were computed, in words.
struct Statistics {
  std::string center, interval;
  double confidence = harness::confidence;
  std::optional<std::string> attribution;  // where that is not computed as the rest is

  LADDER_FIELDS(Statistics, center, interval, confidence, (attribution, absent))
};

struct Unusable {
  std::string what;    // "other work ran during 32 of 32 runs"
  std::string remedy;  // as of remedy_for
};

struct Study {
  static constexpr auto kind = "study";
  static constexpr auto about = "What was planned, what came of it, and every derived number";

  std::string id, created;
  std::vector<Found> found = {};  // what makes its numbers untrue
  std::optional<std::string> finished;
  std::optional<bool> quick;
  Mode mode = Mode::cumulative;
  std::optional<Swept> swept;  // of a sweep
  NamedLadder ladder;
  Workload workload;
  StudyPlan plan;
  std::optional<TypedLine> typed;
  std::optional<Metric> metric;      // none: the time of a step
  bool from_logs = false;            // its runs were made before, and are no pairs (`ladder read`)
  std::optional<Judgment> judgment;  // of `ladder gate --expect`
  NamedDevice device;
  Statistics statistics;
  std::optional<Headline> headline;
  std::vector<StudyRung> rungs;
  std::vector<Worth> attribution;
  std::vector<StudyRun> runs;
  std::vector<std::string> warnings;
  Environment environment;
  std::optional<std::map<std::string, std::string>> hashes;  // study/archive/seal.h; absent until it is sealed
  std::optional<std::string> sha256;
  std::optional<Unusable> unusable;  // of a study whose claims were taken out (plots/sentences.h); not written

  // Checks what a schema cannot. Throws std::invalid_argument if it refers to rungs that it does not have, or
  // contradicts itself otherwise. `where` begins the message.
  void check(const std::string& where) const;

  LADDER_FIELDS(Study, id, created, (found, absent), finished, (quick, absent), mode, (swept, absent), ladder,
                (workload, absent), plan, (typed, absent), (metric, absent), (from_logs, absent), (judgment, absent),
                device, statistics, headline, rungs, attribution, runs, warnings, environment, (hashes, absent),
                (sha256, absent))
};

// What to do about disturbed runs with these flags, before they are made anew: "stop the other work".
std::string remedy_for(const std::vector<std::string>& flags);

// Why nothing follows from a study: half of its runs or more were disturbed, or what it leads with (else all of its
// ratios) is not usable (harness/stats/verdict.h).
std::optional<Unusable> why_unusable(const Study& study);

// Whether it has rungs that tell what their batches cost.
bool is_about_batches(const Study& study);

// The size that a sweep varies, of this rung.
int64_t swept_size(Swept swept, const StudyRung& rung);

LADDER_COMPILED_ONCE(Study)
LADDER_COMPILED_ONCE(StudyRung)

}  // namespace results
