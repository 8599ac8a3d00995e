// fp8 products on a CPU: what they do to the numbers, not what they take. Both matrices are rounded to fp8, and
// multiplied in float32. It is made to ask what fp8 costs in a training's loss.
#include "ablations/techniques/fp8/copies.h"
#include "ablations/techniques/products/linear.h"

namespace model {

using at::Tensor;

namespace {

// To the nearest number of the type, times its scale: the matrix's, or each row's.
Tensor rounded(const Tensor& x, at::ScalarType type, bool by_rows) {
  const double largest = type == at::kFloat8_e5m2 ? 57344 : 448;
  const Tensor wide = x.to(at::kFloat), greatest = by_rows ? wide.abs().amax(1, /*keepdim=*/true) : wide.abs().amax();
  const Tensor scale = at::where(greatest > 1e-34, greatest / largest, 1.0);  // as fp8_factor in cuda/fp8_numbers.h
  return (wide / scale).clamp_(-largest, largest).to(type).to(at::kFloat) * scale;
}

// Undefined where b is no weight with copies. By the types and scales of a GPU, but for what a LayerNorm makes: that
// has the scale of its greatest number here, and of the greatest that there may be on a GPU.
Tensor fp8_product(const Tensor& a, const Tensor& b, const Tensor& bias) {
  const auto weight = fp8::weight_of(b);
  if (!weight) return {};
  const bool forward = !b.is_contiguous(), from_norm = forward && weight->name != "mlp_proj";
  const bool of_logits = !forward && weight->name == "head";
  const at::ScalarType type = of_logits ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
  fp8::count(weight->name + (forward ? " forward " : " dgrad ") + (of_logits ? "e5m2" : "e4m3"));
  const Tensor d =
      at::mm(rounded(a, type, !from_norm && !of_logits), rounded(b, at::kFloat8_e4m3fn, /*by_rows=*/false));
  return (bias.defined() ? d + bias : d).to(a.scalar_type());
}

}  // namespace

const LinearProducts emulated_fp8_products{
    .product =
        [](const Tensor& a, const Tensor& b, const Tensor& bias) {
          const Tensor d = fp8_product(a, b, bias);
          return d.defined() ? d : aten_products.product(a, b, bias);
        },
    .product_into =
        [](const Tensor& c, const Tensor& a, const Tensor& b) {
          const Tensor d = fp8_product(a, b, {});
          d.defined() ? (void)c.copy_(d) : aten_products.product_into(c, a, b);
        },
    .weight_gradient_into = [](const Gradients::Place& place, const Tensor& dy,
                               const Tensor& x) { aten_products.weight_gradient_into(place, dy, x); },
    .weight_gradient = [](Gradients* gradients, const Tensor& weight, const Tensor& dy,
                          const Tensor& x) { return aten_products.weight_gradient(gradients, weight, dy, x); },
    .bias_gradient = [](Gradients* gradients, const Tensor& bias,
                        const Tensor& dy) { return aten_products.bias_gradient(gradients, bias, dy); }};

}  // namespace model
