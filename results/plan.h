// A plan: which recipes, which runs, in which order. Its fields are explained in results/schemas/plan.v1.json. A plan
// is made of a ladder by plan/. It is written before the first run and never changed. A study is resumed by reading it
// again.
#pragma once

#include "harness/lines/step_format.h"
#include "harness/lines/step_pace.h"
#include "harness/stats/verdict.h"
#include "results/common.h"
#include "results/ledger.h"
#include "results/observations.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace results {

constexpr auto peer_pattern = "^pytorch-([0-9][0-9A-Za-z.]*-)?(eager|compile|max-autotune|cuda-graphs|fp8)$";

// The parts of "pytorch-2.15-compile". torch: the short_version of the PyTorch that the user named; empty: that of the
// program's own Python.
struct PeerName {
  std::string torch, mode;
};
PeerName peer_name(const std::string& peer);

// "2.15" for PyTorch's "2.15.0+cu130"; another patch stays: "2.15.1".
std::string short_version(const std::string& torch);

// "PyTorch 2.15 compile" for "PyTorch compile"; without a version, or for another title, the title.
std::string with_version(const std::string& title, const std::string& torch);

// harness::Column and harness::StepFormat in JSON.
struct LineColumn : harness::Column {
  LADDER_FIELDS(LineColumn, key, (of_total, absent), (marks, absent), (nth, {.none = None::absent, .least = 0}))
};
struct LineFormat {
  std::optional<LineColumn> step, loss, rank;
  bool loss_is_apart = false, is_of_epoch = false;
  std::string unit = "step";
  double of_rank = 0;
  int64_t per_line = 1, copies = 1;

  LADDER_FIELDS(LineFormat, step, loss, (rank, absent), (loss_is_apart, absent), (is_of_epoch, absent), unit,
                (of_rank, absent), (per_line, {.none = None::absent, .least = 1}),
                (copies, {.none = None::absent, .least = 1}))
};
LineFormat line_format(const harness::StepFormat& format);
harness::StepFormat step_format(const LineFormat& format);

// One try of a command before its runs: what the study's plan was made of.
struct Trial {
  double first_step_s = 0, step_s = 0;  // from its start to its first step, with cold caches; of a step after warm-up
  double lasted_s = 0;                  // with all that it did between steps, such as an evaluation; 0: not known
  int64_t every = 1;                    // steps from line to line
  std::string shape;                    // of its lines: "iter STEP: loss LOSS"
  std::optional<LineFormat> format;     // which number is what; none: a regular expression or the client says
  bool has_losses = false;
  bool terminal = false;  // it got a terminal, because it holds back what it prints into a pipe
  std::map<std::string, std::string> versions = {};  // of what it loads: {"torch": "2.11.0"}
  std::string commit = {};                           // of the repository that it runs in
  double burst_s = 0;              // lines no further apart are of one burst, and share its time; 0: of one read
  double block_s = 0;              // bursts are joined until they are so far apart
  std::vector<std::string> gpus;   // names of the GPUs that it used
  std::vector<std::string> wrote;  // files in its directory that it wrote, of each run the same
  std::optional<double> cpu_ms;    // processor time of a timed step; none: not known

  [[nodiscard]] harness::Pace pace() const { return {.burst_s = burst_s, .block_s = block_s}; }
  [[nodiscard]] std::string unit() const { return format ? format->unit : "step"; }

  LADDER_FIELDS(Trial, (first_step_s, from_0), (step_s, from_0), (lasted_s, {.none = None::absent, .above = 0}),
                (every, from_1), shape, (format, absent), has_losses, (terminal, absent),
                (versions, {.none = None::absent, .most_items = 50}), (commit, absent),
                (burst_s, {.none = None::absent, .above = 0}), (block_s, {.none = None::absent, .above = 0}), gpus,
                (wrote, {.most_items = 20}), (cpu_ms, {.none = None::absent, .least = 0, .most = 1e12}))
};

// A training program that is measured from outside (`ladder measure`).
struct TypedCommand {
  std::string text;       // for sh
  std::string typed;      // as it stood on the command line, without a title: "+ --compile"
  std::string directory;  // where it runs; empty: where the study was begun
  Trial trial;
  std::vector<std::string> variables = {};  // "NAME=value" of this side of a gate; not written

  LADDER_FIELDS(TypedCommand, text, typed, (directory, absent), trial)
};

// One recipe that a study measures. In a cumulative ladder it is the rung below and one edit more. In other modes a
// rung may also have another size or another program, as the fields say.
struct Rung {
  enum class Status { planned, not_applicable, not_measured };
  std::string optimization;  // the one it is about; empty: the start, or a set that has no name of its own
  std::string title;
  std::vector<std::string> applied;  // optimizations on at this rung, in order
  files::Json recipe = {};           // null: the rung is a command
  Status status = Status::planned;
  std::string reason;  // why it is not planned

  std::string name = {};               // in its runs' ids; empty: the optimization's, or "start"
  std::optional<Shape> shape = {};     // where it is not the plan's
  std::string peer = {};               // who runs it: empty: a ladder program; "pytorch-eager" (PeerName)
  std::string program = {};            // which one; empty: this
  std::string program_sha256 = {};     // of that file; empty: not known
  std::optional<size_t> against = {};  // the rung that it is compared with, besides the reference; none: the one below
  std::optional<size_t> reference = {};       // the rung whose losses guard it and speedup_first counts from
  std::optional<TypedCommand> command = {};   // in place of a recipe
  std::string summary = {};                   // two sentences for a newcomer
  std::string text = {};                      // the file of its text, below files::resource_root(); empty: it has none
  std::optional<ExpectedLosses> losses = {};  // of a recipe; those of commands are guarded by their own noise
  std::optional<ExpectedWork> work = {};      // of a step of a ladder's rung

  LADDER_FIELDS(Rung, (optimization, {.none = None::null_if_default, .most = 100, .pattern = name_pattern}), title,
                (applied, {.most_items = 200}), (recipe, absent), status, reason,
                (name, {.none = None::absent, .most = 100, .pattern = name_pattern}),
                (shape, {.name = "workload", .none = None::absent}),
                (peer, {.none = None::absent, .pattern = peer_pattern}), (program, absent),
                (program_sha256, {.none = None::absent, .pattern = sha256_pattern}), (against, absent),
                (reference, absent), (command, absent), (summary, absent),
                (text, {.none = None::absent, .pattern = text_pattern}), (losses, absent), (work, absent))
};

template <>
struct Names<Rung::Status> {
  static constexpr std::array list{"planned", "not_applicable", "not_measured"};
};

struct PlannedRun {
  std::string id;  // "r2-03-bf16": repeat 2, rung 3 (run_of in plan/make_plan.h)
  size_t rung = 0;
  int64_t repeat = 0;

  LADDER_FIELDS(PlannedRun, (id, {.most = 120, .pattern = name_pattern}), rung, (repeat, from_0))
};

// What every run does, except for its rung's recipe.
struct PlannedWorkload : Shape {
  std::string model;
  uint64_t seed = 1;
  int64_t threads = 1;
  std::string data, vocabulary;  // files
  std::string tokens = {};       // the token file made of them, which the runs read; empty: they read the data
  bool cold_cache = false;       // each run begins without its data in the page cache
  std::optional<RepeatedText> repeated = {};  // what the data were made of
  bool random_windows = false;                // as in Workload

  LADDER_MORE_FIELDS(Shape, PlannedWorkload, model, seed, (threads, {.least = 1, .most = 4096}), data, vocabulary,
                     (tokens, absent), (cold_cache, absent), (repeated, absent), (random_windows, absent))
};

// What a gate declares before its first run.
struct GateTerms {
  double min_effect = harness::usual_min_effect;
  int64_t top_up = 0;     // of the plan's repeats, so many come only if the others leave it open
  std::string baselines;  // the folder with baselines and noise floors
  bool calibrates = false, saves = false, force = false;

  LADDER_FIELDS(GateTerms, (min_effect, from_0), (top_up, from_0), baselines, calibrates, saves, force)
};

// How commands are run and read.
struct CommandTerms {
  bool as_is = false;           // without variables of ours
  bool hook = false;            // steps are those of PyTorch's optimizer (client/look), not of lines
  std::string steps_from;       // a regular expression in place of the known lines
  int64_t tokens_per_step = 0;  // of every command; 0: as its lines say, or not known
  bool guards_losses = true;
  std::optional<Metric> metric = {};         // none: the time of a step
  bool from_logs = false;                    // of runs that nobody watched (`ladder read`): they are no pairs
  std::optional<Expectation> expects = {};   // of `ladder gate --expect`: base and head
  std::map<std::string, std::string> files;  // the commands' own, and "." for where they run, each with a SHA-256

  LADDER_FIELDS(CommandTerms, (files, {.none = None::absent, .pattern = sha256_pattern}), (as_is, absent),
                (hook, absent), (metric, absent), (from_logs, absent), (expects, absent), (steps_from, absent),
                (tokens_per_step, {.none = None::absent, .least = 1}), guards_losses)
};

// Marks a plan as a quick look at a ladder, with what the whole ladder goes on from (plan/make_plan.h).
struct Quick {
  int64_t repeats = 0;           // of the whole ladder's plan
  std::vector<size_t> left_out;  // rungs

  LADDER_FIELDS(Quick, (repeats, {.least = 1, .most = 1000}), (left_out, {.most_items = 200}))
};

// A part of a plan (plan/shard.h).
struct Shard {
  int64_t index = 0, count = 0;  // 1 <= index <= count

  LADDER_FIELDS(Shard, (index, from_1), (count, from_1))
};

constexpr size_t most_factors = 6;  // of a factorial: 64 subsets

struct Plan {
  static constexpr auto kind = "plan";
  static constexpr auto about = "The runs of one study, in the order in which they are made";

  std::string id, created;  // created: UTC, ISO 8601; empty where several machines make the same plan
  NamedLadder ladder;
  PlannedWorkload workload;
  int64_t warmup_steps = 0, timed_steps = 1, repeats = 1;
  double least_window_s = 0;  // of the timed steps on a GPU: more of them, if it takes more
  uint64_t order_seed = 0;
  double run_limit_s = 600;
  std::vector<Rung> rungs;
  size_t reference = 0;
  std::vector<PlannedRun> runs;  // in the order in which they are made
  Mode mode = Mode::cumulative;
  std::optional<Swept> swept = {};  // in a sweep
  std::optional<Shard> shard = {};  // the part that is made in this folder; none: all of it
  std::optional<GateTerms> gate = {};
  std::optional<Quick> quick = {};
  std::vector<ProductTiming> product_timings = {};  // that chose the rungs' recipes on a CPU, once for all runs
  std::optional<CommandTerms> commands = {};        // of a study of commands: each rung has one
  std::optional<TypedLine> typed = {};

  // Checks what a schema cannot. Throws std::invalid_argument where it contradicts itself, or lacks what the analysis
  // of its mode needs. `where` begins the message.
  void check(const std::string& where) const;

  LADDER_FIELDS(Plan, (id, {.most = 100, .pattern = name_pattern}), created, ladder, (workload, absent),
                (warmup_steps, {.least = 0, .most = 100000}), (timed_steps, {.least = 1, .most = 100000}),
                (least_window_s, {.none = None::absent, .above = 0, .most = 1000}),
                (repeats, {.least = 1, .most = 1000}), order_seed, (run_limit_s, {.above = 0, .most = 1000000}),
                (rungs, {.items = 1, .most_items = 10000}), reference, runs, mode, (swept, absent), (shard, absent),
                (gate, absent), (quick, absent), (product_timings, {.none = None::absent, .most_items = 1000}),
                (commands, absent), (typed, absent))
};

LADDER_COMPILED_ONCE(Plan)
LADDER_COMPILED_ONCE(Rung)

}  // namespace results
