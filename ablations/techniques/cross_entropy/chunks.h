// How many rows of logits the fused head and loss makes at once.
#pragma once

#include <algorithm>
#include <cstdint>

namespace model {

// Logits that exist at once, in bytes. Each further chunk reads and writes the embedding's gradient once more, which
// for GPT-2 124M is 154 MB. On a GPU fewer chunks, so that this is not what takes the time.
constexpr int64_t head_loss_chunk_bytes(bool on_cuda) { return on_cuda ? int64_t{1} << 30 : int64_t{128} << 20; }

// Rows of a chunk, of N rows with row_bytes of logits each. Chunks have about the same size. Where 128 rows fit it is a
// multiple of 128: products divide such matrices into whole tiles.
constexpr int64_t head_loss_rows(int64_t N, int64_t row_bytes, int64_t chunk_bytes) {
  const auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t most = std::max<int64_t>(chunk_bytes / row_bytes, 1), tile = most < 128 ? 1 : 128;
  const int64_t chunks = ceil_div(N, most / tile * tile);
  return std::min(N, ceil_div(ceil_div(N, chunks), tile) * tile);
}

}  // namespace model
