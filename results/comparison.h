// Two sides' records against each other, recipe by recipe: results/schemas/comparison.v1.json.
#pragma once

#include "harness/stats/verdict.h"
#include "results/common.h"
#include "results/fields.h"
#include "results/record.h"
#include "results/setting.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace results {

template <>
struct Names<harness::Verdict> {
  static constexpr std::array list{"REGRESSION", "IMPROVEMENT", "SAME", "INCONCLUSIVE"};
};

enum class SideName { base, head };

template <>
struct Names<SideName> {
  static constexpr std::array list{"base", "head"};
};

struct ComparedSide {
  std::string source;
  int64_t runs = 0;
  std::vector<std::string> programs;  // git commits
  std::vector<std::string> left_out;  // records that are no numbers, each with the reason

  LADDER_FIELDS(ComparedSide, source, (runs, from_1), programs, left_out)
};

// head / base: above 1 is slower, or more of whatever was measured.
struct ComparedRatio : Bounds {
  double ratio = 1;
  harness::Verdict verdict = harness::Verdict::inconclusive;

  LADDER_MORE_FIELDS(Bounds, ComparedRatio, ratio, verdict)
};

// All but the message are present only if the losses were compared.
struct ComparedLoss {
  bool compared = false;
  std::optional<bool> identical, passed;
  // Nats: the median over the first 16 steps, which is judged, and the largest. A value of none: a loss is not finite.
  std::optional<std::optional<double>> deviation, max_deviation;
  std::optional<double> tolerance;
  std::string message;

  // The losses were not compared, or they passed.
  [[nodiscard]] bool is_good() const { return passed.value_or(true); }

  LADDER_FIELDS(ComparedLoss, compared, (identical, absent), (passed, absent), (deviation, absent),
                (max_deviation, absent), (tolerance, absent), message)
};

struct ComparedMemory : ComparedRatio {
  int64_t base_bytes = 0, head_bytes = 0;  // the largest of the runs

  LADDER_MORE_FIELDS(ComparedRatio, ComparedMemory, base_bytes, head_bytes)
};

// One recipe; the ratio is that of the times.
struct ComparedRecipe : ComparedRatio {
  std::string label, recipe_hash;
  files::Json recipe, recipe_diff;  // as in head's record; model::recipe_diff of the two
  Setting setting;
  int64_t pairs = 0, base_runs = 0, head_runs = 0;
  std::optional<int64_t> sessions;  // of the baseline, whose spread is in the interval; none: the pairs' alone
  std::vector<double> base_runs_ms, head_runs_ms;
  double base_ms = 0, head_ms = 0;
  int64_t slower_pairs = 0;
  double sign_test_p = 1;
  ComparedLoss loss;
  std::optional<ComparedMemory> memory;
  std::vector<std::string> flags;  // what disturbed the runs
  std::string unusable;            // why there is no verdict whatever the ratio; empty: it counts

  LADDER_MORE_FIELDS(ComparedRatio, ComparedRecipe, label, recipe_hash, recipe, recipe_diff, setting, (pairs, from_1),
                     (base_runs, from_1), (head_runs, from_1), (sessions, {.least = 3}),
                     (base_runs_ms, {.above = 0, .items = 1}), (head_runs_ms, {.above = 0, .items = 1}),
                     (base_ms, positive), (head_ms, positive), (slower_pairs, from_0),
                     (sign_test_p, {.least = 0, .most = 1}), loss, memory, flags, (unusable, absent))
};

struct Unmatched {
  SideName side = SideName::base;
  std::string label;

  LADDER_FIELDS(Unmatched, side, label)
};

struct Comparison {
  static constexpr auto kind = "comparison";
  static constexpr auto about = "Time, loss and memory of two sides, recipe by recipe";

  std::string created;
  double min_effect = harness::usual_min_effect, confidence = harness::confidence;
  std::string method;
  ComparedSide base, head;
  std::vector<std::string> forced;    // circumstances that differ, compared because --force was given
  std::vector<std::string> warnings;  // what makes all of it doubtful
  std::vector<ComparedRecipe> entries;
  std::vector<Unmatched> unmatched;

  LADDER_FIELDS(Comparison, created, (min_effect, from_0), confidence, method, base, head, forced, warnings,
                (entries, some), unmatched)
};

LADDER_COMPILED_ONCE(Comparison)

// Earlier measurements that later ones are judged by: results/schemas/baseline.v1.json, noise.v1.json.

// The first fields of both.
struct Kept {
  std::string created, label, recipe_hash;
  files::Json recipe;  // as in the records
  Setting setting;
  std::optional<std::string> program;  // git commit

  LADDER_FIELDS(Kept, created, label, (recipe_hash, {.pattern = "^[0-9a-f]{12}$"}), recipe, setting, program)
};

// A session in which a baseline's program was measured.
struct Session {
  std::string started;  // of its first run; UTC, ISO 8601
  int64_t runs = 0;
  double median_ms = 0;  // over runs of their median step

  LADDER_FIELDS(Session, started, (runs, from_1), (median_ms, {.least = 1e-6, .most = 1e12}))
};

// The records of one program's runs of one recipe on one device.
struct Baseline : Kept {
  static constexpr auto kind = "baseline";
  static constexpr auto about =
      "The records of one program's runs of one recipe on one device, to judge later programs by";

  double median_ms = 0;
  std::vector<Session> sessions;  // the records' first
  std::vector<Record> records;

  LADDER_MORE_FIELDS(Kept, Baseline, (median_ms, positive), (sessions, some), (records, some))
};

struct Floor {
  int64_t pairs = 0;
  double floor = 0;

  LADDER_FIELDS(Floor, (pairs, from_1), floor)
};

// How small a change one device can show: one program against itself.
struct Noise : Kept {
  static constexpr auto kind = "noise";
  static constexpr auto about = "How small a change one device can show: one program against itself";

  int64_t pairs = 0;
  std::vector<double> differences;  // of the logarithms of paired runs' median steps
  double sd = 0;                    // root mean square of the differences
  std::vector<Floor> floors;

  LADDER_MORE_FIELDS(Kept, Noise, (pairs, {.least = 6}), (differences, {.items = 6}), (sd, from_0), (floors, some))
};

LADDER_COMPILED_ONCE(Baseline)
LADDER_COMPILED_ONCE(Noise)

// What a gate found: results/schemas/gate.v1.json.

// The first four are a comparison's verdicts. `failed`: head has no number. `unfit`: base has none. `saved`: there was
// no baseline, now there is.
enum class GateOutcome { regression, improvement, same, inconclusive, failed, unfit, saved, calibrated };

template <>
struct Names<GateOutcome> {
  static constexpr std::array list{"REGRESSION", "IMPROVEMENT", "SAME",  "INCONCLUSIVE",
                                   "FAILED",     "UNFIT",       "SAVED", "CALIBRATED"};
};

constexpr GateOutcome outcome_of(harness::Verdict verdict) { return static_cast<GateOutcome>(verdict); }

enum class Against { program, baseline };

template <>
struct Names<Against> {
  static constexpr std::array list{"program", "baseline"};
};

enum class NoiseSource { calibration, these_pairs, sessions };

template <>
struct Names<NoiseSource> {
  static constexpr std::array list{"calibration", "these pairs", "sessions"};
};

struct NoiseFloor {
  double floor = 0;
  NoiseSource source = NoiseSource::calibration;

  LADDER_FIELDS(NoiseFloor, floor, source)
};

struct GateResult {
  static constexpr auto kind = "gate";
  static constexpr auto about = "A gate's verdict";

  std::string created;
  std::vector<Found> found = {};  // what makes its numbers untrue
  std::string subject;            // rungs, ladder and size
  GateOutcome verdict = GateOutcome::inconclusive;
  int exit_status = 3;
  Against against = Against::program;
  int64_t pairs = 0;
  bool topped_up = false;
  double min_effect = harness::usual_min_effect;
  std::vector<std::string> reasons, warnings;
  std::vector<std::optional<NoiseFloor>> noise;  // for each entry of the comparison; none: too few pairs or sessions
  std::vector<Noise> calibration;
  std::vector<std::string> saved;     // files
  std::vector<std::string> added_to;  // files of baselines of the same program that have this session now, too
  std::optional<Comparison> comparison;
  Said said;

  LADDER_FIELDS(GateResult, created, (found, absent), subject, verdict, (exit_status, {.least = 0, .most = 3}), against,
                (pairs, from_1), topped_up, (min_effect, from_0), reasons, warnings, noise, calibration, saved,
                added_to, comparison, said)
};

LADDER_COMPILED_ONCE(GateResult)

}  // namespace results
