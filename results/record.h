// A record: one process, one recipe, every step's time and loss, and what proves that the recipe was on. Its fields are
// explained in results/schemas/record.v1.json.
#pragma once

#include "harness/machine/peaks.h"
#include "results/common.h"
#include "results/environment.h"
#include "results/fields.h"
#include "results/observations.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace results {

// `missing`: the run was planned and not made. No record has this.
enum class RunStatus { ok, failed, missing };
template <>
struct Names<RunStatus> {
  static constexpr std::array list{"ok", "failed", "missing"};
};

// `invalid_record`: its process ended well but left no record that counts.
enum class FailureKind { signal, timeout, exit, invalid_record, spawn, out_of_memory };
template <>
struct Names<FailureKind> {
  static constexpr std::array list{"signal", "timeout", "exit", "invalid_record", "spawn", "out_of_memory"};
};

struct Failure {
  FailureKind kind = FailureKind::exit;
  std::string message;

  LADDER_FIELDS(Failure, kind, message)
};

// When a run began, by a clock that nobody sets.
struct BootTime {
  std::string boot;    // which start of the machine
  double seconds = 0;  // since then

  LADDER_FIELDS(BootTime, boot, (seconds, {.least = 0, .most = 1e12}))
};

// Says which plan a record belongs to (identity_of in plan/shard.h).
struct PlanIdentity {
  std::string id, sha256;

  bool operator==(const PlanIdentity&) const = default;

  LADDER_FIELDS(PlanIdentity, (id, {.most = 100}), (sha256, {.pattern = sha256_pattern}))
};

// How often PyTorch's allocator went to the device. That takes the host long. To free memory it waits for the device.
// Steps that have settled live on what the allocator holds, so one allocation shows that these had not.
struct AllocatorCalls {
  int64_t allocations = 0, frees = 0;
  int64_t retries = 0;  // allocations that failed until it had freed all that it held in reserve

  LADDER_FIELDS(AllocatorCalls, (allocations, from_0), (frees, from_0), (retries, from_0))
};

// The time and loss of each step. Those of the warm-up come first.
struct RunTiming {
  int64_t warmup_steps = 0;
  std::vector<double> step_ms;
  std::vector<std::optional<double>> loss;  // none: not finite
  std::vector<int64_t> page_faults;
  std::optional<std::vector<double>> data_ms;  // the host's time for the step's batch
  int64_t skipped_steps = 0;                   // by the gradient scaler
  double window_ms = 0;                        // of the timed steps, by the host's clock
  std::optional<double> device_ms;             // the same by the device's; a CPU has none
  std::optional<double> processor_lost;     // share of the window that the threads waited for a core; none: not known
  std::optional<AllocatorCalls> allocator;  // none: of a CPU

  LADDER_FIELDS(RunTiming, (warmup_steps, from_0), (step_ms, {.least = 1e-6, .most = 1e12, .items = 1}),
                (loss, {.least = -1e100, .most = 1e100}), (page_faults, from_0),
                (data_ms, {.none = None::absent, .above = 0, .most = 1e12}), (skipped_steps, from_0), window_ms,
                device_ms, (processor_lost, {.least = 0, .most = 1}), allocator)
};

// Statistics of the timed steps.
struct RunSummary {
  double median_ms = 0, q1_ms = 0, q3_ms = 0, min_ms = 0, max_ms = 0;
  int64_t n = 0;
  double tokens_per_s = 0;

  LADDER_FIELDS(RunSummary, median_ms, q1_ms, q3_ms, min_ms, max_ms, (n, from_1), tokens_per_s)
};

// What the run's data cost beside time. "read": by the process's calls, of any file. None: the kernel does not say.
struct DataUse {
  std::string file;                                    // the name of the one that batches come from; empty: of none
  int64_t file_bytes = 0;                              // its size
  std::optional<int64_t> bytes_read, reads;            // in the timed window
  std::optional<int64_t> storage_bytes;                // of a disk, likewise
  int64_t major_faults = 0;                            // pages that came from a disk, likewise
  std::optional<int64_t> resident_bytes;               // of memory that holds data; what is mapped counts, too
  std::optional<int64_t> cached_before, cached_after;  // bytes of the file in the page cache around all steps
  bool cold = false;                                   // the file was taken out of it first, as far as that went

  LADDER_FIELDS(DataUse, file, (file_bytes, from_0), bytes_read, reads, storage_bytes, (major_faults, from_0),
                resident_bytes, (cached_before, from_0), (cached_after, from_0), (cold, absent))
};

// What ranks lose because they wait for each other and share a machine. Their times are rank 0's.
struct Scaling {
  int64_t bytes_per_step =
      0;                  // that each rank gives to be reduced; in a ring of N it sends 2 (N - 1) / N times as much
  double alone_ms = 0;    // median step of rank 0 alone, which reduces nothing, while the others wait
  double efficiency = 0;  // alone_ms over the median step of all: 1 were N times the tokens/s of one rank

  LADDER_FIELDS(Scaling, (bytes_per_step, from_0), (alone_ms, from_0), (efficiency, from_0))
};

// A step's parts, as far as they were counted.
struct RunMemory : PeakMemory {
  std::optional<int64_t> weights_bytes, gradients_bytes, optimizer_bytes, weight_copies_bytes, activations_bytes;

  LADDER_MORE_FIELDS(PeakMemory, RunMemory, (weights_bytes, {.none = None::absent, .least = 0}),
                     (gradients_bytes, {.none = None::absent, .least = 0}),
                     (optimizer_bytes, {.none = None::absent, .least = 0}),
                     (weight_copies_bytes, {.none = None::absent, .least = 0}), (activations_bytes, absent))
};

// A run that was made again: its losses against the record's.
struct Reproduction {
  bool identical = false;                   // every step's loss, to the bit
  std::optional<double> largest_deviation;  // nats per token; none where only one of two losses is finite
  std::optional<double> largest_ulps = {};  // units in the last place of a float32; none where they are identical
  size_t steps = 0;
  // Why losses may differ though nothing is wrong. It is another processor or GPU, a CPU's several threads, or a recipe
  // that is not deterministic on a GPU. Empty: they must be identical.
  std::vector<std::string> excuses;

  LADDER_FIELDS(Reproduction, identical, largest_deviation, (largest_ulps, absent), (steps, from_1), excuses)
};

// Of a program of several processes that train together. A step ends with the line of its last rank.
struct CommandRanks {
  int64_t count = 1;               // whose lines were read
  int64_t unseen = 0;              // that the program has beside those
  int64_t nodes = 1;               // machines that they run on; only this one is watched
  std::optional<int64_t> slowest;  // none: they are even, as ranks are that wait for each other
  double behind = 0;               // the slowest, by this share of a step
  bool takes_longer = false;       // its time from step to step is longer; false: its lines come later

  LADDER_FIELDS(CommandRanks, (count, from_1), (unseen, {.none = None::absent, .least = 0}),
                (nodes, {.none = None::absent, .least = 1}), (slowest, absent),
                (behind, {.none = None::absent, .least = 0, .most = 1e6}), (takes_longer, absent))
};

// Steps that a command made after its timed ones, which a few runs go on for.
struct LaterSteps {
  int64_t steps = 0;
  std::optional<double> ms;      // median of a step, of the second half of them; none: fewer than 8 lines
  std::optional<double> cpu_ms;  // processor time of a step, or of all that was waited if none came; none: not known
  std::optional<double> processor_lost;  // share of their time that other work took; none: not known

  LADDER_FIELDS(LaterSteps, (steps, from_0), (ms, {.none = None::absent, .least = 0, .most = 1e12}),
                (cpu_ms, {.none = None::absent, .least = 0, .most = 1e12}),
                (processor_lost, {.none = None::absent, .least = 0, .most = 1}))
};

// How often somebody looked at a command's timed steps, and how often it stood still then because it had asked to
// sleep.
struct SleepLooks {
  int64_t looks = 0, asleep = 0;

  LADDER_FIELDS(SleepLooks, (looks, from_1), (asleep, from_0))
};

// What was read of a command's lines. Entry i is about the line that ended interval i of its timing.
struct CommandRun {
  std::string text;             // for sh, as in the plan
  std::vector<int64_t> steps;   // as the program counts them; one more than intervals: the first line's comes first
  std::vector<double> seconds;  // since its start, when the line was read; likewise
  double first_step_s = 0;      // from its start to its first line
  std::string shape;            // of the lines: "iter STEP: loss LOSS"
  std::string unit = "step";    // what they count
  bool has_all = false;         // lines come in bursts or by a clock: times are with all that is done between steps
  bool by_loss = false;         // each line has a loss, so the device had computed it
  std::vector<int64_t> unprinted = {};  // entries of the timing's losses that no line had, while others had
  bool ended_by_us = true;              // it had made its steps, and would have made more
  std::optional<double> own_ms;         // median of what the program itself says of a step
  std::optional<double> wait_ms =
      {};  // mean of a timed step: for which the host waited for input; none: nobody timed it
  std::optional<int64_t> tokens_per_step;
  std::optional<CommandRanks> ranks = {};            // none: it is one process, as far as its lines say
  bool terminal = false;                             // it printed to a terminal
  std::map<std::string, std::string> stated;         // what it says of itself by a client, unchecked
  std::map<std::string, std::string> versions = {};  // of what it loads: {"torch": "2.11.0"}
  std::optional<std::string> commit;                 // of the program's repository
  std::map<std::string, double> numbers = {};        // that its study compares, by a metric's name
  std::optional<double> cpu_ms = {};                 // processor time of a timed step, of all its processes
  std::optional<LaterSteps> later = {};
  std::optional<SleepLooks> sleep = {};  // none: nobody looked, or a GPU may have worked meanwhile
  std::optional<int64_t> seed = {};      // that stood in place of {seed}
  std::vector<Found> found = {};

  LADDER_FIELDS(CommandRun, text, (commit, absent), (terminal, absent),
                (stated, {.none = None::absent, .most_items = 50}),
                (versions, {.none = None::absent, .most_items = 50}), steps, (seconds, from_0), (first_step_s, from_0),
                shape, (unit, absent), (has_all, absent), by_loss, (unprinted, absent), ended_by_us, (own_ms, absent),
                (wait_ms, {.none = None::absent, .least = 0, .most = 1e12}),
                (tokens_per_step, {.none = None::absent, .least = 1}), (ranks, absent),
                (numbers, {.none = None::absent, .above = 0, .most_items = 50}),
                (cpu_ms, {.none = None::absent, .least = 0, .most = 1e12}), (later, absent), (sleep, absent),
                (seed, absent), (found, {.none = None::absent, .most_items = 20}))
};

// What every record says, also of a failed run.
struct RunEnd {
  static constexpr auto kind = "record";
  static constexpr auto about =
      "One process, one recipe, every step's time and loss, and what proves the recipe was on";

  std::string id, started;  // UTC, ISO 8601
  double duration_s = 0;
  RunStatus status = RunStatus::ok;
  std::optional<Failure> failure;      // of a run that failed
  std::optional<BootTime> since_boot;  // absent where no study made the run, as the plan is
  std::optional<PlanIdentity> plan;

  [[nodiscard]] bool is_ok() const { return status == RunStatus::ok; }
  [[nodiscard]] bool is_short() const { return !is_ok(); }

  // Throws std::invalid_argument for a run that was not made, and for a failed one without a failure.
  void check(const std::string& where) const;

  LADDER_FIELDS(RunEnd, (id, {.most = 120}), started, (duration_s, {.least = 0, .most = 1e12}), status,
                (failure, absent), (since_boot, absent), (plan, absent))
};

// The record of a run. If it failed, only the RunEnd has a meaning and is written.
struct Record : RunEnd {
  using Short = RunEnd;

  files::Json recipe;
  std::vector<std::string> optimizations;
  std::string title = {};                     // what the last of them is called after its proof; empty: nobody looked
  std::optional<ExpectedLosses> losses = {};  // none: of a command, of a peer, or not known
  Workload workload;
  RunTiming timing;
  RunSummary summary;
  RunMemory memory;
  std::optional<Work> least_work;  // none: a peer's, or not counted
  std::optional<DataUse> data;     // likewise
  std::optional<Scaling> scaling;  // of data parallel ranks only
  files::Json observations;        // Observations; a peer's are of its own form
  std::vector<Proof> proofs;
  Environment environment;
  std::optional<std::vector<std::string>> flags;  // what disturbed it; none: nobody looked
  std::optional<MonitorSummary> monitor;
  std::optional<Reproduction> reproduction;
  std::optional<CommandRun> command;  // of a program that was measured from outside, which has no recipe

  // Whether PyTorch made the run, not this program.
  [[nodiscard]] bool is_of_peer() const;
  [[nodiscard]] std::optional<double> compile_seconds() const;  // of a peer that compiles its model
  [[nodiscard]] bool is_on_gpu() const;
  // Something on the machine disturbed a run that ended well.
  [[nodiscard]] bool is_disturbed() const { return is_ok() && flags && !flags->empty(); }

  LADDER_MORE_FIELDS(RunEnd, Record, recipe, optimizations, (title, absent), (losses, absent), (workload, absent),
                     timing, summary, memory, (least_work, absent), (data, absent), (scaling, absent), observations,
                     proofs, environment, (flags, absent), (monitor, absent), (reproduction, absent), (command, absent))
};

LADDER_COMPILED_ONCE(Record)

// The summary of timed steps, in ms. Throws std::invalid_argument if there are none.
RunSummary summary_of(std::span<const double> timed_ms, int64_t tokens_per_step);

// A record for a run that left none. It began at `started` (UTC, ISO 8601) and took `seconds`.
Record failed_record(const std::string& id, FailureKind kind, const std::string& message, const std::string& started,
                     double seconds);

// Model FLOPs utilization of a study's rung (results/schemas/study.v1.json). profile/rates.h explains it.

template <>
struct Names<harness::NumberType> {
  using Type = harness::NumberType;
  static inline const std::array list{harness::name_of(Type::fp32), harness::name_of(Type::tf32),
                                      harness::name_of(Type::bf16), harness::name_of(Type::fp16)};
};

struct Mfu {
  std::optional<double> value;  // 0.47: 47 %
  std::string formula;
  harness::NumberType type = harness::NumberType::fp32;  // that matrix products are made in, and so whose peak it is
  std::optional<double> peak_flops;                      // per second
  std::optional<std::string> peak_source;
  std::string reason;  // why there is no value; empty where there is one

  LADDER_FIELDS(Mfu, value, formula, type, peak_flops, peak_source, reason)
};

LADDER_COMPILED_ONCE(Mfu)

}  // namespace results
