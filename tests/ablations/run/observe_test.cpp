// What a run is seen to do: memory's parts, the peak, precision by its error.
#include "ablations/run/observe.h"

#include "ablations/run/memory.h"
#include "model/trainer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <typeinfo>

namespace {

using namespace ablations;
using namespace model;

TokenStream text() {
  TokenStream stream;
  for (int i = 0; i < 2000; ++i) stream.tokens.push_back(static_cast<uint16_t>(i * 31 % 50257));
  return stream;
}

TEST(Observe, TellsActivationsFromWeights) {
  const auto activations = [](const TrainerOptions& options) {
    const TokenStream stream = text();
    Trainer trainer(preset("tiny"), {}, options, stream);
    trainer.step();
    const auto memory = observe(trainer).at("memory");
    EXPECT_EQ(memory.at("weights_bytes"), 4 * preset("tiny").parameters());
    EXPECT_EQ(memory.at("gradients_bytes"), memory.at("weights_bytes"));
    EXPECT_EQ(memory.at("optimizer_bytes").get<int64_t>(), 2 * memory.at("weights_bytes").get<int64_t>());
    return memory.at("activations_bytes").get<double>();
  };
  const double one = activations({.B = 2, .T = 32, .max_steps = 1 + observed_steps});
  // The logarithms of the probabilities alone: one float for each token and word of the vocabulary.
  EXPECT_GT(one, 2 * 32 * 50257 * 4);
  EXPECT_LT(one, 5 * 2 * 32 * 50257 * 4);
  EXPECT_NEAR(activations({.B = 4, .T = 32, .max_steps = 1 + observed_steps}) / one, 2.0, 0.02);
  EXPECT_NEAR(activations({.B = 2, .T = 32, .accumulation = 3, .max_steps = 1 + observed_steps}) / one, 1.0, 0.02);
}

// Under autocast a step without tokens would still leave the weights' 16-bit copies for backward: what two batch sizes
// show at B = 0 is what was counted apart.
TEST(Observe, TellsActivationsFromCopiesOfWeights) {
  const auto memory_of = [](const Recipe& recipe, int64_t B) {
    const TokenStream stream = text();
    Trainer trainer(preset("tiny"), recipe, {.B = B, .T = 32, .max_steps = 1 + observed_steps}, stream);
    trainer.step();
    auto memory = observe(trainer).at("memory");
    int64_t in_products = 0, in_layer_norms = 0;  // parameters
    for (const Parameter& parameter : trainer.model().parameters()) {
      if (parameter.name.find("ln_") != std::string::npos)
        in_layer_norms += parameter.tensor.numel();
      else if (parameter.tensor.dim() == 2 && parameter.name != "wpe.weight")
        in_products += parameter.tensor.numel();
    }
    memory["expected"] = 2 * (in_products + (recipe.residual == Residual::autocast ? in_layer_norms : 0));
    return memory;
  };
  for (const Residual residual : {Residual::float32, Residual::autocast}) {
    const Recipe bf16{.autocast = Autocast::bf16, .residual = residual};
    const auto two = memory_of(bf16, 2), four = memory_of(bf16, 4);
    EXPECT_EQ(two.at("weight_copies_bytes"), two.at("expected"));
    EXPECT_EQ(four.at("weight_copies_bytes"), two.at("expected"));
    const double activations = two.at("activations_bytes"), copies = two.at("weight_copies_bytes");
    EXPECT_NEAR(four.at("activations_bytes").get<double>() / activations, 2.0, 0.02);
    const double at_zero = 2 * (activations + copies) - (four.at("activations_bytes").get<double>() + copies);
    EXPECT_NEAR(at_zero / copies, 1.0, 0.02);
  }
  EXPECT_EQ(memory_of({}, 2).at("weight_copies_bytes"), 0);
}

TEST(Observe, LeavesATrainerAsItWasWhereAStepFails) {
  const TokenStream stream = text();
  Trainer trainer(preset("tiny"), {}, {.B = 2, .T = 32, .max_steps = 1 + observed_steps}, stream);
  trainer.ops().attention = [](const at::Tensor&, const at::Tensor&, const at::Tensor&) -> at::Tensor {
    throw std::runtime_error("planted");
  };
  const std::type_info& head = trainer.ops().head.target_type();
  const std::type_info& on_phase = trainer.on_phase.target_type();
  EXPECT_THROW((void)observe(trainer), std::runtime_error);
  EXPECT_TRUE(trainer.ops().head.target_type() == head);
  EXPECT_TRUE(trainer.on_phase.target_type() == on_phase);
}

TEST(PeakMemory, IsOfWhatComesAfterAReset) {
  if (::access("/proc/self/clear_refs", W_OK) != 0) GTEST_SKIP() << "this kernel forgets no peak";
  constexpr size_t bytes = size_t{256} << 20;
  void* const block = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, bytes);
  ::munmap(block, bytes);
  const auto peak = [] { return peak_memory({}).at("peak_bytes").get<int64_t>(); };
  const int64_t before = peak();
  reset_peak_memory({});
  EXPECT_LT(peak(), before - (int64_t{200} << 20));
}

TEST(Precision, IsReadOffTheError) {
  EXPECT_EQ(precision_of(4e-7), "float32");
  EXPECT_EQ(precision_of(3e-4), "tf32 or float16");
  EXPECT_EQ(precision_of(2.9e-3), "bfloat16");
  EXPECT_EQ(precision_of(0.5), "wrong");
  EXPECT_EQ(precision_of(std::nan("")), "wrong");
  // Against products of factors that were really rounded, at both sizes at which it is asked.
  at::manual_seed(5);
  for (const int64_t terms : {512, 2048}) {
    const at::Tensor a = at::randn({128, terms}), b = at::randn({terms, 512});
    const at::Tensor exact = at::matmul(a.to(at::kDouble), b.to(at::kDouble));
    const auto error = [&](const at::Tensor& product) {
      return ((product.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
    };
    const auto product = [&](const auto& reduced) {
      return at::matmul(reduced(a).to(at::kDouble), reduced(b).to(at::kDouble));
    };
    const auto rounded = [&](at::ScalarType type) { return product([&](const at::Tensor& x) { return x.to(type); }); };
    // A tensor core may cut float32 off to the upper bits of its mantissa instead of rounding it.
    const auto cut_off = [&](int bits) {
      return product([&](const at::Tensor& x) {
        return x.view(at::kInt).bitwise_and(~((1 << (23 - bits)) - 1)).view(at::kFloat);
      });
    };
    at::Tensor chain = at::zeros({128, 512});  // one sum after the other, in float32
    for (int64_t k = 0; k < terms; ++k) chain.add_(at::outer(a.select(1, k), b.select(0, k)));
    struct Case {
      at::Tensor product;
      const char* precision;
      double error;
    };
    const Case cases[] = {{chain, "float32", terms == 512 ? 4.1e-7 : 8.1e-7},
                          {rounded(at::kHalf), "tf32 or float16", 2.9e-4},
                          {rounded(at::kHalf).to(at::kHalf), "tf32 or float16", 3.6e-4},
                          {cut_off(10), "tf32 or float16", 7.7e-4},
                          {rounded(at::kBFloat16), "bfloat16", 2.4e-3},
                          {rounded(at::kBFloat16).to(at::kBFloat16), "bfloat16", 2.9e-3},
                          {cut_off(7), "bfloat16", 6.2e-3},
                          {rounded(at::kFloat8_e4m3fn), "wrong", 3.7e-2}};
    for (const Case& each : cases) {
      const double found = error(each.product);
      EXPECT_NEAR(found, each.error, 0.05 * each.error) << terms;
      for (const double factor : {1 / 1.7, 1.0, 1.7}) {  // so much room
        EXPECT_EQ(precision_of(found * factor), each.precision) << terms << " " << found * factor;
      }
    }
  }
}

}  // namespace
