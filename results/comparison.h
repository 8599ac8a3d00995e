// Two sides' records against each other, recipe by recipe: results/schemas/comparison.v1.json.
#pragma once

#include "harness/stats/verdict.h"
#include "results/common.h"
#include "results/setting.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

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

  static void fields(auto&& field) {
    field("source", &ComparedSide::source);
    field("runs", &ComparedSide::runs);
    field("programs", &ComparedSide::programs);
    field("left_out", &ComparedSide::left_out);
  }
};

// head / base: above 1 is slower, or more of whatever was measured.
struct ComparedRatio : Bounds {
  double ratio = 1;
  harness::Verdict verdict = harness::Verdict::inconclusive;

  static void fields(auto&& field) {
    Bounds::fields(field);
    field("ratio", &ComparedRatio::ratio);
    field("verdict", &ComparedRatio::verdict);
  }
};

// All but the message are present only if the losses were compared.
struct ComparedLoss {
  bool compared = false;
  std::optional<bool> identical, passed;
  // Nats. A value of none: a loss is not finite. An older program judged max_deviation and wrote no deviation.
  std::optional<std::optional<double>> deviation, max_deviation;
  std::optional<double> tolerance;
  std::string message;

  // The losses were not compared, or they passed.
  [[nodiscard]] bool is_good() const { return passed.value_or(true); }

  static void fields(auto&& field) {
    field("compared", &ComparedLoss::compared);
    field("identical", &ComparedLoss::identical, None::absent);
    field("passed", &ComparedLoss::passed, None::absent);
    field("deviation", &ComparedLoss::deviation, None::absent);
    field("max_deviation", &ComparedLoss::max_deviation, None::absent);
    field("tolerance", &ComparedLoss::tolerance, None::absent);
    field("message", &ComparedLoss::message);
  }
};

struct ComparedMemory : ComparedRatio {
  int64_t base_bytes = 0, head_bytes = 0;  // the largest of the runs

  static void fields(auto&& field) {
    ComparedRatio::fields(field);
    field("base_bytes", &ComparedMemory::base_bytes);
    field("head_bytes", &ComparedMemory::head_bytes);
  }
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

  static void fields(auto&& field) {
    ComparedRatio::fields(field);
    field("label", &ComparedRecipe::label);
    field("recipe_hash", &ComparedRecipe::recipe_hash);
    field("recipe", &ComparedRecipe::recipe);
    field("recipe_diff", &ComparedRecipe::recipe_diff);
    field("setting", &ComparedRecipe::setting);
    field("pairs", &ComparedRecipe::pairs);
    field("base_runs", &ComparedRecipe::base_runs);
    field("head_runs", &ComparedRecipe::head_runs);
    field("sessions", &ComparedRecipe::sessions);
    field("base_runs_ms", &ComparedRecipe::base_runs_ms);
    field("head_runs_ms", &ComparedRecipe::head_runs_ms);
    field("base_ms", &ComparedRecipe::base_ms);
    field("head_ms", &ComparedRecipe::head_ms);
    field("slower_pairs", &ComparedRecipe::slower_pairs);
    field("sign_test_p", &ComparedRecipe::sign_test_p);
    field("loss", &ComparedRecipe::loss);
    field("memory", &ComparedRecipe::memory);
    field("flags", &ComparedRecipe::flags);
  }
};

struct Unmatched {
  SideName side = SideName::base;
  std::string label;

  static void fields(auto&& field) {
    field("side", &Unmatched::side);
    field("label", &Unmatched::label);
  }
};

struct Comparison {
  static constexpr auto kind = "comparison";

  std::string created;
  double min_effect = harness::usual_min_effect, confidence = harness::confidence;
  std::string method;
  ComparedSide base, head;
  std::vector<std::string> forced;    // circumstances that differ, compared because --force was given
  std::vector<std::string> warnings;  // what makes all of it doubtful
  std::vector<ComparedRecipe> entries;
  std::vector<Unmatched> unmatched;

  static void fields(auto&& field) {
    field("created", &Comparison::created);
    field("min_effect", &Comparison::min_effect);
    field("confidence", &Comparison::confidence);
    field("method", &Comparison::method);
    field("base", &Comparison::base);
    field("head", &Comparison::head);
    field("forced", &Comparison::forced);
    field("warnings", &Comparison::warnings);
    field("entries", &Comparison::entries);
    field("unmatched", &Comparison::unmatched);
  }
};

// Compiled once, in the source beside this.
extern template files::Json json_of(const Comparison&);
extern template Comparison value_from(const files::Json&, const std::string&);

}  // namespace ablations
