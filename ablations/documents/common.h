// Parts that documents of several kinds have.
#pragma once

#include "ablations/documents/fields.h"
#include "model/recipe.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace ablations {

template <>
struct Names<model::Device> {
  static constexpr auto list = model::names_of(model::Device{});
};

// The ways to make a study of a ladder (plan/modes.h).
enum class Mode { cumulative, leave_one_out, one_at_a_time, factorial, sweep };
template <>
struct Names<Mode> {
  static constexpr std::array list{"cumulative", "leave-one-out", "one-at-a-time", "factorial", "sweep"};
};

// The size of one step.
struct Shape {
  int64_t B = 1, T = 1, accumulation = 1;
  int64_t positions = 0;  // of the model; 0: as many as it has
  bool operator==(const Shape&) const = default;
};

// Whether a run did what a field of its recipe says.
struct Proof {
  std::string field;
  bool passed = false;
  std::string expected;  // in words
  std::string observed;

  static void fields(auto&& field) {
    field("field", &Proof::field);
    field("passed", &Proof::passed);
    field("expected", &Proof::expected);
    field("observed", &Proof::observed);
  }
};

// "device": where something was measured.
struct NamedDevice {
  model::Device kind = model::Device::cpu;
  std::string name;  // "NVIDIA H200", "AMD EPYC"

  bool operator==(const NamedDevice&) const = default;

  static void fields(auto&& field) {
    field("kind", &NamedDevice::kind);
    field("name", &NamedDevice::name);
  }
};

// "memory" of a trace, and a part of a record's.
struct PeakMemory {
  int64_t peak_bytes = 0;
  std::string peak_source;                     // "resident set of the process"
  std::optional<int64_t> reserved_peak_bytes;  // of CUDA's caching allocator; a CPU has none

  static void fields(auto&& field) {
    field("peak_bytes", &PeakMemory::peak_bytes);
    field("peak_source", &PeakMemory::peak_source);
    field("reserved_peak_bytes", &PeakMemory::reserved_peak_bytes, None::absent);
  }
};

}  // namespace ablations
