// Matrix products, as in BLIS (Van Zee and van de Geijn, 2015). A tile of c of MR x NR numbers stays in registers while
// panels of a and b go by. Both are copied into panels first, in the order in which the tile reads them. A panel of b,
// K x NR, stays in the nearest cache while all panels of a go by. Part of kernels.inc.h.
#pragma once

#include "ablations/techniques/cpu/vectors.inc.h"
#include "ablations/techniques/products/loops.h"

namespace model::cpu {
namespace {

constexpr int64_t width = Vector::size();
constexpr int64_t MR = width == 16 ? 14 : 6, NR = 2 * width;  // with two vectors of b and one of a: all registers
constexpr int64_t most_k = 768;                               // of a panel: NR columns of it are 48 or 96 KiB
constexpr int64_t most_rows = 2048;                           // of a that are copied at once

template <int64_t... I>
struct Rows {};
template <int64_t N, int64_t... I>
struct MakeRows : MakeRows<N - 1, N - 1, I...> {};
template <int64_t... I>
struct MakeRows<0, I...> {
  using type = Rows<I...>;
};

// A register of numbers; `Unaligned` is how it lies in memory.
using Register [[gnu::vector_size(width * 4)]] = float;
using Unaligned [[gnu::vector_size(width * 4), gnu::aligned(4), gnu::may_alias]] = float;

// c (MR, NR) = first + a b, or c += a b where first is null. `first` has NR numbers, each row's. The strides of a and b
// are constants of the caller, so it is compiled for each.
template <int64_t... I>
[[gnu::always_inline]] inline void tile(Rows<I...>, int64_t k, const float* __restrict a, int64_t a_row,
                                        int64_t a_column, const float* __restrict b, int64_t b_row, float* __restrict c,
                                        int64_t c_row, const float* __restrict first) {
  const auto at = [](const float* from) -> Register { return *reinterpret_cast<const Unaligned*>(from); };
  const auto put = [](const Register& value, float* to) { *reinterpret_cast<Unaligned*>(to) = value; };
  Register left[MR], right[MR];
  if (first != nullptr) {
    ((left[I] = at(first), right[I] = at(first + width)), ...);
    (__builtin_prefetch(c + I * c_row, /*to write=*/1), ...);  // it arrives while the tile is computed
  } else {
    ((left[I] = at(c + I * c_row), right[I] = at(c + I * c_row + width)), ...);
  }
  for (int64_t p = 0; p < k; ++p) {
    const Register l = at(b), r = at(b + width);
    ((left[I] += a[I * a_row] * l, right[I] += a[I * a_row] * r), ...);
    a += a_column;
    b += b_row;
  }
  ((put(left[I], c + I * c_row), put(right[I], c + I * c_row + width)), ...);
}

void packed_tile(int64_t k, const float* a, const float* b, float* c, int64_t c_row, const float* first) {
  tile(MakeRows<MR>::type(), k, a, 1, MR, b, NR, c, c_row, first);
}

// Panels of MR rows: panel, then k, then row. Rows that are not there are 0.
void pack_rows(const Product& g, int64_t row, int64_t rows, int64_t k, int64_t depth, float* __restrict to) {
  for (int64_t panel = 0; panel < rows; panel += MR, to += MR * depth) {
    const float* from = static_cast<const float*>(g.a) + (row + panel) * g.a_row + k * g.a_column;
    const int64_t there = rows - panel < MR ? rows - panel : MR;
    if (there == MR && g.a_row == 1) {
      for (int64_t p = 0; p < depth; ++p) {
        for (int64_t i = 0; i < MR; ++i) to[p * MR + i] = from[p * g.a_column + i];
      }
      continue;
    }
    for (int64_t i = 0; i < MR; ++i) {
      for (int64_t p = 0; p < depth; ++p) to[p * MR + i] = i < there ? from[i * g.a_row + p * g.a_column] : 0;
    }
  }
}

// A panel of NR columns: k, then column. Columns that are not there are 0.
void pack_columns(const Product& g, int64_t column, int64_t there, int64_t k, int64_t depth, float* __restrict to) {
  const float* from = static_cast<const float*>(g.b) + k * g.b_row + column * g.b_column;
  if (there == NR && g.b_column == 1) {
    for (int64_t p = 0; p < depth; ++p) {
      Vector::loadu(from + p * g.b_row).store(to + p * NR);
      Vector::loadu(from + p * g.b_row + width).store(to + p * NR + width);
    }
    return;
  }
  int64_t p = 0;
  if (there == NR && g.b_row == 1) {
    for (; p + width <= depth; p += width) {
      at::vec::transpose_mxn<float, width, width>(from + p, g.b_column, to + p * NR, NR);
      at::vec::transpose_mxn<float, width, width>(from + p + width * g.b_column, g.b_column, to + p * NR + width, NR);
    }
  }
  for (; p < depth; ++p) {
    for (int64_t j = 0; j < NR; ++j) to[p * NR + j] = j < there ? from[p * g.b_row + j * g.b_column] : 0;
  }
}

void product(const Product& g, int64_t part, int64_t parts) {
  const Block block = block_of(g.M, g.N, MR, NR, part, parts);
  if (block.is_empty()) return;
  const auto [row_begin, row_end, column_begin, column_end] = block;
  const int64_t chunks = (g.K + most_k - 1) / most_k, most_depth = (g.K + chunks - 1) / chunks;
  const int64_t rows_at_once = least(row_end - row_begin, most_rows);
  Row a_panels((rows_at_once + MR) * most_depth), b_panel(NR * most_depth), edge(MR * NR), first(NR);

  for (int64_t i0 = row_begin; i0 < row_end; i0 += most_rows) {
    const int64_t rows = least(most_rows, row_end - i0);
    for (int64_t k0 = 0; k0 < g.K; k0 += most_depth) {
      const int64_t depth = least(most_depth, g.K - k0);
      const bool adds = k0 > 0 || g.accumulate;
      pack_rows(g, i0, rows, k0, depth, a_panels.data());
      for (int64_t j = column_begin; j < column_end; j += NR) {
        const int64_t columns = least(NR, column_end - j);
        pack_columns(g, j, columns, k0, depth, b_panel.data());
        for (int64_t n = 0; n < NR; ++n) {
          first.data()[n] = !adds && g.bias != nullptr && n < columns ? g.bias[j + n] : 0;
        }
        for (int64_t i = 0; i < rows; i += MR) {
          const float* a = a_panels.data() + i * depth;
          float* c = static_cast<float*>(g.c) + (i0 + i) * g.c_row + j;
          const int64_t there = least(MR, rows - i);
          if (there == MR && columns == NR) {
            packed_tile(depth, a, b_panel.data(), c, g.c_row, adds ? nullptr : first.data());
            continue;
          }
          packed_tile(depth, a, b_panel.data(), edge.data(), NR, first.data());
          for (int64_t m = 0; m < there; ++m) {
            for (int64_t n = 0; n < columns; ++n) {
              const float result = edge.data()[m * NR + n];
              c[m * g.c_row + n] = adds ? c[m * g.c_row + n] + result : result;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace model::cpu
