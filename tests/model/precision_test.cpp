// Scopes put back what they found.
#include "model/precision.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

namespace precision_test {

using namespace model;

TEST(MatmulPrecisionScope, SetsAndRestoresAlsoWhatCublasIsTold) {
  auto& context = at::globalContext();
  const auto cublas = [&] {
    return at::precision2str(context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL));
  };
  ASSERT_EQ(context.float32MatmulPrecision(), at::Float32MatmulPrecision::HIGHEST);
  {
    const MatmulPrecisionScope outer(MatmulPrecision::high);
    EXPECT_EQ(cublas(), "tf32");
    EXPECT_TRUE(context.allowTF32CuBLAS());
    {
      const MatmulPrecisionScope inner(MatmulPrecision::medium);
      EXPECT_EQ(context.float32MatmulPrecision(), at::Float32MatmulPrecision::MEDIUM);
    }
    EXPECT_EQ(context.float32MatmulPrecision(), at::Float32MatmulPrecision::HIGH);
  }
  EXPECT_EQ(context.float32MatmulPrecision(), at::Float32MatmulPrecision::HIGHEST);
  EXPECT_EQ(cublas(), "ieee");
  const MatmulPrecisionScope highest(MatmulPrecision::highest);
  EXPECT_EQ(cublas(), "ieee");
  EXPECT_FALSE(context.allowTF32CuBLAS());
}

TEST(AutocastScope, CastsInsideRestoresOutsideAndForgetsWeights) {
  const at::Tensor a = at::randn({8, 8});
  at::Tensor weight = at::randn({8, 8}).requires_grad_(true);
  {
    const AutocastScope scope(at::kCPU, Autocast::bf16);
    EXPECT_EQ(at::matmul(a, weight).scalar_type(), at::kBFloat16);
    {
      const AutocastScope off(at::kCPU, Autocast::off);
      EXPECT_EQ(at::matmul(a, weight).scalar_type(), at::kFloat);
    }
    EXPECT_EQ(at::matmul(a, weight).scalar_type(), at::kBFloat16);
  }
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_EQ(at::matmul(a, weight).scalar_type(), at::kFloat);
  // A copy of the weight kept from the first scope would give the product of the old weight.
  weight.data().zero_();
  const AutocastScope scope(at::kCPU, Autocast::bf16);
  EXPECT_EQ(at::matmul(a, weight).abs().max().item<float>(), 0.0F);
}

TEST(SdpaScope, EnablesExactlyOneAndRestores) {
  auto& context = at::globalContext();
  const bool flash = context.userEnabledFlashSDP(), math = context.userEnabledMathSDP();
  {
    const SdpaScope scope(Attention::flash);
    EXPECT_TRUE(context.userEnabledFlashSDP());
    EXPECT_FALSE(context.userEnabledMathSDP());
    EXPECT_FALSE(context.userEnabledMemEfficientSDP());
    EXPECT_FALSE(context.userEnabledCuDNNSDP());
  }
  EXPECT_EQ(context.userEnabledFlashSDP(), flash);
  EXPECT_EQ(context.userEnabledMathSDP(), math);
}

TEST(DeterminismScope, SetsAndRestores) {
  auto& context = at::globalContext();
  const auto seen = [&] {
    return std::array{context.deterministicAlgorithms(), context.deterministicAlgorithmsWarnOnly(),
                      context.deterministicFillUninitializedMemory(), context.deterministicCuDNN(),
                      context.benchmarkCuDNN()};
  };
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
  context.setBenchmarkCuDNN(true);
  const auto before = seen();
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0", 1);  // which does not repeat itself
  {
    const DeterminismScope on(true);
    EXPECT_EQ(seen(), (std::array{true, false, false, true, false}));
    EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
    {
      const DeterminismScope off(false);
      EXPECT_FALSE(context.deterministicAlgorithms());
    }
    EXPECT_TRUE(context.deterministicAlgorithms());
  }
  EXPECT_EQ(seen(), before);
  context.setDeterministicAlgorithms(false, false);
  context.setBenchmarkCuDNN(false);
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  const DeterminismScope on(true);
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":16:8");
}

}  // namespace precision_test
