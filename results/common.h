// Parts that documents of several kinds have.
#pragma once

#include "harness/stats/stats.h"
#include "results/fields.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace results {

// Where a step is executed.
enum class DeviceKind { cpu, cuda };
template <>
struct Names<DeviceKind> {
  static constexpr std::array list{"cpu", "cuda"};
};

// A recipe is a JSON object here, whose fields only what trains can read (model/recipe.h). A field that is not there
// has its plain value, because older programs lack newer fields.

// All fields with their plain values.
const files::Json& plain_recipe();
// {"field": [before, after]} for the fields that differ. Both are objects.
files::Json recipe_diff(const files::Json& before, const files::Json& after);
DeviceKind device_of(const files::Json& recipe);

constexpr auto name_pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$", sha256_pattern = "^[0-9a-f]{64}$";

// The ways to make a study of a ladder (gpt2/modes.h).
enum class Mode { cumulative, leave_one_out, one_at_a_time, factorial, sweep };
template <>
struct Names<Mode> {
  static constexpr std::array list{"cumulative", "leave-one-out", "one-at-a-time", "factorial", "sweep"};
};

// What a sweep varies.
enum class Swept { batch, context, accumulation };
template <>
struct Names<Swept> {
  static constexpr std::array list{"batch", "context", "accumulation"};
};

// The size of one step.
struct Shape {
  int64_t B = 1, T = 1, accumulation = 1;
  int64_t positions = 0;  // of the model; 0: as many as it has
  bool operator==(const Shape&) const = default;

  LADDER_FIELDS(Shape, (B, {.name = "batch", .least = 1, .most = 65536}),
                (T, {.name = "context", .least = 1, .most = 1048576}), (accumulation, {.least = 1, .most = 65536}),
                (positions, {.none = None::absent, .least = 1, .most = 1048576}))
};

// The number of a run that is compared, where it is not the time of a step.
struct Metric {
  enum class Better { lower, higher };

  std::string name;               // "val_loss", "seconds", "seconds to loss 3.28"
  std::string pattern;            // of the lines that have it (harness/lines/); empty: it is a time
  std::optional<double> to_loss;  // of a time: until a loss is printed that is not above it; none: the whole
  Better better = Better::lower;
  std::optional<double> until_s;  // the command is ended then; none: it runs to its end

  // What is compared: less is better.
  [[nodiscard]] double cost(double value) const { return better == Better::higher ? 1 / value : value; }
  // Whether other work changes it.
  [[nodiscard]] bool depends_on_time() const { return pattern.empty() || until_s; }
  // Else the losses are what is compared, or how far they have come.
  [[nodiscard]] bool is_whole_time() const { return pattern.empty() && !to_loss; }

  LADDER_FIELDS(Metric, (name, {.least = 1, .most = 60}), (pattern, absent), (to_loss, absent), better,
                (until_s, {.none = None::absent, .above = 0}))
};
template <>
struct Names<Metric::Better> {
  static constexpr std::array list{"lower", "higher"};
};

// The command line that begins a study, as it was typed.
struct TypedLine {
  std::vector<std::string> flags, arguments;  // "--batch", "4"; commands

  LADDER_FIELDS(TypedLine, (flags, absent), (arguments, absent))
};

// A text of whole copies of another (--repeat-to).
struct RepeatedText {
  std::string source;  // the other's file, without its folder
  int64_t bytes = 0;   // that were asked for

  LADDER_FIELDS(RepeatedText, source, (bytes, from_1))
};

// "ladder" of plans and studies.
struct NamedLadder {
  std::string name, title;
  std::optional<std::string> file;  // its name, of one that does not come with the program

  LADDER_FIELDS(NamedLadder, (name, {.most = 64, .pattern = name_pattern}), title,
                (file, {.none = None::absent, .most = 255}))
};

// Whether a run did what a field of its recipe says.
struct Proof {
  std::string field;
  bool passed = false;
  std::string expected;  // in words
  std::string observed;

  LADDER_FIELDS(Proof, field, passed, expected, observed)
};

// An interval's ends; none with a single run.
struct Bounds {
  std::optional<double> lo, hi;

  LADDER_FIELDS(Bounds, lo, hi)
};

inline Bounds bounds(const harness::Estimate& estimate) {
  if (!estimate.interval) return {};
  return {estimate.interval->lo, estimate.interval->hi};
}

// The file of a rung's text. A plan may come from a stranger: it names no other files.
constexpr auto text_pattern = "^ablations/techniques/[a-z0-9_]+/[a-z0-9_]+\\.md$";

// The least that a step, or an operation, takes, counted from shapes (ablations/techniques/step_table.h).
struct Work {
  double flops = 0, bytes = 0;

  LADDER_FIELDS(Work, (flops, {.least = 0, .most = 1e30}), (bytes, {.least = 0, .most = 1e30}))
};

// By operations, and the name of the rate that limits matrix products: "bf16" (ablations/profile/rates.h).
struct ExpectedWork {
  std::string rate;
  std::vector<Work> operations;

  LADDER_FIELDS(ExpectedWork, rate, (operations, {.most_items = 1000}))
};

// By how much correct losses may differ from another program's, in nats. Two runs are compared with the wider of their
// tolerances.
struct ExpectedLosses {
  double tolerance = 0;
  double offset = 0;  // a correct first loss is so much higher: ln(columns of its softmax / words)

  LADDER_FIELDS(ExpectedLosses, (tolerance, from_0), offset)
};

// "device": where something was measured.
struct NamedDevice {
  DeviceKind kind = DeviceKind::cpu;
  std::string name;  // "NVIDIA H200", "AMD EPYC"

  bool operator==(const NamedDevice&) const = default;

  LADDER_FIELDS(NamedDevice, kind, name)
};

// "memory" of a trace, and a part of a record's.
struct PeakMemory {
  int64_t peak_bytes = 0;                      // of the timed steps; where run_peak_bytes is not known, of the run
  std::string peak_source;                     // "resident set of the process"
  std::optional<int64_t> reserved_peak_bytes;  // of CUDA's caching allocator; a CPU has none
  std::optional<int64_t> run_peak_bytes = {};  // of the whole run: loading and warm-up, too

  LADDER_FIELDS(PeakMemory, (peak_bytes, from_0), peak_source,
                (reserved_peak_bytes, {.none = None::absent, .least = 0}),
                (run_peak_bytes, {.none = None::absent, .least = 0}))
};

// What is said of a study, a gate, a training and so on: one headline, and remarks. It is made once, in
// ablations/report; the terminal, pages and Markdown print the same.

enum class Severity { info, good, warn, bad };
template <>
struct Names<Severity> {
  static constexpr std::array list{"info", "good", "warn", "bad"};
};

// A fact that makes a run's or a command's number untrue (study/tricks.h).
struct Found {
  std::string kind;  // the same for all of its kind: "clock"
  std::string text;  // with its figures; in a record without the command's name

  bool operator==(const Found&) const = default;

  LADDER_FIELDS(Found, (kind, {.pattern = name_pattern}), text)
};

struct Remark {
  Severity severity = Severity::info;
  std::string code;  // the same for all remarks of its kind: "disturbed"
  std::string text;  // sentences, with `code`
  std::string fix;   // what to do about it; may be empty

  bool operator==(const Remark&) const = default;

  LADDER_FIELDS(Remark, severity, code, text, fix)
};

struct Said {
  std::string title;               // what, where and when: "GPT-2 124M on NVIDIA H200 · B=16 T=1024 · 2026-11-26"
  std::string headline;            // "12.3× faster than float32 on the same GPU"
  std::vector<std::string> lines;  // the figures behind it, with `code`
  std::vector<Remark> remarks;     // the worst first
  std::string command;             // that makes it again; may be empty

  LADDER_FIELDS(Said, title, headline, lines, remarks, command)
};

struct RungSaid {
  std::string reason;  // why it has no number; empty: it has one
  std::string guard;   // empty: its losses were not compared

  LADDER_FIELDS(RungSaid, reason, guard)
};

struct StudySaid : Said {
  std::vector<RungSaid> rungs;     // one for each of the study's
  std::vector<std::string> alone;  // commands that run and trace its last rung by itself

  LADDER_MORE_FIELDS(Said, StudySaid, rungs, (alone, absent))
};

// What a run works on: "workload" of records, studies, traces and counters.

struct Workload {
  struct Data {
    std::string source;  // the file's name, not its place
    std::string sha256;  // of the tokens; empty before the first run
    int64_t tokens = 0;

    LADDER_FIELDS(Data, source, sha256, (tokens, from_0))
  };

  std::string model;
  int64_t parameters = 0;
  int64_t B = 1, T = 1, accumulation = 1;  // B: of each rank
  std::optional<int64_t> ranks;            // that share a step; none: one process
  int64_t positions = 1;                   // of the model
  int64_t tokens_per_step = 0;             // of all ranks, as flops_per_step
  double flops_per_step = 0;
  uint64_t seed = 1;
  bool random_windows = false;  // each sequence begins anywhere (--random-windows)
  Data data;

  LADDER_FIELDS(Workload, model, (parameters, from_0), (B, {.name = "batch", .least = 1}),
                (T, {.name = "context", .least = 1}), (accumulation, from_1), (positions, from_1),
                (ranks, {.none = None::absent, .least = 1, .most = 65536}), (tokens_per_step, from_1),
                (flops_per_step, {.least = 0, .most = 1e30}), seed, (random_windows, absent), data)
};

LADDER_COMPILED_ONCE(Workload)

}  // namespace results
