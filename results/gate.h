// What a gate found: results/schemas/gate.v1.json.
#pragma once

#include "results/baseline.h"
#include "results/comparison.h"
#include "results/words.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace results {

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
  std::string subject;  // rungs, ladder and size
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

  LADDER_FIELDS(GateResult, created, subject, verdict, (exit_status, {.least = 0, .most = 3}), against, (pairs, from_1),
                topped_up, (min_effect, from_0), reasons, warnings, noise, calibration, saved, added_to, comparison,
                said)
};

LADDER_COMPILED_ONCE(GateResult)

}  // namespace results
