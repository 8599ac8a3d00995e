// Experiments: whether a change is kept, decided while its pairs are made (harness/stats/sequential.h). A night of them
// is a ledger: results/schemas/ledger.v1.json.
#pragma once

#include "harness/stats/sequential.h"
#include "results/common.h"
#include "results/fields.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace results {

template <>
struct Names<harness::Decision> {
  static constexpr std::array list{"keep", "discard", "undecided"};
};

// The error of a ledger, and of an experiment without one: what intervals leave out, too.
constexpr double usual_error = 1 - harness::confidence;

// What an experiment declares before its first run.
struct Expectation {
  std::string text;            // "faster:1%"
  double least_gain = 0;       // wanted: 0.01 for 1 %; 0: any
  double level = usual_error;  // it keeps a change without that gain with this probability at most
  int64_t most_pairs = 16;
  std::optional<double> budget_s;               // no pair begins later
  std::optional<int64_t> number;                // in its ledger, from 1 on; none: it has no ledger
  double noise_squares = 0, noise_freedom = 0;  // harness::PooledNoise of the ledger's earlier experiments

  [[nodiscard]] harness::ExperimentTerms terms() const;
  [[nodiscard]] harness::PooledNoise noise() const { return {noise_squares, noise_freedom}; }

  LADDER_FIELDS(Expectation, (text, {.least = 1, .most = 40}), (least_gain, from_0), (level, {.above = 0, .most = 1}),
                (most_pairs, {.least = 2, .most = 1000}), (budget_s, {.none = None::absent, .above = 0}),
                (number, {.none = None::absent, .least = 1}), (noise_squares, from_0), (noise_freedom, from_0))
};

// "faster:1%", "better", "better:0.5%". Throws std::invalid_argument that names --expect. `is_time`: what is compared
// is a time, of which "faster" is said, too.
Expectation expectation_of(const std::string& text, bool is_time);

// What came of it. The ratio is above 1 where head is better: base's time over head's. Its interval holds at every
// look.
struct Judgment : Bounds {
  harness::Decision verdict = harness::Decision::undecided;
  double ratio = 1;
  int64_t pairs = 0, runs = 0;
  double evidence = 1, needed = 20;  // how much likelier the pairs are with a gain than without
  double least_shown = 0;            // the ratio minus 1 beyond the wanted gain that these terms can show; 0: not known
  std::vector<double> gains;         // of each pair: the logarithm of its ratio
  std::vector<std::string> reasons;  // why the verdict is so, first what decides it
  std::string next;                  // what to do

  LADDER_MORE_FIELDS(Bounds, Judgment, verdict, (ratio, positive), (pairs, from_0), (runs, from_0), (evidence, from_0),
                     (needed, {.least = 1}), (least_shown, from_0), (gains, {.most_items = 1000}), reasons, next)
};

// 0 keep, 1 discard, 3 undecided.
int exit_status(harness::Decision verdict);

// An experiment of a night. It is entered before its first run, so that one that was interrupted counts, too.
struct LedgerEntry {
  std::string started;          // UTC, ISO 8601
  std::string base, head;       // commits
  std::string command, device;  // what earlier experiments tell of the noise holds for both
  std::string metric;           // by its name; "ms/step"
  Expectation expectation;
  std::optional<Judgment> judgment;  // none: it was interrupted
  std::string folder;

  LADDER_FIELDS(LedgerEntry, started, base, head, command, device, metric, expectation, (judgment, absent), folder)
};

struct Ledger {
  static constexpr auto kind = "ledger";
  static constexpr auto about = "A night of experiments that share one error";

  std::string created;
  double error = usual_error;  // of all experiments together
  std::vector<LedgerEntry> experiments;
  std::optional<Said> said;  // of one that is drawn

  // Throws std::invalid_argument where an entry spends more than it may. `where` begins the message.
  void check(const std::string& where) const;

  LADDER_FIELDS(Ledger, created, (error, {.above = 0, .most = 1}), (experiments, {.most_items = 100000}),
                (said, absent))
};

LADDER_COMPILED_ONCE(Ledger)

// The level of the next experiment, and what earlier ones of that command, metric and device tell of the noise.
double level_of_next(const Ledger& ledger);
harness::PooledNoise noise_of(const Ledger& ledger, const LedgerEntry& like);

// Both nights, by the time at which experiments began. Their errors add up. Throws std::invalid_argument if one has an
// experiment of the other.
Ledger merged(const Ledger& one, const Ledger& other);

}  // namespace results
