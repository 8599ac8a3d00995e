// The sum of the token and position embeddings, and their gradients.
//
//     x[n] = wte[token[n]] + wpe[n % context]
//     dwte[v] += sum of dx[n] over n with token[n] = v,  dwpe[t] (+)= sum of dx[n] over n with n % context = t
//
// Forward it moves a row of wte for each token that occurs, wpe, and N C elements of x. Backward it moves 2 N C
// elements (dx for each of the two sums), dwpe once, and of dwte 8 C bytes for each token that occurs.
//
// The sums over a token have a fixed order and no atomics. The caller sorts tokens with the rows they come from. A
// block has a window of 32 sorted places. It adds up dx run by run, a run being the places of one token. A run within
// the window goes to dwte at once. One that the window's ends cut goes to the workspace. The part from the window
// before has slot 0, the part that begins here slot 1. For each window where a cut run begins, a block then adds up its
// parts, however many windows they are in.
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances.
//     embedding_kernel          30 registers, 128 threads, 64 warps of 64, 16-byte loads and stores
//     token_parts_kernel        48 registers, 128 threads, 40 warps of 64, 16-byte loads and stores
//     cut_tokens_kernel         31 registers, 128 threads, 64 warps of 64, 16-byte loads and stores
//     positions_kernel          28 registers, 128 threads, 64 warps of 64, 16-byte loads and stores
#include "ablations/techniques/weights/embedding.h"

#include "ablations/techniques/cuda/device.h"

namespace kernels {
namespace {

constexpr int window = 32;  // sorted places of a block
constexpr int column_threads = 128;

template <class T, int Width>
__device__ void add(float (&sum)[Width], const T* from) {
  const Vector<T, Width> values = load<Width>(from);
#pragma unroll
  for (int e = 0; e < Width; ++e) sum[e] += to_float(values.values[e]);
}

template <int Width>
__device__ void write(float* to, const float (&sum)[Width]) {
  Vector<float, Width> values;
#pragma unroll
  for (int e = 0; e < Width; ++e) values.values[e] = sum[e];
  store(to, values);
}

// A thread's first column, or one that is past the last.
template <int Width>
__device__ int64_t own_column() {
  return (int64_t{blockIdx.y} * column_threads + threadIdx.x) * Width;
}

template <class W, class T, int Width>
__global__ __launch_bounds__(column_threads) void embedding_kernel(const EmbeddingForward<W, T> a) {
  const int64_t column = own_column<Width>(), row = blockIdx.x;
  if (column >= a.C) return;
  const int64_t token = a.tokens[row];
  const bool known = token >= 0 && token < a.V;
  const Vector<W, Width> of_token = load<Width>(a.wte + (known ? token : 0) * a.C + column);
  const Vector<float, Width> of_position = load<Width>(a.wpe + row % a.context * a.C + column);
  Vector<T, Width> x;
#pragma unroll
  for (int e = 0; e < Width; ++e)
    x.values[e] = from_float<T>(known ? to_float(of_token.values[e]) + of_position.values[e] : NAN);
  store(a.x + row * a.C + column, x);
}

// Whether the place's token continues the one before. Its run is cut if a window begins here.
template <class T>
__device__ bool continues(const EmbeddingBackward<T>& a, int64_t place) {
  return place > 0 && place < a.N && a.sorted_tokens[place] == a.sorted_tokens[place - 1];
}

template <class T, int Width>
__device__ float* slot(const EmbeddingBackward<T>& a, int64_t of_window, int which) {
  return a.workspace + (of_window * 2 + which) * a.C;
}

template <class T, int Width>
__global__ __launch_bounds__(column_threads) void token_parts_kernel(const EmbeddingBackward<T> a) {
  const int64_t column = own_column<Width>(), begin = int64_t{blockIdx.x} * window;
  const int64_t end = begin + window < a.N ? begin + window : a.N;
  if (column >= a.C) return;
  float sum[Width] = {};
  bool from_before = continues(a, begin);
  for (int64_t place = begin; place < end; ++place) {
    add<T>(sum, a.upstream + a.order[place] * a.C + column);
    const bool goes_on = continues(a, place + 1);
    if (goes_on && place + 1 < end) continue;
    const int64_t token = a.sorted_tokens[place];
    if (from_before) {
      write(slot<T, Width>(a, blockIdx.x, 0) + column, sum);
    } else if (goes_on) {
      write(slot<T, Width>(a, blockIdx.x, 1) + column, sum);
    } else if (token >= 0 && token < a.V) {
      float* const to = a.wte_gradient + token * a.C + column;
      add<float>(sum, to);
      write(to, sum);
    }
    from_before = false;
#pragma unroll
    for (int e = 0; e < Width; ++e) sum[e] = 0;
  }
}

template <class T, int Width>
__global__ __launch_bounds__(column_threads) void cut_tokens_kernel(const EmbeddingBackward<T> a) {
  const int64_t column = own_column<Width>(), last = int64_t{blockIdx.x} * window + window - 1;
  if (column >= a.C || !continues(a, last + 1)) return;
  // Does the run begin in this window? Not where it comes from before and fills it.
  const int64_t begin = int64_t{blockIdx.x} * window, token = a.sorted_tokens[last];
  if (continues(a, begin) && a.sorted_tokens[begin] == token) return;
  if (token < 0 || token >= a.V) return;
  float sum[Width] = {};
  add<float>(sum, slot<T, Width>(a, blockIdx.x, 1) + column);
  int64_t next = int64_t{blockIdx.x} + 1;
  do {
    add<float>(sum, slot<T, Width>(a, next, 0) + column);
    ++next;
  } while (continues(a, next * window) && a.sorted_tokens[next * window] == token);
  float* const to = a.wte_gradient + token * a.C + column;
  add<float>(sum, to);
  write(to, sum);
}

template <class T, int Width>
__global__ __launch_bounds__(column_threads) void positions_kernel(const EmbeddingBackward<T> a) {
  const int64_t column = own_column<Width>(), position = blockIdx.x;
  if (column >= a.C) return;
  float sum[Width] = {};
  if (position < a.context) {
#pragma unroll 4
    for (int64_t row = position; row < a.N; row += a.context) add<T>(sum, a.upstream + row * a.C + column);
  }
  float* const to = a.wpe_gradient + position * a.C + column;
  if (a.accumulate_wpe) add<float>(sum, to);
  write(to, sum);
}

template <class T, int Width>
void backward(const EmbeddingBackward<T>& a, cudaStream_t stream) {
  const int64_t tiles = ceil_div(a.C, int64_t{column_threads} * Width), windows = ceil_div(a.N, window);
  const auto run = [&](auto kernel, int64_t blocks) {
    if (blocks > 0) launch("embedding_backward", kernel, grid_of(blocks, tiles), column_threads, stream, a);
  };
  run(token_parts_kernel<T, Width>, windows);
  run(cut_tokens_kernel<T, Width>, windows - 1);  // no run goes on after the last window
  run(positions_kernel<T, Width>, a.P);
}

}  // namespace

template <class W, class T>
void embedding_forward(const EmbeddingForward<W, T>& a, cudaStream_t stream) {
  constexpr int whole = std::max(full_width<W>, full_width<T>);
  const int width = a.C % whole == 0 && aligned(a.wte, a.wpe, a.x) ? whole : 1;
  launch("embedding_forward", width == 1 ? embedding_kernel<W, T, 1> : embedding_kernel<W, T, whole>,
         grid_of(a.N, ceil_div(a.C, int64_t{column_threads} * width)), column_threads, stream, a);
}

int64_t embedding_backward_workspace(int64_t N, int64_t C) { return 2 * ceil_div(N, window) * C; }

template <class T>
void embedding_backward(const EmbeddingBackward<T>& a, cudaStream_t stream) {
  if (a.C == 0) return;
  if (a.C % full_width<T> == 0 && aligned(a.upstream, a.wte_gradient, a.wpe_gradient, a.workspace)) {
    backward<T, full_width<T>>(a, stream);
  } else {
    backward<T, 1>(a, stream);
  }
}

template void embedding_forward<float, float>(const EmbeddingForward<float, float>&, cudaStream_t);
template void embedding_forward<float, bf16>(const EmbeddingForward<float, bf16>&, cudaStream_t);
template void embedding_forward<bf16, float>(const EmbeddingForward<bf16, float>&, cudaStream_t);
template void embedding_forward<bf16, bf16>(const EmbeddingForward<bf16, bf16>&, cudaStream_t);
template void embedding_backward<float>(const EmbeddingBackward<float>&, cudaStream_t);
template void embedding_backward<bf16>(const EmbeddingBackward<bf16>&, cudaStream_t);

}  // namespace kernels
