// Learning rate: linear warm-up, then half a cosine down to a tenth (GPT-3 paper, appendix B).
#pragma once

#include <cstdint>

namespace model {

struct Schedule {
  double peak = 6e-4;
  double floor = 6e-5;
  int64_t warmup_steps = 10;
  int64_t decay_steps = 50;  // steps after which the floor is reached

  // step counts from 0; dimensionless learning rate
  [[nodiscard]] double at(int64_t step) const;
};

}  // namespace model
