// Products of bfloat16 matrices, by panels of a and b and a tile of c in registers, as in cpu.inc.h for float32. The
// instruction (AVX512_BF16) adds the products of two pairs to a float32. So panels hold pairs that follow each other
// along k. The tile has 8 x 48 numbers: the sizes of GPT-2 124M are multiples of both.
#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/cpu/memory.inc.h"

#include <immintrin.h>

#include <cstdint>

namespace model::cpu {
namespace {

using Pair = uint32_t;  // two bfloat16, the one of the smaller k in the lower half

constexpr int64_t width = 16;  // of a register: floats, or pairs
constexpr int64_t MR = 8, vectors = 3, NR = vectors * width;
constexpr int64_t most_k = 1024;     // of a panel: NR columns of it are 96 KiB
constexpr int64_t most_rows = 2048;  // of a that are copied at once
// Found by trial with the sizes of GPT-2 124M:
constexpr int64_t few_rows = 512;           // for fetch_panel
constexpr int64_t many_numbers = 64 << 10;  // for To::memory

// Where a tile goes.
enum class To {
  cache,
  memory,  // past the caches: a large c that is written once and read much later. At the beginning of a cache line
};

// c (MR, NR) = first + a b, or c += a b where first is null. `first` has NR numbers, each row's.
void tile(int64_t pairs, const Pair* a, const Pair* b, float* c, int64_t c_row, const float* first, To to = To::cache) {
  __m512 sum[MR][vectors];
  for (int64_t i = 0; i < MR && first != nullptr && to == To::cache; ++i) {  // it arrives while the tile is computed
    for (int64_t v = 0; v < vectors; ++v) __builtin_prefetch(c + i * c_row + v * width, /*to write=*/1);
  }
  for (int64_t i = 0; i < MR; ++i) {
    for (int64_t v = 0; v < vectors; ++v) {
      sum[i][v] = _mm512_loadu_ps((first != nullptr ? first : c + i * c_row) + v * width);
    }
  }
  for (int64_t p = 0; p < pairs; ++p, a += MR, b += NR) {
    __m512bh of_b[vectors];
    for (int64_t v = 0; v < vectors; ++v) of_b[v] = (__m512bh)_mm512_load_si512(b + v * width);
#pragma GCC unroll 8
    for (int64_t i = 0; i < MR; ++i) {
      const auto of_a = (__m512bh)_mm512_set1_epi32(static_cast<int>(a[i]));
#pragma GCC unroll 3
      for (int64_t v = 0; v < vectors; ++v) sum[i][v] = _mm512_dpbf16_ps(sum[i][v], of_a, of_b[v]);
    }
  }
  for (int64_t i = 0; i < MR; ++i) {
    for (int64_t v = 0; v < vectors; ++v) {
      float* at = c + i * c_row + v * width;
      to == To::memory ? _mm512_stream_ps(at, sum[i][v]) : _mm512_storeu_ps(at, sum[i][v]);
    }
  }
}

// The numbers (i, k) of a matrix, i its rows or columns; those that are not there are 0.
struct Numbers {
  const uint16_t* from;
  int64_t i_stride, k_stride;
  int64_t i_size, k_size;

  [[nodiscard]] Pair pair(int64_t i, int64_t k) const {
    if (i >= i_size || k >= k_size) return 0;
    const uint16_t* at = from + i * i_stride + k * k_stride;
    const Pair second = k + 1 < k_size ? at[k_stride] : 0;
    return at[0] | second << 16;
  }
};

// 8 x 8 pairs, rows to columns.
void transpose8(const uint16_t* from, int64_t row, Pair* to, int64_t to_row) {
  __m256i r[8], t[8];
  for (int64_t i = 0; i < 8; ++i) r[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i * row));
  for (int64_t i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int64_t i = 0; i < 8; i += 4) {
    r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int64_t i = 0; i < 4; ++i) {
    const __m256i low = _mm256_permute2x128_si256(r[i], r[i + 4], 0x20),
                  high = _mm256_permute2x128_si256(r[i], r[i + 4], 0x31);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * to_row), low);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (i + 4) * to_row), high);
  }
}

// 8 numbers each of k and k + 1, side by side.
__m256i pairs8(const uint16_t* first, const uint16_t* second) {
  const __m256i low = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(first))),
                high = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(second)));
  return _mm256_or_si256(low, _mm256_slli_epi32(high, 16));
}

// A panel: for each pair along k, `side` of them side by side.
template <int64_t side>
void pack(const Numbers& numbers, Pair* to) {
  const int64_t pairs = (numbers.k_size + 1) / 2, whole = numbers.i_size >= side ? numbers.k_size / 2 : 0;
  int64_t p = 0;
  if (numbers.k_stride == 1) {
    for (; p + 8 <= whole; p += 8) {
      for (int64_t i = 0; i < side; i += 8) {
        transpose8(numbers.from + i * numbers.i_stride + 2 * p, numbers.i_stride, to + p * side + i, side);
      }
    }
  } else if (numbers.i_stride == 1) {
    for (; p < whole; ++p) {
      const uint16_t* at = numbers.from + 2 * p * numbers.k_stride;
      for (int64_t i = 0; i < side; i += 8) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + p * side + i), pairs8(at + i, at + numbers.k_stride + i));
      }
    }
  }
  for (; p < pairs; ++p) {
    for (int64_t i = 0; i < side; ++i) to[p * side + i] = numbers.pair(i, 2 * p);
  }
}

// Fetches share `t` of `shares` of b's next panel, whose numbers stand side by side along k. They come from memory
// while tiles are computed. Where a has many rows the tiles take long enough without that.
void fetch_panel(const Product& g, int64_t k, int64_t depth, int64_t column, int64_t t, int64_t shares) {
  constexpr int64_t line = 32;  // numbers of a cache line
  const int64_t lines = (depth + line - 1) / line, all = lines * NR;
  const uint16_t* from = static_cast<const uint16_t*>(g.b) + k + column * g.b_column;
  for (int64_t l = all * t / shares; l < all * (t + 1) / shares; ++l) {
    __builtin_prefetch(from + l / lines * g.b_column + l % lines * line, /*to read=*/0, /*into the second cache=*/2);
  }
}

// `rows` x `columns` numbers of a tile to where they belong. (The instruction that rounds to bfloat16 would take
// numbers below the smallest normal one for 0.)
void put(const float* from, int64_t from_row, int64_t rows, int64_t columns, const Product& g, int64_t row,
         int64_t column, bool adds) {
  for (int64_t i = 0; i < rows; ++i, from += from_row) {
    const int64_t at = (row + i) * g.c_row + column;
    if (g.c_type == Number::bf16) {
      uint16_t* to = static_cast<uint16_t*>(g.c) + at;
      for (int64_t j = 0; j < columns; ++j) to[j] = BFloat16(from[j]).bits;
    } else {
      float* to = static_cast<float*>(g.c) + at;
      for (int64_t j = 0; j < columns; ++j) to[j] = adds ? to[j] + from[j] : from[j];
    }
  }
}

}  // namespace

void product_bf16(const Product& g, int64_t part, int64_t parts) {
  const Block block = block_of(g.M, g.N, MR, NR, part, parts);
  if (block.is_empty()) return;
  const auto [row_begin, row_end, column_begin, column_end] = block;
  const auto *a = static_cast<const uint16_t*>(g.a), *b = static_cast<const uint16_t*>(g.b);
  const int64_t chunks = (g.K + most_k - 1) / most_k, most_depth = (g.K + 2 * chunks - 1) / (2 * chunks) * 2;
  const int64_t rows_at_once = least(row_end - row_begin, most_rows) + MR;
  Buffer<Pair> a_panels(rows_at_once * most_depth / 2), b_panel(NR * most_depth / 2);
  Row edge(MR * NR), first(NR);
  // Sums that go on with the next chunk of k, where c cannot hold them.
  const bool kept = g.c_type == Number::bf16 && chunks > 1;
  const int64_t sums_row = column_end - column_begin + NR;
  Row sums(kept ? rows_at_once * sums_row : 1);
  // Large results that are written once go past the caches, as gradients of weights do. The update reads them later.
  const bool at_lines = reinterpret_cast<uintptr_t>(g.c) % 64 == 0 && g.c_row % width == 0;
  const To to = chunks == 1 && !g.accumulate && g.M * g.N >= many_numbers && at_lines ? To::memory : To::cache;

  for (int64_t i0 = row_begin; i0 < row_end; i0 += most_rows) {
    const int64_t rows = least(most_rows, row_end - i0);
    for (int64_t k0 = 0; k0 < g.K; k0 += most_depth) {
      const int64_t depth = least(most_depth, g.K - k0), pairs = (depth + 1) / 2;
      const bool is_first = k0 == 0, is_last = k0 + depth == g.K, adds = !is_first || g.accumulate;
      for (int64_t i = 0; i < rows; i += MR) {
        pack<MR>({a + (i0 + i) * g.a_row + k0 * g.a_column, g.a_row, g.a_column, rows - i, depth},
                 a_panels.data() + i * pairs);
      }
      for (int64_t j = column_begin; j < column_end; j += NR) {
        const int64_t columns = least(NR, column_end - j);
        pack<NR>({b + k0 * g.b_row + j * g.b_column, g.b_column, g.b_row, columns, depth}, b_panel.data());
        for (int64_t n = 0; n < NR; ++n) {
          first.data()[n] = is_first && !g.accumulate && g.bias != nullptr && n < columns ? g.bias[j + n] : 0;
        }
        const bool fetches = rows <= few_rows && g.b_row == 1 && j + 2 * NR <= column_end;
        for (int64_t i = 0; i < rows; i += MR) {
          if (fetches) fetch_panel(g, k0, depth, j + NR, i / MR, (rows + MR - 1) / MR);
          const Pair* panel = a_panels.data() + i * pairs;
          const int64_t there = least(MR, rows - i);
          if (kept) {
            float* sum = sums.data() + i * sums_row + (j - column_begin);
            tile(pairs, panel, b_panel.data(), sum, sums_row, is_first ? first.data() : nullptr);
            if (is_last) put(sum, sums_row, there, columns, g, i0 + i, j, /*adds=*/false);
          } else if (g.c_type == Number::f32 && there == MR && columns == NR) {
            float* c = static_cast<float*>(g.c) + (i0 + i) * g.c_row + j;
            tile(pairs, panel, b_panel.data(), c, g.c_row, adds ? nullptr : first.data(), to);
          } else {
            tile(pairs, panel, b_panel.data(), edge.data(), NR, first.data());
            put(edge.data(), NR, there, columns, g, i0 + i, j, adds);
          }
        }
      }
    }
  }
  _mm_sfence();  // before another thread reads what went past the caches
}

}  // namespace model::cpu
