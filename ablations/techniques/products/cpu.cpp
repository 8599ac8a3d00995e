#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/products/linear.h"

#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>

#include <atomic>

namespace model {

using at::Tensor;

// Not in cpu_bf16.cpp: what ATen's headers define must not be compiled for instructions that the machine may lack.
void cpu::block_product(int64_t rows, int64_t columns, int64_t pairs, const uint16_t* a, int64_t a_row, const Pair* b,
                        int64_t b_row, float* c, int64_t c_row, bool adds) {
  at::native::cpublas::brgemm(rows, columns, 2 * pairs, a_row, b_row, c_row, adds,
                              reinterpret_cast<const at::BFloat16*>(a), reinterpret_cast<const at::BFloat16*>(b), c);
}

void cpu::end_block_products() { at::native::cpublas::brgemm_release(); }

namespace {

std::atomic<int64_t> packed_bf16_made = 0;

void packed_product(const Tensor& c, const Tensor& a, const Tensor& b, const Tensor& bias, bool accumulate) {
  TORCH_CHECK(a.is_cpu() && b.is_cpu() && c.stride(1) == 1 && a.size(1) == b.size(0) && a.size(1) > 0,
              "packed products: sizes ", a.sizes(), " and ", b.sizes(), ", on ", a.device());
  const bool f32 = a.scalar_type() == at::kFloat && c.scalar_type() == at::kFloat;
  const bool bf16 = a.scalar_type() == at::kBFloat16 && has_packed_bf16() &&
                    (c.scalar_type() == at::kFloat || (c.scalar_type() == at::kBFloat16 && !accumulate));
  TORCH_CHECK(a.scalar_type() == b.scalar_type() && (f32 || bf16), "packed products on this machine: not ",
              a.scalar_type(), " times ", b.scalar_type(), accumulate ? " added to " : " written to ", c.scalar_type());
  packed_bf16_made += bf16 ? 1 : 0;
  const Tensor bias_f32 = bias.defined() ? bias.to(at::kFloat) : bias;
  const cpu::Product call{.c_type = number_of(c),
                          .M = a.size(0),
                          .N = b.size(1),
                          .K = a.size(1),
                          .a = a.const_data_ptr(),
                          .a_row = a.stride(0),
                          .a_column = a.stride(1),
                          .b = b.const_data_ptr(),
                          .b_row = b.stride(0),
                          .b_column = b.stride(1),
                          .c = c.mutable_data_ptr(),
                          .c_row = c.stride(0),
                          .bias = bias.defined() ? bias_f32.const_data_ptr<float>() : nullptr,
                          .accumulate = accumulate};
  const int64_t parts = at::get_num_threads();
  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      f32 ? cpu::kernels().product(call, part, parts) : cpu::product_bf16(call, part, parts);
    }
  });
}

}  // namespace

Tensor product(Products kind, const Tensor& a, const Tensor& b, const Tensor& bias) {
  if (kind == Products::aten) return bias.defined() ? at::addmm(bias.to(a.scalar_type()), a, b) : at::mm(a, b);
  const Tensor c = at::empty({a.size(0), b.size(1)}, a.options().requires_grad(false));
  packed_product(c, a, b, bias, /*accumulate=*/false);
  return c;
}

void product_into(Products kind, const Tensor& c, const Tensor& a, const Tensor& b, bool accumulate) {
  if (kind == Products::packed) return packed_product(c, a, b, {}, accumulate);
  Tensor out = c;
  if (c.scalar_type() != a.scalar_type()) {
    accumulate ? out.add_(at::mm(a, b)) : out.copy_(at::mm(a, b));
  } else {
    accumulate ? out.addmm_(a, b) : at::mm_out(out, a, b);
  }
}

bool has_packed_bf16() { return cpu::has_product_bf16(); }

int64_t packed_bf16_products() { return packed_bf16_made; }

namespace {

template <Products kind>
constexpr LinearProducts table{
    .product = [](const Tensor& a, const Tensor& b, const Tensor& bias) { return product(kind, a, b, bias); },
    .product_into = [](const Tensor& c, const Tensor& a, const Tensor& b) { product_into(kind, c, a, b, false); },
    .weight_gradient_into = [](const Gradients::Place& place, const Tensor& dy,
                               const Tensor& x) { product_into(kind, place.buffer, dy.t(), x, place.accumulate); },
    .weight_gradient = [](Gradients* gradients, const Tensor& weight, const Tensor& dy, const Tensor& x) -> Tensor {
      if (gradients == nullptr) return product(kind, dy.t(), x);
      table<kind>.weight_gradient_into(gradients->place_of(weight), dy, x);
      return {};
    },
    .bias_gradient = [](Gradients* gradients, const Tensor& bias,
                        const Tensor& dy) { return deliver(gradients, bias, dy.sum(0, false, at::kFloat)); }};

}  // namespace

const LinearProducts aten_products = table<Products::aten>, packed_products = table<Products::packed>;

}  // namespace model
