// Model FLOPs utilization of a study's rung (results/schemas/study.v1.json). profile/utilization.h explains it.
#pragma once

#include "harness/machine/peaks.h"
#include "results/fields.h"

#include <array>
#include <optional>
#include <string>

namespace results {

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
