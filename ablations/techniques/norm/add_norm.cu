// Residual addition and LayerNorm.
//
//     s = x + y, rounded to T;  m = mean of s;  r = 1 / sqrt(mean of (s - m)^2 + eps);  h = (s - m) r;  n = h w + b
//     ds = upstream(s) + r (g - mean of g - h * mean of (g h)),  g = upstream(n) w
//     dw = sum over rows of upstream(n) h;  db = sum over rows of upstream(n)
//
// Moves 4 N C elements forward (x, y, s, n) and 4 N C backward (upstream(s), upstream(n), s, ds). Where branches have
// another type than the stream, 5 N C backward: ds is written in both.
//
// A warp has a row. Where the row is no longer than `Columns` * 32, each lane keeps its part in registers. The row is
// then read once, all of it at once, and the variance comes from the differences. Longer rows, and rows that are no
// multiple of 16 bytes, are read again for each of three passes (Columns = 0). By then they come from L1 or L2.
//
// The backward pass keeps dw and db of its columns in registers, too, over all rows of the warp. The warps of a block
// add theirs up in shared memory. The blocks' are added up by finish_columns(). For Columns = 0 a kernel of its own
// reads upstream(n) and s once more: 2 N C more.
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances: those with <Width, Columns>, else all others.
//     add_norm_forward_kernel<8, 24>   94 registers, 128 threads, 20 warps of 64, 16-byte loads and stores
//     add_norm_forward_kernel<4, 24>   96 registers, 128 threads, 20 warps of 64, 16-byte loads and stores
//     add_norm_forward_kernel          250 registers, 128 threads, 8 warps of 64, 16-byte loads and stores
//     add_norm_backward_kernel<8, 24>  168 registers, 128 threads, 12 warps of 64, 16-byte loads and stores
//     add_norm_backward_kernel<4, 24>  168 registers, 128 threads, 12 warps of 64, 16-byte loads and stores
//     add_norm_backward_kernel         228 registers, 128 threads, 8 warps of 64, 16-byte loads and stores
//     add_norm_weight_gradient_kernel  30 registers, 128 threads, 64 warps of 64
#include "ablations/techniques/norm/add_norm.h"

#include "ablations/techniques/cuda/fp8.h"

namespace kernels {
namespace {

// Small blocks: more registers for each thread, and no fewer warps.
constexpr int threads = 128, warps = threads / warp_size;

// A lane's part of a row: vectors lane, lane + 32, ... There are `Held` of them, in registers, or any number if Held is
// 0. First read(i, k) loads vector i, the lane's k-th; use(i, k) follows. With registers for all, all loads come first.
template <int Held, class Read, class Use>
__device__ void for_lanes_part(int vectors, Read read, Use use) {
  if constexpr (Held > 0) {
#pragma unroll
    for (int k = 0; k < Held; ++k) {
      if (const int i = lane() + k * warp_size; i < vectors) read(i, k);
    }
#pragma unroll
    for (int k = 0; k < Held; ++k) {
      if (const int i = lane() + k * warp_size; i < vectors) use(i, k);
    }
  } else {
    for (int i = lane(); i < vectors; i += warp_size) {
      read(i, 0);
      use(i, 0);
    }
  }
}

template <class T, class B, class W, int Width, int Columns>
__global__ __launch_bounds__(threads) void add_norm_forward_kernel(const AddNormForward<T, B, W> a) {
  constexpr int held = Columns / Width, slots = held > 0 ? held : 1;
  const int64_t row = int64_t{blockIdx.x} * warps + warp();
  if (row >= a.N) return;
  const int C = static_cast<int>(a.C), vectors = C / Width;
  const T* x = a.x + row * C;
  const B* y = a.y + row * C;
  T* sums = a.sum + row * C;
  const bool adds = a.y != nullptr;

  Vector<T, Width> s[slots];
  Vector<B, Width> added[slots];
  float total = 0;
  for_lanes_part<held>(
      vectors,
      [&](int i, int k) {
        s[k] = load<Width>(x + i * Width);
        if (adds) added[k] = load<Width>(y + i * Width);
      },
      [&](int i, int k) {
#pragma unroll
        for (int e = 0; e < Width; ++e) {
          if (adds) s[k].values[e] = from_float<T>(to_float(s[k].values[e]) + to_float(added[k].values[e]));
          total += to_float(s[k].values[e]);
        }
        if (adds) store(sums + i * Width, s[k]);
      });
  const float mean = warp_sum(total) / static_cast<float>(C);

  const T* again = adds ? sums : x;
  const auto read_again = [&](int i, int k) {
    if constexpr (held == 0) s[k] = load<Width>(again + i * Width);
  };
  float squares = 0;
  for_lanes_part<held>(vectors, read_again, [&](int, int k) {
#pragma unroll
    for (int e = 0; e < Width; ++e) {
      const float difference = to_float(s[k].values[e]) - mean;
      squares += difference * difference;
    }
  });
  const float rstd = inverse_sqrt(warp_sum(squares) / static_cast<float>(C) + a.eps);

  B* normalized = a.normalized + row * C;
  Vector<W, Width> weight[slots], bias[slots];
  for_lanes_part<held>(
      vectors,
      [&](int i, int k) {
        read_again(i, k);
        weight[k] = load<Width>(a.weight + i * Width);
        bias[k] = load<Width>(a.bias + i * Width);
      },
      [&](int i, int k) {
        Vector<B, Width> out;
#pragma unroll
        for (int e = 0; e < Width; ++e) {
          const float h = (to_float(s[k].values[e]) - mean) * rstd;
          out.values[e] = from_float<B>(h * to_float(weight[k].values[e]) + to_float(bias[k].values[e]));
        }
        store(normalized + i * Width, out);
        if constexpr (std::is_same_v<B, bf16> && Width == 8) {
          if (a.copy != nullptr) {
            float rounded[Width];
#pragma unroll
            for (int e = 0; e < Width; ++e) rounded[e] = to_float(out.values[e]);
            store_8_fp8(a.copy + row * C + i * Width, rounded, 1.0F / *a.copy_scale, __NV_E4M3);
          }
        }
      });
  if (lane() == 0) {
    a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
}

// Blocks of a multiprocessor, as many as the registers allow.
constexpr int backward_blocks(int columns) { return columns > 24 ? 2 : 3; }

template <class T, class B, class W, int Width, int Columns>
__global__ __launch_bounds__(threads,
                             backward_blocks(Columns)) void add_norm_backward_kernel(const AddNormBackward<T, B, W> a) {
  constexpr int held = Columns / Width, slots = held > 0 ? held : 1;
  const int C = static_cast<int>(a.C), vectors = C / Width;
  const bool adds = a.of_sum != nullptr;
  // A float32 stream beside 16-bit branches takes too many registers if its gradient is read with the rest.
  constexpr bool late = held > 0 && !std::is_same_v<T, B>;
  float weight_sums[slots][Width] = {}, bias_sums[slots][Width] = {};
  Vector<W, Width> weight[slots];  // the same for every row
  const auto read_weight = [&](int i, int k) { weight[k] = load<Width>(a.weight + i * Width); };
  if constexpr (held > 0) for_lanes_part<held>(vectors, read_weight, [](int, int) {});

  for (int64_t row = int64_t{blockIdx.x} * warps + warp(); row < a.N; row += int64_t{gridDim.x} * warps) {
    const T* s = a.sum + row * C;
    const T* of_sum = a.of_sum + row * C;
    const B* of_normalized = a.of_normalized + row * C;
    const float mean = a.mean[row], rstd = a.rstd[row];
    Vector<T, Width> sum[slots], passing[slots];
    Vector<B, Width> upstream[slots];
    const auto h = [&](T value) { return (to_float(value) - mean) * rstd; };
    const auto read = [&](int i, int k) {
      sum[k] = load<Width>(s + i * Width);
      upstream[k] = load<Width>(of_normalized + i * Width);
      if (adds && !late) passing[k] = load<Width>(of_sum + i * Width);
      if constexpr (held == 0) read_weight(i, k);
    };
    const auto read_again = [&](int i, int k) {
      if constexpr (held == 0) read(i, k);
    };

    float g_total = 0, gh_total = 0;
    for_lanes_part<held>(vectors, read, [&](int, int k) {
#pragma unroll
      for (int e = 0; e < Width; ++e) {
        const float du = to_float(upstream[k].values[e]), g = du * to_float(weight[k].values[e]);
        g_total += g;
        gh_total += g * h(sum[k].values[e]);
        if constexpr (held > 0) {
          bias_sums[k][e] += du;
          weight_sums[k][e] += du * h(sum[k].values[e]);
        }
      }
    });
    const float g_mean = warp_sum(g_total) / static_cast<float>(C);
    const float gh_mean = warp_sum(gh_total) / static_cast<float>(C);

    T* gradient = a.gradient + row * C;
    B* branch_gradient = a.branch_gradient + row * C;
    for_lanes_part<held>(vectors, read_again, [&](int i, int k) {
      Vector<T, Width> out;
      Vector<B, Width> of_branch;
      if (adds && late) passing[k] = load<Width>(of_sum + i * Width);
#pragma unroll
      for (int e = 0; e < Width; ++e) {
        const float g = to_float(upstream[k].values[e]) * to_float(weight[k].values[e]);
        const float own = rstd * (g - g_mean - h(sum[k].values[e]) * gh_mean);
        const float total = adds ? to_float(passing[k].values[e]) + own : own;
        out.values[e] = from_float<T>(total);
        if constexpr (!std::is_same_v<T, B>) of_branch.values[e] = from_float<B>(total);
      }
      store(gradient + i * Width, out);
      if constexpr (!std::is_same_v<T, B>) {
        if (a.branch_gradient != nullptr) store(branch_gradient + i * Width, of_branch);
      }
    });
  }

  if constexpr (held > 0) {
    constexpr int tile = warp_size * Width;  // the columns of the lanes' k-th vectors
    __shared__ Shared<float, warps * tile> of_warps;
    const int64_t strips = gridDim.x;
#pragma unroll
    for (int output = 0; output < 2; ++output) {
#pragma unroll
      for (int k = 0; k < held; ++k) {
#pragma unroll
        for (int e = 0; e < Width; ++e)
          of_warps[warp() * tile + lane() * Width + e] = output == 0 ? weight_sums[k][e] : bias_sums[k][e];
        __syncthreads();
        for (int c = static_cast<int>(threadIdx.x); c < tile; c += threads) {
          float sum = 0;
#pragma unroll
          for (int w = 0; w < warps; ++w) sum += of_warps[w * tile + c];
          if (k * tile + c < C) a.partials[(output * strips + blockIdx.x) * C + k * tile + c] = sum;
        }
        __syncthreads();
      }
    }
  }
}

// dw and db where the kernel above has no registers for them: a thread has a column of a strip.
template <class T, class B, class W>
__global__ __launch_bounds__(threads) void add_norm_weight_gradient_kernel(const AddNormBackward<T, B, W> a) {
  const int64_t column = int64_t{blockIdx.x} * threads + threadIdx.x, strips = gridDim.y;
  if (column >= a.C) return;
  float weight_sum = 0, bias_sum = 0;
#pragma unroll 4
  for (int64_t row = blockIdx.y; row < a.N; row += strips) {
    const float du = to_float(a.of_normalized[row * a.C + column]);
    weight_sum += du * (to_float(a.sum[row * a.C + column]) - a.mean[row]) * a.rstd[row];
    bias_sum += du;
  }
  a.partials[int64_t{blockIdx.y} * a.C + column] = weight_sum;
  a.partials[(strips + blockIdx.y) * a.C + column] = bias_sum;
}

// As many as the device runs at once, but no warp without a row.
int64_t strips_for(int64_t N, int columns) {
  return std::min<int64_t>(backward_blocks(columns) * multiprocessors(), ceil_div(N, warps));
}

// The `Columns` a lane needs where it may have them, else 0.
int columns_for(int64_t C, int width, std::initializer_list<int> compiled) {
  if (C % width != 0) return 0;
  const int64_t needed = ceil_div(C / width, warp_size) * width;
  for (const int columns : compiled) {
    if (needed <= columns) return columns;
  }
  return 0;
}

template <int N>
using Int = std::integral_constant<int, N>;

}  // namespace

template <class T, class B, class W>
void add_norm_forward(const AddNormForward<T, B, W>& a, cudaStream_t stream) {
  if (a.N == 0 || a.C == 0) return;
  constexpr int width = full_width<B>;  // of the narrower type
  const bool whole = a.C % width == 0 && aligned(a.x, a.y, a.sum, a.normalized, a.weight, a.bias);
  const auto run = [&](auto w, auto columns) {
    launch("add_norm_forward", add_norm_forward_kernel<T, B, W, decltype(w)::value, decltype(columns)::value>,
           grid_of(ceil_div(a.N, warps)), threads, stream, a);
  };
  if (!whole) return run(Int<1>(), Int<0>());
  switch (columns_for(a.C, width, {24, 32, 64})) {
    case 24:
      return run(Int<width>(), Int<24>());  // C to 768
    case 32:
      return run(Int<width>(), Int<32>());  // to 1,024
    case 64:
      return run(Int<width>(), Int<64>());  // to 2,048
    default:
      return run(Int<width>(), Int<0>());
  }
}

template <class B>
int64_t add_norm_backward_strips(int64_t N, int64_t C) {
  return strips_for(N, columns_for(C, full_width<B>, {24, 32}));
}

template <class T, class B, class W>
void add_norm_backward(const AddNormBackward<T, B, W>& a, cudaStream_t stream) {
  if (a.N == 0) return;
  constexpr int width = full_width<B>;  // of the narrower type
  const bool whole =
      a.C % width == 0 && aligned(a.of_sum, a.of_normalized, a.sum, a.gradient, a.branch_gradient, a.weight);
  const int columns = whole ? columns_for(a.C, width, {24, 32}) : 0;
  const int64_t strips = add_norm_backward_strips<B>(a.N, a.C);
  const auto run = [&](auto w, auto c) {
    const int64_t blocks = columns > 0 ? strips : ceil_div(a.N, warps);  // without column sums a warp has one row
    launch("add_norm_backward", add_norm_backward_kernel<T, B, W, decltype(w)::value, decltype(c)::value>,
           grid_of(blocks), threads, stream, a);
  };
  if (columns == 0) {  // first: `gradient` may be `of_normalized`
    launch("add_norm_weight_gradient", add_norm_weight_gradient_kernel<T, B, W>,
           grid_of(ceil_div(a.C, threads), strips), threads, stream, a);
  }
  if (columns == 24) {
    run(Int<width>(), Int<24>());
  } else if (columns == 32) {
    run(Int<width>(), Int<32>());
  } else if (whole) {
    run(Int<width>(), Int<0>());
  } else {
    run(Int<1>(), Int<0>());
  }
}

template int64_t add_norm_backward_strips<float>(int64_t, int64_t);
template int64_t add_norm_backward_strips<bf16>(int64_t, int64_t);

template void add_norm_forward<float, float, float>(const AddNormForward<float, float, float>&, cudaStream_t);
template void add_norm_forward<float, bf16, float>(const AddNormForward<float, bf16, float>&, cudaStream_t);
template void add_norm_forward<bf16, bf16, float>(const AddNormForward<bf16, bf16, float>&, cudaStream_t);
template void add_norm_backward<float, float, float>(const AddNormBackward<float, float, float>&, cudaStream_t);
template void add_norm_backward<float, bf16, float>(const AddNormBackward<float, bf16, float>&, cudaStream_t);
template void add_norm_backward<bf16, bf16, float>(const AddNormBackward<bf16, bf16, float>&, cudaStream_t);

}  // namespace kernels
