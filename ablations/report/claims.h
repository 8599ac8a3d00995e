// What others have claimed of the techniques, beside what studies show.
#pragma once

#include "ablations/documents/enums.h"
#include "ablations/documents/study.h"
#include "ablations/techniques/technique.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// What a study shows of an optimization.
struct Seen {
  std::string device, shape;  // printable: "AMD EPYC, 2 threads", "B=1 T=128"
  model::Device kind = model::Device::cpu;
  double ratio = 0;              // the time of the rung below over its own
  std::optional<double> lo, hi;  // its interval
  struct Bytes {
    double below = 0, own = 0;
  };
  std::optional<Bytes> activations, peak;  // the first with autocast's copies of the weights
  struct Milliseconds {
    double below = 0, own = 0;
  };
  std::optional<Milliseconds> batch;  // of a step, where the study is about batches
};

// Of the optimization's rung in the study of a cumulative ladder; none where it has no number, or the rung below none.
std::optional<Seen> seen_in(const Study& study, const std::string& optimization);

enum class Standing { measured, not_measured, contradicted };
template <>
struct Names<Standing> {
  static constexpr std::array list{"measured", "not measured", "contradicted"};
};

struct CheckedClaim {
  Standing standing;
  std::string words;  // a sentence or two, in which `...` is code and nothing else is markup
};

// A time or a size counts as measured only on the kind of device that it is claimed of.
CheckedClaim checked(const Claim& claim, const std::string& optimization, const std::vector<Seen>& seen);

// docs/claims.md: every claim, and what the studies show.
std::string claims_page(const std::vector<Study>& studies);

// The studies in results/evidence, sorted by folder. Throws std::invalid_argument where there are none.
std::vector<Study> recorded_studies();

}  // namespace ablations
