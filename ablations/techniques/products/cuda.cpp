// Products of cuBLAS and cuBLASLt, and sums of columns by our own kernel.
#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/fp8/copies.h"
#include "ablations/techniques/products/blas.h"
#include "ablations/techniques/products/column_sum.h"
#include "ablations/techniques/products/linear.h"
#include "ablations/techniques/products/strips.h"

#include <vector>

namespace model {

using at::Tensor;

namespace {

// What may be left before it is added up. It must still be in L2 by then, of 50 MB on an H100, where the kernels
// between have written as well.
constexpr size_t most_left_bytes = 24 << 20;

void add_up_all(const std::vector<Gradients::Parts>& all) {
  if (all.empty()) return;
  const Node node("model::add_up");
  std::vector<kernels::FinishColumns> calls;
  for (const auto& [strips, place] : all) {
    calls.push_back({.partials = pointer<const float>(strips),
                     .sums = pointer<float>(place.buffer),
                     .strips = static_cast<int>(strips.size(0)),
                     .C = static_cast<int>(strips.size(1)),
                     .accumulate = place.accumulate});
  }
  kernels::finish_columns(calls, stream_for(all.front().sums));
}

void weight_gradient_into(const Gradients::Place& place, const Tensor& dy, const Tensor& x) {
  blas::weight_gradient(place.buffer, dy, x, place.accumulate);
}

// d (M, N) <- a (M, K) b (K, N) + bias (N) or undefined. In fp8 where b is a weight with copies and a has one, too.
void multiply(const Tensor& d, const Tensor& a, const Tensor& b, const Tensor& bias) {
  if (const auto weight = fp8::weight_of(b)) {
    const bool forward = !b.is_contiguous();  // the weight's transposed view
    const std::string direction = weight->name + (forward ? " forward " : " dgrad ");
    const auto left = fp8::take(a);
    if (left && blas::fp8_product(d, *left, forward ? weight->rows : weight->columns, bias)) {
      fp8::count(direction + (left->values.scalar_type() == at::kFloat8_e5m2 ? "e5m2" : "e4m3"));
      return;
    }
    fp8::count(direction + "bf16");
  }
  blas::product(d, a, b, bias);
}

}  // namespace

Tensor strips_of(const Tensor& x) {
  const int64_t N = x.size(0), C = x.size(1);
  Tensor strips;
  with_type(x.scalar_type(), [&]<class T>() {
    strips = at::empty({kernels::column_strips<T>(N, C), C}, x.options().dtype(at::kFloat));
    kernels::column_sum<T>({.values = pointer<const T>(x), .partials = pointer<float>(strips), .N = N, .C = C},
                           stream_for(x));
  });
  return strips;
}

void add_up(Gradients* gradients, const Tensor& strips, const Gradients::Place& place) {
  if (gradients == nullptr) return add_up_all({{strips, place}});
  gradients->leave({strips, place});
  if (gradients->left_bytes() > most_left_bytes) add_up_left(*gradients);
}

void add_up_left(Gradients& gradients) { add_up_all(gradients.take_left()); }

const LinearProducts cuda_products{
    .product =
        [](const Tensor& a, const Tensor& b, const Tensor& bias) {
          const Tensor d = at::empty({a.size(0), b.size(1)}, a.options().requires_grad(false));
          multiply(d, a, b, bias.defined() ? bias.to(a.scalar_type()) : bias);
          return d;
        },
    .product_into = [](const Tensor& c, const Tensor& a, const Tensor& b) { multiply(c, a, b, {}); },
    .weight_gradient_into = weight_gradient_into,
    .weight_gradient =
        [](Gradients* gradients, const Tensor& weight, const Tensor& dy, const Tensor& x) {
          const Gradients::Place place = place_for(gradients, weight);
          weight_gradient_into(place, dy, x);
          return gradients == nullptr ? place.buffer : Tensor();
        },
    .bias_gradient =
        [](Gradients* gradients, const Tensor& bias, const Tensor& dy) {
          const Gradients::Place place = place_for(gradients, bias);
          add_up(gradients, strips_of(dy), place);
          return gradients == nullptr ? place.buffer : Tensor();
        }};

}  // namespace model
