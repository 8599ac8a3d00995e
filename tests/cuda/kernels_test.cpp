// Our own CUDA kernels, cuBLASLt's epilogues and the operations made of them, on the device, against float64 on the CPU
// by norm. ablations/techniques has tests that run the same kernels on a CPU, over more sizes.
#include "ablations/techniques/cross_entropy/cross_entropy.h"
#include "ablations/techniques/cross_entropy/scale.h"
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/mlp/gelu.h"
#include "ablations/techniques/norm/add_norm.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/products/blas.h"
#include "ablations/techniques/products/column_sum.h"
#include "ablations/techniques/products/products.h"
#include "ablations/techniques/qkv_gradient/join.h"
#include "ablations/techniques/weights/adamw.h"
#include "ablations/techniques/weights/embedding.h"
#include "ablations/techniques/weights/gradient_norm.h"
#include "model/ops.h"
#include "tests/cuda/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace cuda_kernels_test {

using namespace device_tests;
using namespace model;
using at::Tensor;

constexpr at::ScalarType types[] = {at::kFloat, at::kBFloat16};

// What one rounding to the type costs, and float32's sums before it.
double rounding(at::ScalarType type) { return type == at::kFloat ? 1e-5 : 4e-3; }

// Says how near it came, too: the margins are estimates until a device has shown them.
void expect_error(const std::string& what, double error, double allowed) {
  fmt::print("{}: {:.2g} of {:.2g}\n", what, error, allowed);
  EXPECT_LT(error, allowed) << what;
}

class Kernels : public testing::Test {
 protected:
  void SetUp() override {
    if (rehearsal()) GTEST_SKIP() << "nvcc's kernels run on a GPU only";
    at::manual_seed(5);
  }

  // Normally distributed, on the CPU.
  static Tensor random(at::IntArrayRef shape) { return at::randn(shape); }
  static Tensor on_gpu(const Tensor& x, at::ScalarType type) { return x.to(at_device(), type); }
  static Tensor floats(at::IntArrayRef shape) {
    return at::empty(shape, at::TensorOptions().device(at_device()).dtype(at::kFloat));
  }
  static Tensor exact(const Tensor& x) { return x.to(at::kCPU, at::kDouble); }
};

// What a kernel sums of matrices (N, C) on its way, added up.
class Sums {
 public:
  Sums(int64_t strips, int64_t C)
      : partials_(at::empty({strips, C}, at::TensorOptions().device(at_device()))),
        sums_(at::ones_like(partials_[0])) {}
  [[nodiscard]] float* partials() const { return pointer<float>(partials_); }
  Tensor add_up(bool accumulate) {
    const kernels::FinishColumns call{partials(), pointer<float>(sums_), static_cast<int>(partials_.size(0)),
                                      static_cast<int>(partials_.size(1)), accumulate};
    kernels::finish_columns({&call, 1}, stream_for(sums_));
    return sums_;
  }

 private:
  Tensor partials_, sums_;
};

void expect_column_sums(at::ScalarType type, int64_t N, int64_t C) {
  const Tensor x = (at::randn({N, C}) + 0.3).to(at_device(), type);
  for (const bool accumulate : {true, false}) {
    with_type(type, [&]<class T>() {
      Sums sums(kernels::column_strips<T>(N, C), C);
      kernels::column_sum<T>({.values = pointer<const T>(x), .partials = sums.partials(), .N = N, .C = C},
                             stream_for(x));
      const Tensor expected = x.to(at::kCPU, at::kDouble).sum(0) + (accumulate ? 1 : 0);
      expect_error(fmt::format("column_sum {}", at::toString(type)), relative_error(sums.add_up(accumulate), expected),
                   1e-5);
    });
  }
}

TEST_F(Kernels, ColumnSum) {
  for (const at::ScalarType type : types) {
    expect_column_sums(type, 5000, 768);
    expect_column_sums(type, 333, 77);
  }
}

TEST_F(Kernels, Gelu) {
  for (const auto& [N, C] : {std::pair<int64_t, int64_t>{1001, 77}, {5000, 768}}) {
    for (const at::ScalarType type : types) {
      const Tensor x = on_gpu(2 * random({N, C}), type), upstream = on_gpu(random({N, C}) + 0.5, type);
      const Tensor y = at::empty_like(x), gradient = at::empty_like(x);
      with_type(type, [&, N = N, C = C]<class T>() {
        kernels::gelu_forward<T>(pointer<const T>(x), pointer<T>(y), x.numel(), stream_for(x));
        Sums sums(kernels::column_strips<T>(N, C), C);
        kernels::gelu_backward<T>({.x = pointer<const T>(x),
                                   .upstream = pointer<const T>(upstream),
                                   .gradient = pointer<T>(gradient),
                                   .partials = sums.partials(),
                                   .N = N,
                                   .C = C},
                                  stream_for(x));
        expect_error("the sums of gelu_backward", relative_error(sums.add_up(false), exact(gradient).sum(0)), 1e-5);
      });
      expect_error("gelu_forward", relative_error(y, at::gelu(exact(x), "tanh")), rounding(type));
      expect_error("gelu_backward", relative_error(gradient, at::gelu_backward(exact(upstream), exact(x), "tanh")),
                   rounding(type));
    }
  }
}

TEST_F(Kernels, Scale) {
  for (const at::ScalarType type : types) {
    const Tensor x = on_gpu(random({1001, 77}), type), expected = exact(x) / 3, third = floats({}).fill_(1.0 / 3);
    with_type(type, [&]<class T>() {
      kernels::scale<T>(pointer<T>(x), x.numel(), pointer<const float>(third), stream_for(x));
    });
    expect_error("scale", relative_error(x, expected), rounding(type));
  }
}

TEST_F(Kernels, CrossEntropy) {
  const int64_t N = 300, V = 50257, stride = 50304;
  for (const at::ScalarType type : types) {
    const Tensor logits = on_gpu(3 * random({N, stride}), type), losses = floats({N}), mean = floats({});
    const Tensor targets = at::arange(N).mul(7919).remainder(V);
    const Tensor before = exact(logits).narrow(1, 0, V).contiguous().requires_grad_(true);
    const Tensor expected = at::cross_entropy_loss(before, targets);
    expected.backward();
    const Tensor targets_on_gpu = targets.to(at_device());
    with_type(type, [&]<class T>() {
      kernels::cross_entropy<T>({.logits = pointer<T>(logits),
                                 .targets = pointer<const int64_t>(targets_on_gpu),
                                 .losses = pointer<float>(losses),
                                 .N = N,
                                 .V = V,
                                 .stride = stride,
                                 .scale = 1.0F / static_cast<float>(N)},
                                stream_for(logits));
    });
    kernels::mean_loss(pointer<const float>(losses), N, pointer<float>(mean), stream_for(logits));
    expect_error("cross_entropy", relative_error(mean, expected), 1e-5);
    expect_error("its gradient", relative_error(logits.narrow(1, 0, V), before.grad()), rounding(type));
    EXPECT_TRUE(logits.narrow(1, V, stride - V).eq(0).all().item<bool>());
  }
}

// Of more tiles than the device has blocks at once.
TEST_F(Kernels, AddNormBackward) {
  const int64_t N = 9001, C = 768;
  for (const at::ScalarType type : types) {
    const Tensor sum = on_gpu(random({N, C}), type), of_sum = on_gpu(random({N, C}), type);
    const Tensor of_normalized = on_gpu(random({N, C}), type), weight = on_gpu(1 + random({C}), at::kFloat);
    const Tensor s = exact(sum).requires_grad_(true), w = exact(weight).requires_grad_(true);
    const auto [normalized, mean, rstd] = at::native_layer_norm(s, {C}, w, at::zeros({C}, at::kDouble), 1e-5);
    normalized.backward(exact(of_normalized));
    const Tensor means = on_gpu(mean.detach(), at::kFloat), rstds = on_gpu(rstd.detach(), at::kFloat);
    const Tensor gradient = at::empty_like(sum);
    Tensor sums;
    with_type(type, [&]<class T>() {
      const Tensor partials = floats({3, kernels::add_norm_backward_strips<T, T>(N, C), C});
      const bool all = kernels::add_norm_backward<T, T, float>({.of_sum = pointer<const T>(of_sum),
                                                                .of_normalized = pointer<const T>(of_normalized),
                                                                .sum = pointer<const T>(sum),
                                                                .weight = pointer<const float>(weight),
                                                                .mean = pointer<const float>(means),
                                                                .rstd = pointer<const float>(rstds),
                                                                .gradient = pointer<T>(gradient),
                                                                .partials = pointer<float>(partials),
                                                                .sums_branch = true,
                                                                .N = N,
                                                                .C = C},
                                                               stream_for(sum));
      EXPECT_TRUE(all);
      sums = partials.sum(1);
    });
    expect_error("add_norm_backward", relative_error(gradient, s.grad() + exact(of_sum)), rounding(type));
    expect_error("its weight's gradient", relative_error(sums[0], w.grad()), 1e-5);
    expect_error("its bias's gradient", relative_error(sums[1], exact(of_normalized).sum(0)), 1e-5);
    expect_error("the added bias's gradient", relative_error(sums[2], exact(gradient).sum(0)), 1e-5);
  }
}

TEST_F(Kernels, Join) {
  const int64_t N = 1001, C = 768;
  for (const at::ScalarType type : types) {
    const Tensor q = on_gpu(random({N, C}), type), k = on_gpu(random({N, C}), type), v = on_gpu(random({N, C}), type);
    const Tensor joined = at::empty({N, 3 * C}, q.options()), expected = at::cat({q, k, v}, 1);
    with_type(type, [&]<class T>() {
      Sums sums(kernels::column_strips<T>(N, 3 * C), 3 * C);
      kernels::join<T>({.parts = {pointer<const T>(q), pointer<const T>(k), pointer<const T>(v)},
                        .joined = pointer<T>(joined),
                        .partials = sums.partials(),
                        .N = N,
                        .C = C},
                       stream_for(q));
      expect_error("the sums of join", relative_error(sums.add_up(false), exact(expected).sum(0)), 1e-5);
    });
    EXPECT_TRUE(at::equal(joined, expected));
  }
}

TEST_F(Kernels, Embedding) {
  const int64_t B = 3, T = 130, C = 256, V = 500, P = 150, N = B * T;
  const Tensor tokens = at::arange(N).mul(37).remainder(101).to(at_device());
  const Tensor wte = on_gpu(random({V, C}), at::kFloat), wpe = on_gpu(random({P, C}), at::kFloat);
  const Tensor rows = tokens.cpu(), positions = at::arange(N).remainder(T);
  for (const at::ScalarType type : types) {
    const Tensor upstream = on_gpu(random({N, C}), type);
    const Tensor d_wte = at::zeros_like(wte), d_wpe = at::empty_like(wpe);
    const Tensor workspace = floats({kernels::embedding_backward_workspace(N, C)});
    const auto [sorted, order] = at::sort(tokens.to(at::kInt), /*stable=*/true, 0, false);
    with_type(type, [&, &sorted = sorted, &order = order]<class S>() {
      kernels::embedding_backward<S>({.upstream = pointer<const S>(upstream),
                                      .sorted_tokens = pointer<const int32_t>(sorted),
                                      .order = pointer<const int64_t>(order),
                                      .wte_gradient = pointer<float>(d_wte),
                                      .wpe_gradient = pointer<float>(d_wpe),
                                      .accumulate_wpe = false,
                                      .workspace = pointer<float>(workspace),
                                      .N = N,
                                      .context = T,
                                      .C = C,
                                      .V = V,
                                      .P = P},
                                     stream_for(upstream));
    });
    const Tensor x = at::empty_like(upstream);
    with_type(type, [&]<class S>() {
      kernels::embedding_forward<float, S>({.tokens = pointer<const int64_t>(tokens),
                                            .wte = pointer<const float>(wte),
                                            .wpe = pointer<const float>(wpe),
                                            .x = pointer<S>(x),
                                            .N = N,
                                            .context = T,
                                            .C = C,
                                            .V = V},
                                           stream_for(x));
    });
    expect_error("the embedding",
                 relative_error(x, exact(wte).index_select(0, rows) + exact(wpe).index_select(0, positions)),
                 rounding(type));
    const auto back = [&](const Tensor& table, const Tensor& indices) {
      return at::zeros(table.sizes(), at::kDouble).index_add(0, indices, exact(upstream));
    };
    expect_error("wte's gradient", relative_error(d_wte, back(wte, rows)), 1e-5);
    expect_error("wpe's gradient", relative_error(d_wpe, back(wpe, positions)), 1e-5);
  }
}

TEST_F(Kernels, GradientNormAndAdamW) {
  const double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1, rate = 1e-3;
  std::vector<Tensor> weights, gradients, moments, before;
  std::vector<kernels::ParameterTensor> table;
  double squares = 0;
  for (const int64_t size : {7, 768, 100'003}) {
    weights.push_back(on_gpu(random({size}), at::kFloat));
    gradients.push_back(on_gpu(random({size}), at::kFloat));
    for (int i = 0; i < 2; ++i) moments.push_back(at::zeros_like(weights.back()));
    before.push_back(exact(weights.back()));
    squares += exact(gradients.back()).square().sum().item<double>();
    table.push_back({.weight = pointer<float>(weights.back()),
                     .remainder = nullptr,
                     .gradient = pointer<const float>(gradients.back()),
                     .first_moment = pointer<float>(moments[moments.size() - 2]),
                     .second_moment = pointer<float>(moments.back()),
                     .size = size,
                     .weight_decay = static_cast<float>(decay)});
  }
  const std::vector<kernels::Chunk> chunks = kernels::chunks_of(table);
  const auto bytes = [](auto& values) {
    const auto size = static_cast<int64_t>(values.size() * sizeof values[0]);
    return at::from_blob(values.data(), {size}, at::kByte).to(at_device());
  };
  auto chunk_table = chunks;
  const Tensor tensors_on_gpu = bytes(table), chunks_on_gpu = bytes(chunk_table);
  const auto* tensors = pointer<const kernels::ParameterTensor>(tensors_on_gpu);
  const auto* parts = pointer<const kernels::Chunk>(chunks_on_gpu);
  const auto count = static_cast<int64_t>(chunks.size());
  const Tensor workspace = floats({count}), norm = floats({}), coefficient = floats({});
  const Tensor learning_rate = floats({}).fill_(rate), step = floats({}).fill_(1.0);
  kernels::gradient_norm({.tensors = tensors,
                          .chunks = parts,
                          .chunk_count = count,
                          .max_norm = 1,
                          .workspace = pointer<float>(workspace),
                          .norm = pointer<float>(norm),
                          .coefficient = pointer<float>(coefficient)},
                         stream_for(norm));
  kernels::adamw<float>({.tensors = tensors,
                         .chunks = parts,
                         .chunk_count = count,
                         .learning_rate = pointer<const float>(learning_rate),
                         .step = pointer<const float>(step),
                         .coefficient = pointer<const float>(coefficient),
                         .beta1 = beta1,
                         .beta2 = beta2,
                         .eps = eps},
                        stream_for(norm));
  EXPECT_NEAR(norm.item<double>() / std::sqrt(squares), 1, 1e-5);
  for (size_t i = 0; i < weights.size(); ++i) {
    // In the first step the corrected moments are the gradient and its square.
    const Tensor g = exact(gradients[i]) / (std::sqrt(squares) + 1e-6);
    const Tensor expected = before[i] * (1 - rate * decay) - rate * g / (g.abs() + eps);
    expect_error("adamw", relative_error(exact(weights[i]) - before[i], expected - before[i]), 1e-3);
  }
}

// ---- Products with an epilogue

// Without timing, cuBLASLt's first proposal is taken.
class FirstProposal {
 public:
  FirstProposal() { at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true); }
  ~FirstProposal() { at::globalContext().setDeterministicAlgorithms(false, false); }
  FirstProposal(const FirstProposal&) = delete;  // puts back once
  FirstProposal& operator=(const FirstProposal&) = delete;
};

// x (M, K), weight (N, K), bias (N) and dy (M, N), as a step's products read them.
void expect_products(const std::vector<Tensor>& inputs, at::ScalarType type, bool timed) {
  const auto exact = [](const Tensor& t) { return t.to(at::kCPU, at::kDouble); };
  const Tensor &x = inputs[0], &weight = inputs[1], &bias = inputs[2], &dy = inputs[3];
  const Tensor fc = at::empty({x.size(0), weight.size(0)}, x.options()), hidden = at::empty_like(fc);
  blas::product(fc, x, weight.t(), {});
  const Tensor product = at::mm(exact(x), exact(weight).t());
  expect_error("x W^T", relative_error(fc, product), rounding(type));
  blas::product(fc, x, weight.t(), bias);
  expect_error("x W^T + b", relative_error(fc, product + exact(bias)), rounding(type));
  const Tensor dx = at::empty_like(x);
  blas::product(dx, dy, weight, {});
  expect_error("dy W", relative_error(dx, at::mm(exact(dy), exact(weight))), rounding(type));
  bool other_way = false;
  blas::gelu({.fc = fc, .hidden = hidden, .x = x, .weight = weight, .bias = bias}, [&] {
    other_way = true;
    fc.copy_(at::addmm(bias, x, weight.t()));
    hidden.copy_(at::gelu(fc, "tanh"));
  });
  EXPECT_TRUE(timed || other_way == (type == at::kFloat)) << "cuBLASLt's epilogue for " << at::toString(type);
  expect_error("gelu's argument", relative_error(fc, product + exact(bias)), rounding(type));
  expect_error("gelu's result", relative_error(hidden, at::gelu(product + exact(bias), "tanh")), 2 * rounding(type));
  const Tensor d_fc = at::empty_like(dx);
  int sums = 0;
  blas::gelu_backward(
      {.d_fc = d_fc, .dy = dy, .weight = weight, .fc = x}, [&] { ++sums; },
      [&] { d_fc.copy_(at::gelu_backward(at::mm(dy, weight), x, "tanh")); });
  EXPECT_TRUE(timed || sums == 0) << "the epilogue was not timed";
  expect_error("gelu's gradient",
               relative_error(d_fc, at::gelu_backward(at::mm(exact(dy), exact(weight)), exact(x), "tanh")),
               2 * rounding(type));
  const Tensor gradient = at::empty(weight.sizes(), x.options().dtype(at::kFloat));
  blas::weight_gradient(gradient, dy, x, /*accumulate=*/false);
  const Tensor twice = gradient.clone(), d_weight = at::mm(exact(dy).t(), exact(x));
  blas::weight_gradient(twice, dy, x, /*accumulate=*/true);
  expect_error("the weight's", relative_error(gradient, d_weight), 2 * rounding(type));
  expect_error("added to itself", relative_error(twice, 2 * d_weight), 2 * rounding(type));
}

TEST_F(Kernels, ProductsFollowFloat64) {
  const int64_t M = 384, N = 1024, K = 256;
  const MatmulPrecisionScope precision(MatmulPrecision::highest);
  for (const at::ScalarType type : types) {
    const std::vector<Tensor> inputs{on_gpu(random({M, K}), type), on_gpu(random({N, K}) / 16, type),
                                     on_gpu(random({N}), type), on_gpu(random({M, N}), type)};
    {
      const FirstProposal first;
      expect_products(inputs, type, /*timed=*/false);
    }
    expect_products(inputs, type, /*timed=*/true);
    const size_t made = product_timings().size();
    keep_product_timings(product_timings());
    expect_products(inputs, type, /*timed=*/true);
    EXPECT_EQ(product_timings().size(), made) << "a shape was timed twice";
  }
  for (const results::ProductTiming& one : product_timings()) {
    fmt::print("{} {} {} x {} x {}: algorithm {}, {:.1f} us, the other way {:.1f}\n", one.product, one.type, one.m,
               one.n, one.k, one.algorithm, one.microseconds, one.plain_microseconds);
  }
  EXPECT_FALSE(product_timings().empty());
}

// One scale for a matrix, or one for each row; of both types that a left matrix has.
TEST_F(Kernels, Fp8ProductsFollowWhatTheirMatricesSay) {
  if (harness::this_machine().gpu->compute_capability < 89) GTEST_SKIP() << "this GPU multiplies no fp8";
  const int64_t M = 384, N = 1024, K = 256;
  for (const bool by_rows : {false, true}) {
    if (by_rows && harness::this_machine().gpu->compute_capability != 90) continue;  // Hopper's alone
    for (const at::ScalarType type : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
      const auto matrix = [&](int64_t rows, at::ScalarType of) -> Fp8Matrix {
        const Tensor scales = at::linspace(0.5, 2, rows, at::kFloat);
        return {random({rows, K}).to(of).to(at::kCUDA), (by_rows ? scales : scales.narrow(0, 0, 1)).to(at::kCUDA)};
      };
      const auto exact = [](const Fp8Matrix& m) {
        return m.values.to(at::kCPU).to(at::kDouble) * m.scales.to(at::kCPU, at::kDouble).unsqueeze(1);
      };
      const Fp8Matrix left = matrix(M, type), right = matrix(N, at::kFloat8_e4m3fn);
      const Tensor bias = on_gpu(random({N}), at::kBFloat16), d = at::empty({M, N}, bias.options());
      const bool made = blas::fp8_product(d, left, right, bias);
      if (!made && by_rows && type == at::kFloat8_e5m2) continue;  // no step needs it
      ASSERT_TRUE(made) << at::toString(type);
      const Tensor expected = at::mm(exact(left), exact(right).t()) + bias.to(at::kCPU, at::kDouble);
      expect_error("fp8", relative_error(d, expected), rounding(at::kBFloat16));
    }
  }
}

// ---- The operations of the model

struct Operation {
  std::string name;
  std::vector<std::vector<int64_t>> inputs;
  std::function<std::vector<Tensor>(const Ops&, const std::vector<Tensor>&, at::ScalarType stream)> forward;
};

std::vector<Operation> operations(int64_t B, int64_t T, int64_t C) {
  const int64_t V = 1003, vocabulary = 997;
  const auto of_stream = [](const Tensor& x, at::ScalarType stream) {
    return x.scalar_type() == at::kDouble ? x : x.to(stream);
  };
  return {
      {"add_norm",
       {{B, T, C}, {B, T, C}, {C}, {C}},
       [of_stream](const Ops& ops, const auto& x, at::ScalarType stream) {
         const bool low = x[0].scalar_type() != at::kDouble && at::autocast::is_autocast_enabled(at_device().type());
         const Ops::Normed result = ops.add_norm(ops, {0, "ln_2", 0}, of_stream(x[0], stream),
                                                 low ? x[1].to(at::kBFloat16) : x[1], Affine{x[2], x[3]}, 1e-5);
         return std::vector<Tensor>{result.x, result.normalized};
       }},
      {"mlp",
       {{B, T, C}, {4 * C, C}, {4 * C}, {C, 4 * C}, {C}},
       [](const Ops& ops, const auto& x, at::ScalarType) {
         return std::vector<Tensor>{ops.mlp(ops, 0, x[0], Affine{x[1], x[2]}, Affine{x[3], x[4]})};
       }},
      {"head_loss",
       {{B, T, C}, {V, C}},
       [=](const Ops& ops, const auto& x, at::ScalarType) {
         const Tensor targets = at::arange(B * T).mul(37).remainder(vocabulary).view({B, T}).to(x[0].device());
         const Tensor words = x[0].scalar_type() == at::kDouble ? x[1].narrow(0, 0, vocabulary) : x[1];
         return std::vector<Tensor>{ops.head_loss(ops, x[0], words, targets, vocabulary)};
       }},
  };
}

// The worst of the results and the gradients.
double worst_error(const Operation& operation, const Recipe& recipe) {
  at::Generator generator = at::detail::createCPUGenerator(17);
  std::vector<Tensor> exact, tried;
  for (const auto& shape : operation.inputs) {
    const double std = shape.size() == 2 ? 1 / std::sqrt(static_cast<double>(shape[1])) : 1.0;
    const Tensor values = at::empty(shape).normal_(0.0, std, generator);
    exact.push_back(values.to(at::kDouble).requires_grad_(true));
    tried.push_back(values.to(at_device()).requires_grad_(true));
  }
  const bool low = recipe.residual == Residual::autocast;
  const std::vector<Tensor> expected = operation.forward(reference_ops(), exact, at::kDouble);
  std::vector<Tensor> seen;
  {
    const AutocastScope autocast(at_device().type(), recipe.autocast);
    seen = operation.forward(ops_for(recipe), tried, low ? at::kBFloat16 : at::kFloat);
  }
  double worst = 0;
  Tensor sum_expected = at::zeros({}, at::kDouble), sum_seen = at::zeros({}, at::kDouble).to(at_device());
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, relative_error(seen[i], expected[i]));
    const Tensor upstream = at::empty(expected[i].sizes()).normal_(0.0, 1.0, generator).to(at::kDouble);
    sum_expected = sum_expected + (expected[i] * upstream).sum();
    sum_seen = sum_seen + (seen[i].to(at::kDouble) * upstream.to(at_device())).sum();
  }
  sum_expected.backward();
  sum_seen.backward();
  for (size_t i = 0; i < exact.size(); ++i) worst = std::max(worst, relative_error(tried[i].grad(), exact[i].grad()));
  return worst;
}

const Recipe fused{
    .device = Device::cuda, .cross_entropy = CrossEntropy::fused, .norm = Norm::fused, .mlp = Mlp::fused};

TEST_F(Kernels, FusedOperationsFollowFloat64) {
  const MatmulPrecisionScope precision(MatmulPrecision::highest);
  std::vector<Recipe> recipes(3, fused);
  recipes[1].autocast = recipes[2].autocast = Autocast::bf16;
  recipes[2].residual = Residual::autocast;
  for (const auto& [B, T, C] :
       std::vector<std::array<int64_t, 3>>{{2, 128, 768}, {2, 24, 256}, {1, 61, 130}, {3, 5, 37}}) {
    for (const Operation& operation : operations(B, T, C)) {
      for (const Recipe& recipe : recipes) {
        const double error = worst_error(operation, recipe);
        expect_error(fmt::format("{} of {} x {} x {}, autocast {}", operation.name, B, T, C, name_of(recipe.autocast)),
                     error, recipe.autocast == Autocast::off ? 1e-5 : 2e-2);
      }
    }
  }
}

// A captured step takes the algorithms that the eager ones have timed.
TEST_F(Kernels, FusedStepsLearnWhatPlainOnesDoAlsoCaptured) {
  Recipe recipe = fused;
  recipe.optimizer = Optimizer::fused;
  recipe.vocabulary_rows = 50304;
  Recipe plain = recipe;
  plain.cross_entropy = CrossEntropy::aten;
  plain.norm = Norm::aten;
  plain.mlp = Mlp::aten;
  const TrainerOptions options{.B = 2, .T = 64, .accumulation = 2, .max_steps = 8};
  const std::vector<double> expected = losses(small(), plain, options), eager = losses(small(), recipe, options);
  recipe.execution = Execution::graph;
  const std::vector<double> captured = losses(small(), recipe, options);
  expect_learns(eager);
  for (size_t i = 0; i < expected.size(); ++i) {
    // The plain loss counts 47 padding rows as words.
    EXPECT_NEAR(eager[i], expected[i], 2e-3) << "step " << i;
    EXPECT_NEAR(captured[i], eager[i], 1e-3) << "step " << i;
  }
}

// Gradients in place, split weights and the update by our own kernels, of micro-steps that add up.
TEST_F(Kernels, MasterWeightsLearnWhatSeparateOnesDoAlsoCaptured) {
  Recipe recipe = fused;
  recipe.optimizer = Optimizer::fused;
  recipe.vocabulary_rows = 50304;
  const TrainerOptions options{.B = 2, .T = 64, .accumulation = 2, .max_steps = 8};
  for (const Autocast autocast : {Autocast::off, Autocast::bf16}) {
    recipe.autocast = autocast;
    recipe.residual = autocast == Autocast::off ? Residual::float32 : Residual::autocast;
    recipe.weights = Weights::separate;
    recipe.execution = Execution::eager;
    const std::vector<double> expected = losses(small(), recipe, options);
    recipe.weights = Weights::master;
    const std::vector<double> eager = losses(small(), recipe, options);
    recipe.execution = Execution::graph;
    const std::vector<double> captured = losses(small(), recipe, options);
    expect_learns(eager);
    const double near = autocast == Autocast::off ? 2e-3 : 2e-2;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(eager[i], expected[i], near) << "step " << i << ", autocast " << name_of(autocast);
      EXPECT_NEAR(captured[i], eager[i], near) << "step " << i << ", autocast " << name_of(autocast);
    }
  }
}

}  // namespace cuda_kernels_test
