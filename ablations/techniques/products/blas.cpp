#include "ablations/techniques/products/blas.h"

#include "ablations/techniques/products/choose.h"
#include "ablations/techniques/products/matmul.h"

namespace model::blas {

using at::Tensor;

namespace {

// Whether cuBLASLt or the other way did it. A proposal that nobody has tried may be one that cuBLASLt then refuses.
bool run(const Product& product, const OtherWay& other_way) {
  Matmul matmul(product);
  if (const auto algorithm = choose(product, matmul, other_way)) {
    const Tensor workspace = at::empty({workspace_bytes}, product.d.options().dtype(at::kByte));
    const cublasStatus_t status = matmul.run(*algorithm, product.d, workspace);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED && status != CUBLAS_STATUS_INVALID_VALUE) {
      check(status, "cublasLtMatmul");
      if (product.after) product.after();
      return true;
    }
  }
  if (other_way) other_way(product.d);
  return other_way != nullptr;
}

void by_aten(const Tensor& d, const Tensor& a, const Tensor& b, const Tensor& bias) {
  Tensor out = d;
  if (bias.defined()) {
    at::addmm_out(out, bias, a, b);
  } else {
    at::mm_out(out, a, b);
  }
}

}  // namespace

void product(const Tensor& d, const Tensor& a, const Tensor& b, const Tensor& bias) {
  const bool a_transposed = !a.is_contiguous(), b_transposed = !b.is_contiguous();
  const Tensor left = a_transposed ? a.t() : a, right = b_transposed ? b.t() : b;
  if (!left.is_contiguous() || !right.is_contiguous() || d.numel() == 0) return by_aten(d, a, b, bias);
  const std::string name = b_transposed ? "forward" : "input_gradient";
  run({.name = bias.defined() ? name + "_bias" : name,
       .a = right,
       .b = left,
       .d = d,
       .a_transposed = b_transposed,
       .b_transposed = a_transposed,
       .epilogue = bias.defined() ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT,
       .bias = bias},
      [&](const Tensor& into) { by_aten(into, a, b, bias); });
}

bool fp8_product(const Tensor& d, const Fp8Matrix& left, const Fp8Matrix& right, const Tensor& bias) {
  // cuBLASLt takes scales of one kind for both. Those of a weight's rows are equal.
  const Tensor scales = left.scales.numel() == 1 ? right.scales.narrow(0, 0, 1) : right.scales;
  return run({.name = bias.defined() ? "fp8_bias" : "fp8",
              .a = right.values,
              .b = left.values,
              .d = d,
              .a_transposed = true,
              .epilogue = bias.defined() ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT,
              .bias = bias,
              .a_scale = scales,
              .b_scale = left.scales},
             nullptr);
}

void gelu(const Gelu& call, const Otherwise& otherwise) {
  // cublasLt.h, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: GELU's "must be divisible by 8".
  if (call.x.scalar_type() == at::kFloat || call.fc.size(1) % 8 != 0) return otherwise();
  run({.name = "gelu",
       .a = call.weight,
       .b = call.x,
       .d = call.hidden,
       .a_transposed = true,
       .epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
       .bias = call.bias,
       .auxiliary = call.fc},
      [&](const Tensor&) { otherwise(); });
}

void gelu_backward(const GeluBackward& call, const Otherwise& sums, const Otherwise& otherwise) {
  const bool by_rows = call.dy.is_contiguous() && call.weight.is_contiguous();
  if (call.dy.scalar_type() == at::kFloat || call.fc.size(1) % 8 != 0 || !by_rows) return otherwise();
  run({.name = "gelu_backward",
       .a = call.weight,
       .b = call.dy,
       .d = call.d_fc,
       .epilogue = CUBLASLT_EPILOGUE_DGELU,
       .auxiliary = call.fc,
       .after = sums},
      [&](const Tensor&) { otherwise(); });
}

void weight_gradient(const Tensor& gradient, const Tensor& a, const Tensor& b, bool accumulate) {
  run({.name = accumulate ? "weight_gradient +=" : "weight_gradient",
       .a = b,
       .b = a,
       .d = gradient,
       .b_transposed = true,
       .accumulate = accumulate},
      [&](const Tensor& d) {
        Tensor out = d;
        if (accumulate) {
          at::addmm_out(out, out, a.t(), b, at::kFloat);
        } else {
          at::mm_out(out, a.t(), b, at::kFloat);
        }
      });
}

}  // namespace model::blas
