// Products of cuBLAS and cuBLASLt, and sums of columns by our own kernel.
#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/products/blas.h"
#include "ablations/techniques/products/column_sum.h"
#include "ablations/techniques/products/linear.h"
#include "ablations/techniques/products/strips.h"

#include <vector>

namespace model {

using at::Tensor;

namespace {

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

// x (N, C) -> the sums of its columns over strips of rows (strips, C)
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

void weight_gradient_into(const Gradients::Place& place, const Tensor& dy, const Tensor& x) {
  blas::weight_gradient(place.buffer, dy, x, place.accumulate);
}

}  // namespace

void add_up(Gradients* gradients, const Tensor& strips, const Gradients::Place& place) {
  gradients == nullptr ? add_up_all({{strips, place}}) : gradients->leave({strips, place});
}

void add_up_left(Gradients& gradients) { add_up_all(gradients.take_left()); }

const LinearProducts cuda_products{
    .product = [](const Tensor& a, const Tensor& b, const Tensor& bias) { return product(Products::aten, a, b, bias); },
    .product_into =
        [](const Tensor& c, const Tensor& a, const Tensor& b) {
          Tensor out = c;
          at::mm_out(out, a, b);
        },
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
