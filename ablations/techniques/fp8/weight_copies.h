// fp8 copies of weights and of their transposes, and the scales of what LayerNorms make. One call makes all of a step.
#pragma once

#include "ablations/techniques/cuda/types.h"

#include <cstdint>
#include <span>
#include <vector>

namespace kernels {

// Both sizes are multiples of 16.
struct WeightCopies {
  const bf16* weight;    // (out, in)
  const float* maxima;   // (maxima_count), each of a part of the weight: the greatest magnitude
  uint8_t* rows;         // (out, in) e4m3
  uint8_t* columns;      // (in, out) e4m3, the transpose
  float* row_scales;     // (out), and
  float* column_scales;  // (in): each the greatest number of the weight over 448
  int64_t out, in, maxima_count;
};

// scale = (sqrt(C - 1) max |weight| + max |bias|) / 448: a LayerNorm of C numbers makes none that is greater than the
// bracket, because a normalized number is sqrt(C - 1) at most.
struct NormScale {
  const float *weight, *bias;  // (C)
  float* scale;                // one
  int64_t C;
};

struct WeightTile {
  int32_t weight;       // in the table
  int32_t row, column;  // of its first number
};
std::vector<WeightTile> weight_tiles(std::span<const WeightCopies> weights);

struct AllWeightCopies {
  const WeightCopies* weights;  // tables on the device
  const NormScale* norms;
  const WeightTile* tiles;
  int64_t weight_count, norm_count, tile_count;
};
void copy_weights(const AllWeightCopies& arguments, cudaStream_t stream);

}  // namespace kernels
