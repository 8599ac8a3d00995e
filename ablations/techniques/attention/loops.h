// Causal attention on a CPU: what its loops take and compute (cpu/kernels.h).
#pragma once

#include "ablations/techniques/cpu/number.h"

#include <cstdint>

namespace model::cpu {

// Causal attention of B NH heads, HS numbers each, C = NH HS. Every head reads its part of each token's query,
// key and value and writes its part of the result, where they stand.
//   score[i][j] = q_i k_j / sqrt(HS) for j <= i;  logsumexp[i] = log(sum_j exp(score[i][j]))
//   out_i = sum_j p[i][j] v_j with p[i][j] = exp(score[i][j] - logsumexp[i])
struct Attention {
  Number type;
  const void* qkv;   // (B, T, 3C)
  void* out;         // (B, T, C)
  float* logsumexp;  // (B, NH, T)
  int64_t T, NH, HS;
};

// With d_p[i][j] = d_out_i v_j and d_score = p (d_p - d_out_i out_i) (Dao et al. 2022, FlashAttention, algorithm 4):
// clang-format off
//   d_q_i = sum_j d_score[i][j] k_j / sqrt(HS);  d_k_j = sum_i d_score[i][j] q_i / sqrt(HS)
//   d_v_j = sum_i p[i][j] d_out_i
// clang-format on
struct AttentionBackward {
  Number type;
  const void *qkv, *out, *d_out;
  const float* logsumexp;
  void* d_qkv;  // (B, T, 3C)
  int64_t T, NH, HS;
};

}  // namespace model::cpu
