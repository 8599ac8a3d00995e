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

void gelu_backward(const GeluBackward& call, const Otherwise& sums, const Otherwise& otherwise) {
  if (other_way()) return otherwise();
  const Tensor upstream = at::mm(in_float32(call.dy), in_float32(call.weight));
  call.d_fc.copy_(at::gelu_backward(upstream, in_float32(call.fc), "tanh"));
  sums();
}

void product(const Tensor& d, const Tensor& a, const Tensor& b, const Tensor& bias) {
  const Tensor made = at::mm(in_float32(a), in_float32(b));
  d.copy_(bias.defined() ? made + in_float32(bias) : made);
}

bool fp8_product(const Tensor& d, const Fp8Matrix& left, const Fp8Matrix& right, const Tensor& bias) {
  const auto decoded = [](const Fp8Matrix& m) {
    return in_float32(m.values) * (m.scales.numel() == 1 ? m.scales : m.scales.unsqueeze(1));
  };
  product(d, decoded(left), decoded(right).t(), bias);
  return true;
}

void weight_gradient(const Tensor& gradient, const Tensor& a, const Tensor& b, bool accumulate) {
  const Tensor product = at::mm(in_float32(a).t(), in_float32(b));
  accumulate ? gradient.add_(product) : gradient.copy_(product);
}

}  // namespace model::blas

namespace model {

std::vector<results::ProductTiming> cuda_product_timings() { return {}; }
void keep_cuda_timings(std::vector<results::ProductTiming>) {}
std::string cublaslt_version() { return ""; }

}  // namespace model
