// How many rows of logits the fused head and loss makes at once.
#pragma once

#include <algorithm>
#include <cstdint>

namespace model {

// Logits that exist at once, in bytes. Each further chunk reads and writes the embedding's gradient once more, which
// for GPT-2 124M is 154 MB. On a GPU fewer chunks, so that this is not what takes the time.
constexpr int64_t head_loss_chunk_bytes(bool on_cuda) { return on_cuda ? int64_t{1} << 30 : int64_t{128} << 20; }

// Rows of a chunk, of N rows with row_bytes of logits each. Chunks have the same size, so that their products have one
// shape.
constexpr int64_t head_loss_rows(int64_t N, int64_t row_bytes, int64_t chunk_bytes) {
  const int64_t chunks = std::clamp<int64_t>((N * row_bytes + chunk_bytes - 1) / chunk_bytes, 1, N);
  return (N + chunks - 1) / chunks;
}

}  // namespace model
