// The loops of kernels.h, included once for each instruction set by a file that sets KERNELS, the name of the table.
//
// The linker keeps one copy of each inline function of a program, and it may be this file's, compiled for instructions
// that the machine has not. So nothing of the standard library is used here that could be such a function, and ATen's
// vectors stand in a namespace for each instruction set.
#include "model/cpu/kernels.h"

#include <ATen/cpu/vec/vec.h>

#include <cstdlib>

namespace model::cpu {
namespace {

using Vector = at::vec::Vectorized<float>;

// c10::BFloat16's arithmetic, in functions that are this file's alone.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  // To the nearest, of two as near to the even one; a NaN stays one.
  explicit BFloat16(float value) {
    const auto from = __builtin_bit_cast(uint32_t, value);
    const uint32_t rounded = (from + 0x7FFF + ((from >> 16) & 1)) >> 16;
    bits = static_cast<uint16_t>(value == value ? rounded : 0x7FC0);
  }
  explicit operator float() const { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }
};

// `size` floats at the beginning of a cache line. Freed at the end of the scope.
class Row {
 public:
  explicit Row(int64_t size)
      : data_(static_cast<float*>(std::aligned_alloc(64, (static_cast<size_t>(size) * sizeof(float) + 63) / 64 * 64))) {
    if (data_ == nullptr) std::abort();
  }
  ~Row() { std::free(data_); }
  Row(const Row&) = delete;  // frees once
  Row& operator=(const Row&) = delete;
  float* data() { return data_; }

 private:
  float* data_;
};

template <class T>
const T* row_of(const void* matrix, int64_t row, int64_t columns) {
  return static_cast<const T*>(matrix) + row * columns;
}
template <class T>
T* row_of(void* matrix, int64_t row, int64_t columns) {
  return static_cast<T*>(matrix) + row * columns;
}

// Calls f(Vector of in's numbers from j on, j) and writes what it returns. The last vector may be shorter; what is
// beyond its end is 0 and is not written.
template <class F>
void map_row(const float* in, float* out, int64_t n, F&& f) {
  int64_t j = 0;
  for (; j + Vector::size() <= n; j += Vector::size()) f(Vector::loadu(in + j), j).store(out + j);
  if (j < n) f(Vector::loadu(in + j, n - j), j).store(out + j, static_cast<int>(n - j));
}

float sum_of(Vector v) {
  float lanes[Vector::size()];
  v.store(lanes);
  float sum = 0;
  for (float lane : lanes) sum += lane;
  return sum;
}

// ---- Residual addition and LayerNorm

template <class X, class Y, class N>
void add_norm_rows(const AddNorm& a, int64_t begin, int64_t end) {
  const int64_t C = a.C;
  Row scratch(C);
  float* __restrict row = scratch.data();
  for (int64_t i = begin; i < end; ++i) {
    const X* __restrict x = row_of<X>(a.x, i, C);
    if (a.y != nullptr) {
      const Y* __restrict y = row_of<Y>(a.y, i, C);
      X* __restrict sum = row_of<X>(a.sum, i, C);
      for (int64_t j = 0; j < C; ++j) {
        const X rounded = static_cast<X>(static_cast<float>(x[j]) + static_cast<float>(y[j]));
        sum[j] = rounded;
        row[j] = static_cast<float>(rounded);
      }
    } else {
      for (int64_t j = 0; j < C; ++j) row[j] = static_cast<float>(x[j]);
    }
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < C; ++j) total += row[j];
    const float mean = total / static_cast<float>(C);
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t j = 0; j < C; ++j) squares += (row[j] - mean) * (row[j] - mean);
    const float rstd = 1.0F / __builtin_sqrtf(squares / static_cast<float>(C) + a.eps);
    a.mean[i] = mean;
    a.rstd[i] = rstd;
    N* __restrict out = row_of<N>(a.normalized, i, C);
    for (int64_t j = 0; j < C; ++j) out[j] = static_cast<N>((row[j] - mean) * rstd * a.weight[j] + a.bias[j]);
  }
}

template <class X, class Y, class N>
void add_norm_backward_rows(const AddNormBackward& a, int64_t begin, int64_t end, float* __restrict d_weight,
                            float* __restrict d_bias) {
  const int64_t C = a.C;
  Row of_n(C), of_g(C);
  float* __restrict n = of_n.data(), * __restrict g = of_g.data();
  for (int64_t i = begin; i < end; ++i) {
    const X* __restrict sum = row_of<X>(a.sum, i, C);
    const N* __restrict d_normalized = row_of<N>(a.d_normalized, i, C);
    const float mean = a.mean[i], rstd = a.rstd[i];
    float total_g = 0, total_gn = 0;
#pragma omp simd reduction(+ : total_g, total_gn)
    for (int64_t j = 0; j < C; ++j) {
      const float d = static_cast<float>(d_normalized[j]);
      n[j] = (static_cast<float>(sum[j]) - mean) * rstd;
      g[j] = d * a.weight[j];
      total_g += g[j];
      total_gn += g[j] * n[j];
      d_weight[j] += d * n[j];
      d_bias[j] += d;
    }
    const float mean_g = total_g / static_cast<float>(C), mean_gn = total_gn / static_cast<float>(C);
    for (int64_t j = 0; j < C; ++j) g[j] = rstd * (g[j] - mean_g - n[j] * mean_gn);
    if (a.d_sum != nullptr) {
      const X* __restrict d_sum = row_of<X>(a.d_sum, i, C);
      for (int64_t j = 0; j < C; ++j) g[j] += static_cast<float>(d_sum[j]);
    }
    X* __restrict dx = row_of<X>(a.dx, i, C);
    for (int64_t j = 0; j < C; ++j) dx[j] = static_cast<X>(g[j]);
    if (a.dy != nullptr) {
      Y* __restrict dy = row_of<Y>(a.dy, i, C);
      for (int64_t j = 0; j < C; ++j) dy[j] = static_cast<Y>(g[j]);
    }
  }
}

// The three types are one of four combinations: float32 throughout, a float32 stream with 16-bit branches, and 16 bits
// throughout; the first LayerNorm has no branch.
template <class Run>
void by_types(Number stream, Number branch, Number out, Run&& run) {
  const bool x16 = stream == Number::bf16, y16 = branch == Number::bf16, n16 = out == Number::bf16;
  if (x16) return run(BFloat16(), BFloat16(), BFloat16());
  if (n16) return y16 ? run(float(), BFloat16(), BFloat16()) : run(float(), float(), BFloat16());
  return y16 ? run(float(), BFloat16(), float()) : run(float(), float(), float());
}

void add_norm(const AddNorm& a, int64_t begin, int64_t end) {
  by_types(a.stream, a.branch, a.out,
           [&]<class X, class Y, class N>(X, Y, N) { add_norm_rows<X, Y, N>(a, begin, end); });
}

void add_norm_backward(const AddNormBackward& a, int64_t begin, int64_t end, float* d_weight, float* d_bias) {
  by_types(a.stream, a.branch, a.out, [&]<class X, class Y, class N>(X, Y, N) {
    add_norm_backward_rows<X, Y, N>(a, begin, end, d_weight, d_bias);
  });
}

// ---- GELU

constexpr float root_2_over_pi = 0.7978845608028654F, cubic = 0.044715F;

// 1 / (1 + exp(-2 z))
Vector gate_of(const Vector& u) {
  const Vector z = Vector(root_2_over_pi) * u * (Vector(1.0F) + Vector(cubic) * u * u);
  return Vector(1.0F) / (Vector(1.0F) + (Vector(-2.0F) * z).exp());
}

template <class T>
void gelu_rows(const Gelu& a, int64_t begin, int64_t end) {
  const int64_t n = a.columns;
  Row scratch(n);
  float* __restrict row = scratch.data();
  for (int64_t i = begin; i < end; ++i) {
    const T* __restrict x = row_of<T>(a.x, i, n);
    for (int64_t j = 0; j < n; ++j) row[j] = static_cast<float>(x[j]) + a.bias[j];
    map_row(row, row, n, [](const Vector& u, int64_t) { return u * gate_of(u); });
    T* __restrict y = row_of<T>(a.y, i, n);
    for (int64_t j = 0; j < n; ++j) y[j] = static_cast<T>(row[j]);
  }
}

template <class T>
void gelu_backward_rows(const GeluBackward& a, int64_t begin, int64_t end, float* __restrict d_bias) {
  const int64_t n = a.columns;
  Row of_u(n), of_slope(n);
  float* __restrict u = of_u.data(), * __restrict slope = of_slope.data();
  for (int64_t i = begin; i < end; ++i) {
    const T* __restrict x = row_of<T>(a.x, i, n);
    for (int64_t j = 0; j < n; ++j) u[j] = static_cast<float>(x[j]) + a.bias[j];
    map_row(u, u, n, [slope, n](const Vector& v, int64_t j) {
      const Vector gate = gate_of(v);
      // d(u gate) / du = gate + u gate (1 - gate) 2 dz/du
      const Vector dz = Vector(root_2_over_pi) * (Vector(1.0F) + Vector(3 * cubic) * v * v);
      const Vector result = gate + v * gate * (Vector(1.0F) - gate) * Vector(2.0F) * dz;
      result.store(slope + j, static_cast<int>(n - j < Vector::size() ? n - j : Vector::size()));
      return v * gate;
    });
    T* __restrict y = row_of<T>(a.y, i, n);
    for (int64_t j = 0; j < n; ++j) y[j] = static_cast<T>(u[j]);
    const T* dy = row_of<T>(a.dy, i, n);
    T* dx = row_of<T>(a.dx, i, n);
    for (int64_t j = 0; j < n; ++j) slope[j] *= static_cast<float>(dy[j]);
    for (int64_t j = 0; j < n; ++j) dx[j] = static_cast<T>(slope[j]);
    for (int64_t j = 0; j < n; ++j) d_bias[j] += slope[j];
  }
}

void gelu(const Gelu& a, int64_t begin, int64_t end) {
  a.type == Number::bf16 ? gelu_rows<BFloat16>(a, begin, end) : gelu_rows<float>(a, begin, end);
}

void gelu_backward(const GeluBackward& a, int64_t begin, int64_t end, float* d_bias) {
  a.type == Number::bf16 ? gelu_backward_rows<BFloat16>(a, begin, end, d_bias)
                         : gelu_backward_rows<float>(a, begin, end, d_bias);
}

// ---- Loss

template <class T>
void loss_rows(const Loss& a, int64_t begin, int64_t end) {
  const int64_t n = a.columns;
  Row scratch(n);
  float* __restrict row = scratch.data();
  for (int64_t i = begin; i < end; ++i) {
    T* __restrict logits = row_of<T>(a.logits, i, a.stride);
    float most = -__builtin_inff();
#pragma omp simd reduction(max : most)
    for (int64_t j = 0; j < n; ++j) {
      row[j] = static_cast<float>(logits[j]);
      most = row[j] > most ? row[j] : most;
    }
    const int64_t target = a.targets[i];
    const float of_target = row[target];
    Vector total(0.0F);
    int64_t j = 0;
    for (; j + Vector::size() <= n; j += Vector::size()) {
      const Vector e = (Vector::loadu(row + j) - Vector(most)).exp();
      e.store(row + j);
      total = total + e;
    }
    float sum = sum_of(total);
    if (j < n) {
      float last[Vector::size()];
      (Vector::loadu(row + j, n - j) - Vector(most)).exp().store(last);
      for (int64_t k = 0; j + k < n; ++k) sum += row[j + k] = last[k];
    }
    a.loss[i] = __builtin_logf(sum) + most - of_target;
    if (!a.write_gradient) continue;
    const float factor = a.scale / sum;
    for (int64_t k = 0; k < n; ++k) logits[k] = static_cast<T>(row[k] * factor);
    logits[target] = static_cast<T>((row[target] / sum - 1.0F) * a.scale);
    for (int64_t k = n; k < a.stride; ++k) logits[k] = static_cast<T>(0.0F);
  }
}

void loss(const Loss& a, int64_t begin, int64_t end) {
  a.type == Number::bf16 ? loss_rows<BFloat16>(a, begin, end) : loss_rows<float>(a, begin, end);
}

// ---- Matrix products
//
// As in BLIS (Van Zee and van de Geijn, 2015): a tile of c of MR x NR numbers stays in registers while panels of a and
// b go by. Both are copied into panels first, in the order in which the tile reads them. A panel of b, K x NR, stays in
// the nearest cache while all panels of a go by.

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

// c (MR, NR) = first + a b, or c += a b where first is null. `first` has NR numbers, each row's.
template <int64_t... I>
void tile(Rows<I...>, int64_t k, const float* __restrict a, const float* __restrict b, float* __restrict c,
          int64_t c_row, const float* __restrict first) {
  const auto at = [](const float* from) -> Register { return *reinterpret_cast<const Unaligned*>(from); };
  const auto put = [](const Register& value, float* to) { *reinterpret_cast<Unaligned*>(to) = value; };
  Register left[MR], right[MR];
  if (first != nullptr) {
    ((left[I] = at(first), right[I] = at(first + width)), ...);
  } else {
    ((left[I] = at(c + I * c_row), right[I] = at(c + I * c_row + width)), ...);
  }
  for (int64_t p = 0; p < k; ++p) {
    const Register l = at(b), r = at(b + width);
    ((left[I] += a[I] * l, right[I] += a[I] * r), ...);
    a += MR;
    b += NR;
  }
  ((put(left[I], c + I * c_row), put(right[I], c + I * c_row + width)), ...);
}

// Panels of MR rows: panel, then k, then row. Rows that are not there are 0.
void pack_rows(const Product& g, int64_t row, int64_t rows, int64_t k, int64_t depth, float* __restrict to) {
  for (int64_t panel = 0; panel < rows; panel += MR, to += MR * depth) {
    const float* from = g.a + (row + panel) * g.a_row + k * g.a_column;
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
  const float* from = g.b + k * g.b_row + column * g.b_column;
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

int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

// Where share `part` of `size` begins, in whole units.
int64_t share(int64_t size, int64_t unit, int64_t part, int64_t parts) {
  const int64_t units = (size + unit - 1) / unit;
  return least(size, units * part / parts * unit);
}

void product(const Product& g, int64_t part, int64_t parts) {
  const bool by_columns = g.N >= g.M;
  const int64_t row_begin = by_columns ? 0 : share(g.M, MR, part, parts);
  const int64_t row_end = by_columns ? g.M : share(g.M, MR, part + 1, parts);
  const int64_t column_begin = by_columns ? share(g.N, NR, part, parts) : 0;
  const int64_t column_end = by_columns ? share(g.N, NR, part + 1, parts) : g.N;
  if (row_begin == row_end || column_begin == column_end) return;
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
          float* c = g.c + (i0 + i) * g.c_row + j;
          const int64_t there = least(MR, rows - i);
          if (there == MR && columns == NR) {
            tile(MakeRows<MR>::type(), depth, a, b_panel.data(), c, g.c_row, adds ? nullptr : first.data());
            continue;
          }
          tile(MakeRows<MR>::type(), depth, a, b_panel.data(), edge.data(), NR, first.data());
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

const Kernels KERNELS{add_norm, add_norm_backward, gelu, gelu_backward, loss, product};

}  // namespace model::cpu
