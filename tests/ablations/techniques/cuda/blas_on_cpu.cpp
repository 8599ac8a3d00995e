// cuda/blas.h by ATen on a CPU, in float32: what a step's own kernels need of it. Every second call goes the other way,
// so that both are tested.
#include "ablations/techniques/products/blas.h"
#include "ablations/techniques/products/products.h"
#include "model/ops.h"

namespace model::blas {

using at::Tensor;

namespace {

Tensor in_float32(const Tensor& x) { return x.to(at::kFloat); }

bool other_way() {
  static int calls = 0;
  return ++calls % 2 == 0;
}

}  // namespace

void gelu(const Gelu& call, const Otherwise& otherwise) {
  if (other_way()) return otherwise();
  const Tensor fc = at::addmm(in_float32(call.bias), in_float32(call.x), in_float32(call.weight).t());
  call.fc.copy_(fc);
  call.hidden.copy_(at::gelu(fc, "tanh"));
}

bool gelu_backward(const GeluBackward& call, const Otherwise& otherwise) {
  if (other_way()) {
    otherwise();
    return false;
  }
  const Tensor d_hidden = at::mm(in_float32(call.dy), in_float32(call.weight));
  const Tensor d_fc = at::gelu_backward(d_hidden, in_float32(call.fc), "tanh");
  call.d_fc.copy_(d_fc);
  call.d_bias.copy_(d_fc.sum(0));
  return true;
}

void weight_gradient(const Tensor& gradient, const Tensor& a, const Tensor& b, bool accumulate) {
  const Tensor product = at::mm(in_float32(a).t(), in_float32(b));
  accumulate ? gradient.add_(product) : gradient.copy_(product);
}

}  // namespace model::blas

namespace model {

std::vector<TimedProduct> cuda_timed_products() { return {}; }

}  // namespace model
