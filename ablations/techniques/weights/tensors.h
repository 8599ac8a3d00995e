// A model's parameters as one launch sees them: a table of tensors, and one of chunks, a block's share of a tensor
// each. Both lie in device memory; pointers in them do not change, so a captured graph may be replayed.
#pragma once

#include "ablations/techniques/cuda/types.h"

#include <cstdint>
#include <span>
#include <vector>

namespace kernels {

struct ParameterTensor {
  void* weight;        // float, or bf16 beside a remainder (split_weight.h)
  int16_t* remainder;  // of bf16 weights; else null
  const float* gradient;
  float* first_moment;
  float* second_moment;
  int64_t size;
  float weight_decay;
  float* maxima = nullptr;  // of each chunk of bf16 weights the greatest magnitude, without NaN; null: not wanted
};

struct Chunk {
  int32_t tensor;  // in the table of tensors
  int32_t index;   // of the chunk in its tensor
};

constexpr int64_t chunk_elements = 8192;

inline std::vector<Chunk> chunks_of(std::span<const ParameterTensor> tensors) {
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (int64_t begin = 0; begin < tensors[i].size; begin += chunk_elements)
      chunks.push_back({static_cast<int32_t>(i), static_cast<int32_t>(begin / chunk_elements)});
  }
  return chunks;
}

}  // namespace kernels
