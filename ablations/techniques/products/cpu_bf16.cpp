// Products of bfloat16 matrices in blocks, which oneDNN multiplies (loops.h: block_product). What is done here is the
// copying before and after. The instructions add the products of two pairs to a float32. So panels hold pairs that
// follow each other along k.
#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/cpu/memory.inc.h"

#include <immintrin.h>

#include <cstdint>

namespace model::cpu {
namespace {

constexpr int64_t width = 16;         // of a cache line in floats, and of what threads share out
constexpr int64_t MR = 128, NR = 64;  // of a block
constexpr int64_t most_k = 1024;      // of a panel: NR columns of it are 128 KiB
constexpr int64_t most_rows = 1024;   // of a that are read at once: 2 MiB
// A result of so many numbers that is written once goes past the caches, as a gradient of a weight does. The update
// reads it later.
constexpr int64_t many_numbers = 64 << 10;

// The numbers (i, k) of a matrix, i its rows or columns.
struct Numbers {
  const uint16_t* from;
  int64_t i_stride, k_stride;
  int64_t i_size, k_size;

  // The pair of k and k + 1, which is 0 after the end.
  [[nodiscard]] Pair pair(int64_t i, int64_t k) const {
    const uint16_t* at = from + i * i_stride + k * k_stride;
    const Pair second = k + 1 < k_size ? at[k_stride] : 0;
    return at[0] | second << 16;
  }
};

// 8 x 8 pairs, rows to columns.
void transpose8(__m256i (&r)[8]) {
  __m256i t[8];
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
    const __m256i low = _mm256_permute2x128_si256(r[i], r[i + 4], 0x20);
    r[i + 4] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x31);
    r[i] = low;
  }
}

// 8 numbers each of k and k + 1, side by side.
__m256i pairs8(const uint16_t* first, const uint16_t* second) {
  const __m256i low = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(first))),
                high = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(second)));
  return _mm256_or_si256(low, _mm256_slli_epi32(high, 16));
}

enum class Along { i, k };

// All pairs. Those along `along` stand side by side; such rows are `to_row` pairs apart.
template <Along along>
void pack(const Numbers& numbers, Pair* to, int64_t to_row) {
  const auto place = [&](int64_t i, int64_t p) { return to + (along == Along::i ? p * to_row + i : i * to_row + p); };
  const bool k_lies = numbers.k_stride == 1, in_blocks = k_lies || numbers.i_stride == 1;
  const int64_t block_i = in_blocks ? numbers.i_size / 8 * 8 : 0, block_p = in_blocks ? numbers.k_size / 16 * 8 : 0;
  for (int64_t p = 0; p < block_p; p += 8) {
    for (int64_t i = 0; i < block_i; i += 8) {
      const uint16_t* from = numbers.from + i * numbers.i_stride + 2 * p * numbers.k_stride;
      __m256i r[8];
      for (int64_t l = 0; l < 8; ++l) {
        r[l] = k_lies ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + l * numbers.i_stride))
                      : pairs8(from + 2 * l * numbers.k_stride, from + (2 * l + 1) * numbers.k_stride);
      }
      if (k_lies == (along == Along::i)) transpose8(r);
      for (int64_t l = 0; l < 8; ++l) _mm256_storeu_si256(reinterpret_cast<__m256i*>(place(i, p) + l * to_row), r[l]);
    }
  }
  for (int64_t p = 0; 2 * p < numbers.k_size; ++p) {
    for (int64_t i = p < block_p ? block_i : 0; i < numbers.i_size; ++i) *place(i, p) = numbers.pair(i, 2 * p);
  }
}

// Sums of a block, plus the bias of each column, to where they belong. (The instruction that rounds to bfloat16 would
// take numbers below the smallest normal one for 0.)
void put(const float* from, int64_t from_row, int64_t rows, int64_t columns, const float* bias, const Product& g,
         int64_t row, int64_t column, bool past_caches) {
  for (int64_t i = 0; i < rows; ++i, from += from_row) {
    const int64_t at = (row + i) * g.c_row + column;
    if (g.c_type == Number::bf16) {
      uint16_t* to = static_cast<uint16_t*>(g.c) + at;
      for (int64_t j = 0; j < columns; ++j) to[j] = BFloat16(from[j] + bias[j]).bits;
    } else {
      float* to = static_cast<float*>(g.c) + at;
      int64_t j = 0;
      for (; past_caches && j + width <= columns; j += width) {
        _mm512_stream_ps(to + j, _mm512_add_ps(_mm512_loadu_ps(from + j), _mm512_loadu_ps(bias + j)));
      }
      for (; j < columns; ++j) to[j] = from[j] + bias[j];
    }
  }
}

}  // namespace

void product_bf16(const Product& g, int64_t part, int64_t parts) {
  const Block block = block_of(g.M, g.N, width, width, part, parts);
  if (block.is_empty()) return;
  const auto [row_begin, row_end, column_begin, column_end] = block;
  const auto *a = static_cast<const uint16_t*>(g.a), *b = static_cast<const uint16_t*>(g.b);
  const int64_t chunks = (g.K + most_k - 1) / most_k, most_depth = (g.K + 2 * chunks - 1) / (2 * chunks) * 2;
  const int64_t rows_at_once = least(row_end - row_begin, most_rows);
  const bool a_lies = g.a_column == 1 && g.K % 2 == 0;  // and is read where it is
  constexpr int64_t line = 32;  // numbers of a cache line: rows a power of 2 apart evict each other
  const int64_t a_row = a_lies ? g.a_row : most_depth + line;
  const bool at_lines = reinterpret_cast<uintptr_t>(g.c) % 64 == 0 && g.c_row % width == 0;
  const bool past_caches = chunks == 1 && !g.accumulate && g.M * g.N >= many_numbers && at_lines;
  const bool direct = g.c_type == Number::f32 && g.bias == nullptr && !past_caches;  // c holds the sums
  const int64_t sums_row = chunks > 1 ? column_end - column_begin : NR;
  Buffer<Pair> a_pairs(a_lies ? 1 : rows_at_once * a_row / 2), b_panel(NR * most_depth / 2);
  Row sums(direct ? 1 : (chunks > 1 ? rows_at_once : MR) * sums_row), bias(NR);

  for (int64_t i0 = row_begin; i0 < row_end; i0 += most_rows) {
    const int64_t rows = least(most_rows, row_end - i0);
    for (int64_t k0 = 0; k0 < g.K; k0 += most_depth) {
      const int64_t depth = least(most_depth, g.K - k0);
      const uint16_t* from_a = a + i0 * g.a_row + k0 * g.a_column;
      if (!a_lies) {
        pack<Along::k>({from_a, g.a_row, g.a_column, rows, depth}, a_pairs.data(), a_row / 2);
        from_a = reinterpret_cast<const uint16_t*>(a_pairs.data());
      }
      for (int64_t j = column_begin; j < column_end; j += NR) {
        const int64_t columns = least(NR, column_end - j);
        pack<Along::i>({b + k0 * g.b_row + j * g.b_column, g.b_column, g.b_row, columns, depth}, b_panel.data(), NR);
        for (int64_t n = 0; n < columns; ++n) bias.data()[n] = g.bias != nullptr ? g.bias[j + n] : 0;
        for (int64_t i = 0; i < rows; i += MR) {
          const int64_t there = least(MR, rows - i);
          float* to = direct ? static_cast<float*>(g.c) + (i0 + i) * g.c_row + j
                             : sums.data() + (chunks > 1 ? i * sums_row + j - column_begin : 0);
          const int64_t to_row = direct ? g.c_row : sums_row;
          block_product(there, columns, (depth + 1) / 2, from_a + i * a_row, a_row, b_panel.data(), NR, to, to_row,
                        k0 > 0 || g.accumulate);
          if (!direct && k0 + depth == g.K) put(to, to_row, there, columns, bias.data(), g, i0 + i, j, past_caches);
        }
      }
    }
  }
  end_block_products();
  _mm_sfence();  // before another thread reads what went past the caches
}

}  // namespace model::cpu
