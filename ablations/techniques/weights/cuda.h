// The gradients' norm, and clipping and AdamW in one pass over all master weights, on a GPU (cuda/master_adamw.cpp), by
// our own kernels (kernels/gradient_norm.cu, kernels/adamw.cu). A CPU's is a part of AdamW. What changes from step to
// step is read from the device, so that a captured step can be replayed.
#pragma once

#include "model/optimizer.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace model {

struct MasterWeight {
  at::Tensor weight;                                 // float32, or bf16 beside a remainder
  at::Tensor remainder;                              // int16; undefined of a float32 weight
  at::Tensor gradient, first_moment, second_moment;  // float32
  double weight_decay;
};

class CudaMasterAdamW {
 public:
  // All tensors are contiguous and stay where they are. Waits for the device.
  explicit CudaMasterAdamW(std::vector<MasterWeight> weights);

  // AdamW::clip's
  [[nodiscard]] Clip clip(double max_norm) const;

  // Each 0-dim float32 on the weights' device; `number` is the step's, from 1.
  void step(const at::Tensor& learning_rate, const at::Tensor& number, const at::Tensor& coefficient) const;

 private:
  // On the device, as bytes: kernels/tensors.h's tables.
  struct Table {
    at::Tensor tensors, chunks;
    int64_t chunk_count = 0;
  };
  [[nodiscard]] Table table_of(const std::vector<MasterWeight>& weights) const;
  template <class T>
  void update(const Table& table, const at::Tensor& learning_rate, const at::Tensor& number,
              const at::Tensor& coefficient) const;

  std::vector<MasterWeight> weights_;  // the tables point into them
  Table all_, float32_, split_;
};

}  // namespace model
