// Residual addition and LayerNorm.
//
//     s = x + y, rounded to T;  m = mean of s;  r = 1 / sqrt(mean of (s - m)^2 + eps);  h = (s - m) r;  n = h w + b
//     ds = upstream(s) + r (g - mean of g - h * mean of (g h)),  g = upstream(n) w
//     dw = sum over rows of upstream(n) h;  db = sum over rows of upstream(n)
//
// Moves 4 N C elements forward (x, y, s, n) and 4 N C backward (upstream(s), upstream(n), s, ds). Where branches have
// another type than the stream, 5 N C backward: ds is written in both.
//
// With copies in fp8 N C bytes more, forward or backward.
//
// A warp has a row. Forward, where the row is no longer than `Columns` * 32, each lane keeps its part in registers. The
// row is then read once, all of it at once, and the variance comes from the differences. Longer rows, and rows that are
// no multiple of 16 bytes, are read again for each of three passes (Columns = 0). By then they come from L1 or L2.
//
// Backward, the rows of a block's warps are a tile in shared memory, where they have `Columns` at most. When each warp
// has made its row's ds, the threads sum the tile's columns: upstream(n) h, upstream(n) and, where a layer's bias needs
// it, ds as y's type rounds it. A thread keeps the sums of its columns over all tiles of the block. The blocks' are
// added up by finish_columns(). Four blocks of a multiprocessor hide each other's waiting. For Columns = 0 other
// kernels read upstream(n), s and ds once more: 2 or 3 N C more.
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances: those with <Width, Columns>, else all others.
// Bytes are those of a tile of so many columns of bf16, or of float32 where Width is 4. A float32 stream beside bf16
// branches takes 5 / 3 of bf16's.
//   add_norm_forward_kernel<8, 24>     94 registers, 128 threads, 20 warps of 64, 16-byte loads and stores
//   add_norm_forward_kernel<4, 24>     96 registers, 128 threads, 20 warps of 64, 16-byte loads and stores
//   add_norm_forward_kernel            250 registers, 128 threads, 8 warps of 64, 16-byte loads and stores
//   add_norm_backward_kernel<8, 768>   64 registers, 256 threads, 32 warps of 64, 36864 bytes, 16-byte loads and stores
//   add_norm_backward_kernel<4, 768>   64 registers, 256 threads, 24 warps of 64, 73728 bytes, 16-byte loads and stores
//   add_norm_backward_kernel<8, 1024>  64 registers, 256 threads, 32 warps of 64, 49152 bytes, 16-byte loads and stores
//   add_norm_backward_kernel<4, 1024>  64 registers, 256 threads, 16 warps of 64, 98304 bytes, 16-byte loads and stores
//   add_norm_backward_kernel           80 registers, 256 threads, 24 warps of 64, 16-byte loads and stores
//   add_norm_weight_gradient_kernel    30 registers, 128 threads, 64 warps of 64
#include "ablations/techniques/norm/add_norm.h"

#include "ablations/techniques/cuda/fp8_numbers.h"

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
        if constexpr (std::is_same_v<B, bf16> && held > 0) {
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

// Backward: the rows of a tile, and blocks of a multiprocessor.
constexpr int tile_rows = 8, tile_threads = tile_rows * warp_size, tile_blocks = 4;

template <class T, class B, class W, int Width, int Columns, bool Copies>
__global__ __launch_bounds__(tile_threads, Columns > 0
                                               ? tile_blocks
                                               : 3) void add_norm_backward_kernel(const AddNormBackward<T, B, W> a) {
  constexpr bool tiled = Columns > 0;
  constexpr int slots = tiled ? Columns / tile_threads : 1;  // columns of a thread
  const int C = static_cast<int>(a.C), thread = static_cast<int>(threadIdx.x);
  const bool adds = a.of_sum != nullptr, sums_branch = a.sums_branch;
  const int tile_bytes = tile_rows * C * static_cast<int>(sizeof(T));
  // The tile: what comes down the stream, later ds as y's type rounds it; s; upstream(n).
  const DynamicShared<T> passing_tile(0), sum_tile(tile_bytes);
  const DynamicShared<B> upstream_tile(2 * tile_bytes);
  float weight_sums[slots] = {}, bias_sums[slots] = {}, branch_sums[slots] = {};

  for (int64_t first = int64_t{blockIdx.x} * tile_rows; first < a.N; first += int64_t{gridDim.x} * tile_rows) {
    if (const int64_t row = first + warp(); row < a.N) {
      const T* s = a.sum + row * C;
      const T* of_sum = a.of_sum + row * C;
      const B* of_normalized = a.of_normalized + row * C;
      const int begin = warp() * C;  // of the row in the tile
      const auto for_lanes_part = [&](auto use) {
        for (int c = lane() * Width; c < C; c += warp_size * Width) use(c);
      };
      const float mean = a.mean[row], rstd = a.rstd[row];
      if constexpr (tiled) {
        for_lanes_part([&](int c) {
          begin_copy<Width>(sum_tile, begin + c, s + c);
          begin_copy<Width>(upstream_tile, begin + c, of_normalized + c);
          if (adds) begin_copy<Width>(passing_tile, begin + c, of_sum + c);
        });
        wait_for_copies();
      }
      Vector<T, Width> sum, passing;
      Vector<B, Width> upstream;
      Vector<W, Width> weight;
      const auto read = [&](int c) {
        if constexpr (tiled) {
          sum = load<Width>(sum_tile, begin + c);
          upstream = load<Width>(upstream_tile, begin + c);
        } else {
          sum = load<Width>(s + c);
          upstream = load<Width>(of_normalized + c);
        }
        weight = load<Width>(a.weight + c);
      };
      const auto g = [&](int e) { return to_float(upstream.values[e]) * to_float(weight.values[e]); };
      const auto h = [&](int e) { return (to_float(sum.values[e]) - mean) * rstd; };

      float g_total = 0, gh_total = 0;
      for_lanes_part([&](int c) {
        read(c);
#pragma unroll
        for (int e = 0; e < Width; ++e) {
          g_total += g(e);
          gh_total += g(e) * h(e);
        }
      });
      const float g_mean = warp_sum(g_total) / static_cast<float>(C);
      const float gh_mean = warp_sum(gh_total) / static_cast<float>(C);
      [[maybe_unused]] float greatest = 0;  // of y's gradient

      for_lanes_part([&](int c) {
        read(c);
        if constexpr (tiled) {
          if (adds) passing = load<Width>(passing_tile, begin + c);
        } else {
          if (adds) passing = load<Width>(of_sum + c);
        }
        Vector<T, Width> out;
        Vector<B, Width> of_branch;
#pragma unroll
        for (int e = 0; e < Width; ++e) {
          const float own = rstd * (g(e) - g_mean - h(e) * gh_mean);
          const float total = adds ? to_float(passing.values[e]) + own : own;
          out.values[e] = from_float<T>(total);
          of_branch.values[e] = from_float<B>(total);
          if constexpr (Copies) greatest = fmaxf(greatest, fabsf(to_float(of_branch.values[e])));
        }
        store(a.gradient + row * C + c, out);
        if constexpr (!std::is_same_v<T, B>) {
          if (a.branch_gradient != nullptr) store(a.branch_gradient + row * C + c, of_branch);
        }
        if constexpr (tiled) {
#pragma unroll
          for (int e = 0; e < Width; ++e) out.values[e] = from_float<T>(to_float(of_branch.values[e]));
          if (Copies || sums_branch) store(passing_tile, begin + c, out);
        }
      });
      if constexpr (Copies) {
        const float factor = fp8_factor(warp_max(greatest), largest_e4m3);
        const auto copy = [&](int c, const auto& of_branch) {  // what this lane has written
          float values[Width];
#pragma unroll
          for (int e = 0; e < Width; ++e) values[e] = to_float(of_branch.values[e]);
          store_8_fp8(a.copies.values + row * C + c, values, factor, __NV_E4M3);
        };
        for_lanes_part([&](int c) {
          if constexpr (tiled) {
            copy(c, load<Width>(passing_tile, begin + c));
          } else if constexpr (std::is_same_v<T, B>) {
            copy(c, load<Width>(a.gradient + row * C + c));
          } else {
            copy(c, load<Width>(a.branch_gradient + row * C + c));
          }
        });
        if (lane() == 0) a.copies.scales[row] = 1.0F / factor;
      }
    }
    if constexpr (tiled) {
      __syncthreads();
      // A thread without a column sums another's, which nobody reads.
      const int rows = a.N - first < tile_rows ? static_cast<int>(a.N - first) : tile_rows;
#pragma unroll 2
      for (int r = 0; r < rows; ++r) {
        const float mean = a.mean[first + r], rstd = a.rstd[first + r];
#pragma unroll
        for (int k = 0; k < slots; ++k) {
          const int c = thread + k * tile_threads, i = r * C + (c < C ? c : 0);
          const float du = to_float(upstream_tile[i]);
          weight_sums[k] += du * (to_float(sum_tile[i]) - mean) * rstd;
          bias_sums[k] += du;
          if (sums_branch) branch_sums[k] += to_float(passing_tile[i]);
        }
      }
      __syncthreads();
    }
  }

  if constexpr (tiled) {
    const int64_t output = int64_t{gridDim.x} * C;
#pragma unroll
    for (int k = 0; k < slots; ++k) {
      const int c = thread + k * tile_threads;
      if (c >= C) break;
      float* const sums = a.partials + int64_t{blockIdx.x} * C + c;
      sums[0] = weight_sums[k];
      sums[output] = bias_sums[k];
      if (sums_branch) sums[2 * output] = branch_sums[k];
    }
  }
}

// dw and db where the kernel above has no tiles: a thread has a column of a strip.
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

// Blocks of the backward pass: as many as the device runs at once, but none without a tile.
int64_t strips_for(int64_t N, int64_t of_multiprocessor = tile_blocks) {
  return std::min(of_multiprocessor * multiprocessors(), ceil_div(N, tile_rows));
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

template <class T, class B>
int64_t tile_bytes(int64_t C) {
  return tile_rows * C * static_cast<int64_t>(2 * sizeof(T) + sizeof(B));
}

// Blocks of a multiprocessor whose tiles have room there; 0: rows are too long for tiles.
template <class T, class B>
int64_t tiles_at_once(int64_t C) {
  return C <= 1024 ? std::min<int64_t>(tile_blocks, blocks_that_share(tile_bytes<T, B>(C))) : 0;
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
  const int columns = whole ? columns_for(a.C, width, {24, 32, 64}) : 0;
  if (a.copy != nullptr && columns == 0) throw std::invalid_argument("add_norm: no fp8 copies of such rows");
  if (!whole) return run(Int<1>(), Int<0>());
  switch (columns) {
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

template <class T, class B>
int64_t add_norm_backward_strips(int64_t N, int64_t C) {
  const int64_t at_once = tiles_at_once<T, B>(C);
  return strips_for(N, at_once > 0 ? at_once : tile_blocks);
}

template <class T, class B, class W>
bool add_norm_backward(const AddNormBackward<T, B, W>& a, cudaStream_t stream) {
  constexpr int width = full_width<B>;  // of the narrower type
  const bool whole =
      a.C % width == 0 && aligned(a.of_sum, a.of_normalized, a.sum, a.gradient, a.branch_gradient, a.weight);
  const bool tiled = whole && tiles_at_once<T, B>(a.C) > 0;
  const int64_t strips = add_norm_backward_strips<T, B>(a.N, a.C);
  const auto run = [&](auto kernel, int64_t of_blocks, int64_t shared_bytes) {
    launch("add_norm_backward", kernel, grid_of(of_blocks), {tile_threads, shared_bytes}, stream, a);
  };
  constexpr bool may_copy = std::is_same_v<B, bf16>;
  if (a.copies.values != nullptr && !(may_copy && whole))
    throw std::invalid_argument("add_norm: no fp8 copies of such rows");
  if (a.N == 0) return tiled;
  if (!tiled) {  // the weight's gradient first: `gradient` may be `of_normalized`
    launch("add_norm_weight_gradient", add_norm_weight_gradient_kernel<T, B, W>,
           grid_of(ceil_div(a.C, threads), strips), threads, stream, a);
  }
  const auto run_vectors = [&](auto copies) {
    constexpr bool with = decltype(copies)::value;
    if (tiled) {
      run(a.C <= 768 ? add_norm_backward_kernel<T, B, W, width, 768, with>
                     : add_norm_backward_kernel<T, B, W, width, 1024, with>,
          strips, tile_bytes<T, B>(a.C));
    } else {
      run(add_norm_backward_kernel<T, B, W, width, 0, with>, ceil_div(a.N, tile_rows), 0);
    }
  };
  if (!whole) {
    run(add_norm_backward_kernel<T, B, W, 1, 0, false>, ceil_div(a.N, tile_rows), 0);
  } else if (a.copies.values == nullptr) {
    run_vectors(std::false_type());
  } else {
    run_vectors(std::bool_constant<may_copy>());
  }
  return tiled;
}

template int64_t add_norm_backward_strips<float, float>(int64_t, int64_t);
template int64_t add_norm_backward_strips<float, bf16>(int64_t, int64_t);
template int64_t add_norm_backward_strips<bf16, bf16>(int64_t, int64_t);

template void add_norm_forward<float, float, float>(const AddNormForward<float, float, float>&, cudaStream_t);
template void add_norm_forward<float, bf16, float>(const AddNormForward<float, bf16, float>&, cudaStream_t);
template void add_norm_forward<bf16, bf16, float>(const AddNormForward<bf16, bf16, float>&, cudaStream_t);
template bool add_norm_backward<float, float, float>(const AddNormBackward<float, float, float>&, cudaStream_t);
template bool add_norm_backward<float, bf16, float>(const AddNormBackward<float, bf16, float>&, cudaStream_t);
template bool add_norm_backward<bf16, bf16, float>(const AddNormBackward<bf16, bf16, float>&, cudaStream_t);

}  // namespace kernels
