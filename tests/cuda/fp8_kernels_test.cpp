// Kernels that write fp8, on the device. A copy must be the bfloat16 matrix beside it, bit by bit: a row's greatest
// number is exact in any order, its factor is one division, and PyTorch rounds to fp8 on the CPU as the device does.
#include "ablations/techniques/cross_entropy/cross_entropy.h"
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/fp8/bytes.h"
#include "ablations/techniques/fp8/row_copies.h"
#include "ablations/techniques/fp8/weight_copies.h"
#include "ablations/techniques/norm/add_norm.h"
#include "tests/cuda/device.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace cuda_fp8_kernels_test {

using namespace device_tests;
using namespace model;
using at::Tensor;

constexpr int64_t heights[] = {1, 7, 1024}, widths[] = {768, 2304, 3072};
constexpr float infinity = std::numeric_limits<float>::infinity();

class Fp8Kernels : public testing::Test {
 protected:
  void SetUp() override {
    if (rehearsal()) GTEST_SKIP() << "nvcc's kernels run on a GPU only";
    at::manual_seed(5);
  }
};

at::TensorOptions floats() { return at::TensorOptions(at_device()).dtype(at::kFloat); }

// (N, C) bfloat16, normally distributed. Of seven rows one is zero, one has an infinity, one is too small for a scale.
Tensor matrix(int64_t N, int64_t C) {
  Tensor x = at::randn({N, C}) * at::randn({N, 1}).exp();
  if (N >= 7) {
    x[1].zero_();
    x[3].index_put_({C / 2}, infinity);
    x[5].mul_(1e-37);
  }
  return x.to(at_device(), at::kBFloat16);
}

// 448 over the greatest; 1 where that would be no normal number. No row of NaN alone is asked for.
float factor_of(const float* x, int64_t count) {
  float greatest = 0;
  for (int64_t i = 0; i < count; ++i) greatest = std::fmax(greatest, std::fabs(x[i]));
  return greatest > 1e-34F ? 448 / greatest : 1;
}

// The e4m3 number that is nearest; the largest where it is too large.
uint8_t e4m3_of(float x) { return std::isnan(x) ? 0x7F : c10::Float8_e4m3fn(std::clamp(x, -448.0F, 448.0F)).x; }

uint8_t without_sign_of_nan(uint8_t bits) { return (bits & 0x7FU) == 0x7FU ? 0x7F : bits; }

// `copy` (N, C) e4m3 is x (N, C) times each row's factor.
void expect_bits(const std::string& what, const Tensor& copy, const Tensor& x, const std::vector<float>& factors) {
  const Tensor bytes = copy.view(at::kByte).cpu(), values = x.to(at::kFloat).cpu().contiguous();
  const int64_t N = x.size(0), C = x.size(1);
  for (int64_t row = 0, wrong = 0; row < N; ++row) {
    const float factor = factors[static_cast<size_t>(row)];
    for (int64_t c = 0; c < C; ++c) {
      const int64_t at = row * C + c;
      const uint8_t seen = without_sign_of_nan(bytes.const_data_ptr<uint8_t>()[at]);
      const float value = values.const_data_ptr<float>()[at];
      if (seen == e4m3_of(value * factor)) continue;
      ADD_FAILURE() << fmt::format("{}: {} in row {}, column {}, times {}: byte {:#x} and not {:#x}", what, value, row,
                                   c, factor, seen, e4m3_of(value * factor));
      if (++wrong == 3) return;
    }
  }
}

struct Copies {
  Tensor values, scales;
  Copies(int64_t N, int64_t C)
      : values(fp8_bytes({N, C}, at_device()).view(at::kByte).fill_(0x55).view(at::kFloat8_e4m3fn)),
        scales(at::full({N}, -1, floats())) {}
  [[nodiscard]] kernels::RowCopies to() const { return {fp8_pointer(values), pointer<float>(scales)}; }

  void expect_of(const std::string& what, const Tensor& x) const {
    const int64_t N = x.size(0), C = x.size(1);
    const Tensor wide = x.to(at::kFloat).cpu().contiguous(), seen = scales.cpu();
    std::vector<float> factors;
    for (int64_t row = 0; row < N; ++row) {
      factors.push_back(factor_of(wide.const_data_ptr<float>() + row * C, C));
      EXPECT_EQ(seen[row].item<float>(), 1 / factors.back()) << what << ", row " << row;
    }
    expect_bits(fmt::format("{} of {} x {}", what, N, C), values, x, factors);
  }
};

// Strips of column sums, added up by ATen.
struct Strips {
  Tensor partials;
  Strips(int64_t N, int64_t C) : partials(at::full({kernels::row_copies_strips(N, C), C}, NAN, floats())) {}
  void expect_sums_of(const std::string& what, const Tensor& x) const {
    const Tensor expected = x.cpu().to(at::kDouble).sum(0), seen = partials.sum(0).cpu().to(at::kDouble);
    const Tensor finite = expected.isfinite();
    EXPECT_TRUE(at::equal(seen.isfinite(), finite)) << what;
    EXPECT_LT(relative_error(seen.masked_select(finite), expected.masked_select(finite)), 1e-5) << what;
  }
};

template <class F>
void for_shapes(const F& f) {
  for (const int64_t N : heights) {
    for (const int64_t C : widths) f(N, C);
  }
}

// Which the products after a LayerNorm's backward pass read: a tile's rows, and longer ones.
TEST_F(Fp8Kernels, GradientsOfWhatIsAdded) {
  for (const int64_t N : heights) {
    for (const int64_t C : {768, 1024, 1600}) {
      const auto in = [](const Tensor& t) { return pointer<const kernels::bf16>(t); };
      const Tensor sum = at::randn({N, C}).to(at_device(), at::kBFloat16), of_sum = matrix(N, C),
                   of_normalized = at::zeros_like(of_sum), weight = at::ones({C}, floats());
      const Tensor mean = at::zeros({N}, floats()), rstd = at::ones({N}, floats()), gradient = at::empty_like(sum);
      const Tensor partials =
          at::empty({3, kernels::add_norm_backward_strips<kernels::bf16, kernels::bf16>(N, C), C}, floats());
      const Copies copies(N, C);
      kernels::add_norm_backward<kernels::bf16, kernels::bf16, float>({.of_sum = in(of_sum),
                                                                       .of_normalized = in(of_normalized),
                                                                       .sum = in(sum),
                                                                       .weight = pointer<const float>(weight),
                                                                       .mean = pointer<const float>(mean),
                                                                       .rstd = pointer<const float>(rstd),
                                                                       .gradient = pointer<kernels::bf16>(gradient),
                                                                       .branch_gradient = nullptr,
                                                                       .partials = pointer<float>(partials),
                                                                       .sums_branch = true,
                                                                       .N = N,
                                                                       .C = C,
                                                                       .copies = copies.to()},
                                                                      stream_for(sum));
      EXPECT_TRUE(at::equal(gradient, of_sum)) << "nothing is added to it";
      copies.expect_of("add_norm_backward", gradient);
    }
  }
}

TEST_F(Fp8Kernels, GeluAndItsGradient) {
  for_shapes([](int64_t N, int64_t C) {
    const Tensor fc = matrix(N, C), bias = at::randn({C}).to(at_device(), at::kBFloat16), upstream = matrix(N, C);
    const Tensor hidden = at::empty_like(fc), gradient = at::empty_like(fc);
    const Copies of_hidden(N, C), of_gradient(N, C);
    const Strips strips(N, C);
    const auto in = [](const Tensor& t) { return pointer<const kernels::bf16>(t); };
    kernels::gelu_forward_fp8(in(fc), in(bias), pointer<kernels::bf16>(hidden), of_hidden.to(), N, C, stream_for(fc));
    kernels::gelu_backward_fp8({in(fc), in(bias), in(upstream), pointer<kernels::bf16>(gradient), of_gradient.to(),
                                pointer<float>(strips.partials), N, C},
                               stream_for(fc));
    of_hidden.expect_of("gelu_forward", hidden);
    of_gradient.expect_of("gelu_backward", gradient);
    strips.expect_sums_of("gelu_backward", gradient);
    const Tensor x = (fc.cpu().to(at::kDouble) + bias.cpu().to(at::kDouble)), exact = at::gelu(x, "tanh");
    const Tensor slope = at::gelu_backward(upstream.cpu().to(at::kDouble), x, "tanh");
    const auto finite = [](const Tensor& t) { return at::nan_to_num(t.cpu().to(at::kDouble), 0, 0, 0); };
    EXPECT_LT(relative_error(finite(hidden), finite(exact)), 4e-3);
    EXPECT_LT(relative_error(finite(gradient), finite(slope)), 4e-3);
  });
}

TEST_F(Fp8Kernels, ThreeMatricesSideBySide) {
  for (const int64_t N : heights) {
    const int64_t C = 768;
    const Tensor q = matrix(N, C), k = matrix(N, C), v = matrix(N, C);
    const Tensor joined = at::empty({N, 3 * C}, q.options());
    const Copies copies(N, 3 * C);
    const Strips strips(N, 3 * C);
    const auto in = [](const Tensor& t) { return pointer<const kernels::bf16>(t); };
    kernels::join_fp8(
        {{in(q), in(k), in(v)}, pointer<kernels::bf16>(joined), copies.to(), pointer<float>(strips.partials), N, C},
        stream_for(q));
    EXPECT_TRUE(at::equal(joined, at::cat({q, k, v}, 1)));
    copies.expect_of("join", joined);
    strips.expect_sums_of("join", joined);
  }
}

// With the scale that a step has of a LayerNorm's weights.
TEST_F(Fp8Kernels, NormalizedRows) {
  for (const int64_t N : heights) {
    const int64_t C = 768;
    const Tensor x = at::randn({N, C}).to(at_device(), at::kBFloat16), y = at::randn({N, C}).to(x.options());
    const Tensor weight = at::randn({C}).to(at_device()), bias = at::randn({C}).to(at_device());
    const Tensor sum = at::empty_like(x), normalized = at::empty_like(x), mean = at::empty({N}, floats()),
                 rstd = at::empty({N}, floats()), scale = at::full({1}, 0.17, floats());
    const Copies copies(N, C);
    kernels::AddNormForward<kernels::bf16, kernels::bf16, float> call{.x = pointer<const kernels::bf16>(x),
                                                                      .y = pointer<const kernels::bf16>(y),
                                                                      .weight = pointer<const float>(weight),
                                                                      .bias = pointer<const float>(bias),
                                                                      .sum = pointer<kernels::bf16>(sum),
                                                                      .normalized = pointer<kernels::bf16>(normalized),
                                                                      .mean = pointer<float>(mean),
                                                                      .rstd = pointer<float>(rstd),
                                                                      .N = N,
                                                                      .C = C,
                                                                      .eps = 1e-5F,
                                                                      .copy = fp8_pointer(copies.values),
                                                                      .copy_scale = pointer<const float>(scale)};
    kernels::add_norm_forward(call, stream_for(x));
    expect_bits("add_norm", copies.values, normalized,
                std::vector<float>(static_cast<size_t>(N), 1 / scale.item<float>()));
  }
}

TEST_F(Fp8Kernels, WeightsAndTheirTransposes) {
  std::vector<kernels::WeightCopies> table;
  std::vector<Tensor> weights, maxima;
  std::vector<Fp8Matrix> rows, columns;
  for (const auto& [out, in] : {std::pair<int64_t, int64_t>{2304, 768}, {768, 3072}, {50304, 768}, {16, 80}}) {
    weights.push_back((at::randn({out, in}) / static_cast<double>(out)).to(at_device(), at::kBFloat16));
    rows.push_back({fp8_bytes({out, in}, at_device()), at::empty({out}, floats())});
    columns.push_back({fp8_bytes({in, out}, at_device()), at::empty({in}, floats())});
    maxima.push_back(weights.back().abs().amax(1).to(at::kFloat));
    table.push_back({.weight = pointer<const kernels::bf16>(weights.back()),
                     .maxima = pointer<const float>(maxima.back()),
                     .rows = fp8_pointer(rows.back().values),
                     .columns = fp8_pointer(columns.back().values),
                     .row_scales = pointer<float>(rows.back().scales),
                     .column_scales = pointer<float>(columns.back().scales),
                     .out = out,
                     .in = in,
                     .maxima_count = out});
  }
  const Tensor norm_weight = at::randn({768}).to(at_device()), norm_bias = at::randn({768}).to(at_device()),
               norm_scale = at::empty({1}, floats());
  const std::vector<kernels::NormScale> norms{
      {pointer<const float>(norm_weight), pointer<const float>(norm_bias), pointer<float>(norm_scale), 768}};
  const std::vector<kernels::WeightTile> tiles = kernels::weight_tiles(table);
  const Tensor weight_table = on_device(table, at_device()), norm_table = on_device(norms, at_device()),
               tile_table = on_device(tiles, at_device());
  kernels::copy_weights({.weights = pointer<const kernels::WeightCopies>(weight_table),
                         .norms = pointer<const kernels::NormScale>(norm_table),
                         .tiles = pointer<const kernels::WeightTile>(tile_table),
                         .weight_count = std::ssize(table),
                         .norm_count = std::ssize(norms),
                         .tile_count = std::ssize(tiles)},
                        stream_for(tile_table));
  for (size_t i = 0; i < table.size(); ++i) {
    const std::string what = fmt::format("a weight of {} x {}", table[i].out, table[i].in);
    const Tensor wide = weights[i].to(at::kFloat).cpu().contiguous();
    const float factor = factor_of(wide.const_data_ptr<float>(), wide.numel());
    for (const Tensor& one : {rows[i].scales, columns[i].scales})
      EXPECT_TRUE(one.cpu().eq(1 / factor).all().item<bool>()) << what;
    expect_bits(what, rows[i].values, weights[i], std::vector<float>(static_cast<size_t>(table[i].out), factor));
    EXPECT_TRUE(at::equal(columns[i].values.view(at::kByte), rows[i].values.view(at::kByte).t())) << what;
  }
  const double bound = std::sqrt(767.0) * norm_weight.abs().max().item<double>() + norm_bias.abs().max().item<double>();
  EXPECT_NEAR(norm_scale.item<double>() * 448 / bound, 1, 1e-5);
}

// The copy is rounded from the float that the bfloat16 gradient is rounded from: half a unit of e5m2 apart at most.
TEST_F(Fp8Kernels, GradientsOfLogits) {
  const int64_t V = 50257, stride = 50304;
  for (const int64_t N : heights) {
    const Tensor logits = (3 * at::randn({N, stride})).to(at_device(), at::kBFloat16);
    const Tensor targets = at::arange(N).mul(7919).remainder(V).to(at_device());
    const Tensor losses = at::empty({N}, floats()), scale = at::empty({1}, floats());
    const Tensor copy = fp8_bytes({N, stride}, at_device(), at::kFloat8_e5m2);
    kernels::cross_entropy<kernels::bf16>({.logits = pointer<kernels::bf16>(logits),
                                           .targets = pointer<const int64_t>(targets),
                                           .losses = pointer<float>(losses),
                                           .N = N,
                                           .V = V,
                                           .stride = stride,
                                           .scale = 1.0F / static_cast<float>(N),
                                           .copy = fp8_pointer(copy),
                                           .copy_scale = pointer<float>(scale)},
                                          stream_for(logits));
    EXPECT_EQ(scale.item<float>(), 1.0F / static_cast<float>(N) / 57344.0F);
    const Tensor gradient = logits.cpu().to(at::kDouble);
    const Tensor seen = copy.cpu().to(at::kFloat).to(at::kDouble) * scale.item<double>();
    const double least = scale.item<double>() / (1 << 17);  // half of e5m2's smallest
    const Tensor allowed = gradient.abs() * (1 / 8.0 + 1 / 128.0) + 1.01 * least;
    EXPECT_TRUE((seen - gradient).abs().le(allowed).all().item<bool>()) << "N = " << N;
    EXPECT_LT(relative_error(seen, gradient), 0.06) << "N = " << N;
    EXPECT_TRUE(seen.narrow(1, V, stride - V).eq(0).all().item<bool>());
  }
}

}  // namespace cuda_fp8_kernels_test
