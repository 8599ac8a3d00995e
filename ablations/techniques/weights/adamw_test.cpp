// AdamW, its split weights, and the gradients' norm, against float64.
#include "ablations/techniques/weights/adamw.h"

#include "ablations/techniques/weights/gradient_norm.h"
#include "ablations/techniques/weights/split_weight.h"
#include "tests/ablations/techniques/cuda/kernel_test.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <utility>

namespace kernels_optimizer_test {

using namespace kernels;
using namespace kernel_tests;

TEST(SplitWeight, LosesNothing) {
  // Every sign and exponent, and in each the mantissas around those where rounding changes.
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low : {0x0U, 0x1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const uint32_t bits = high << 16 | low;
      const auto weight = std::bit_cast<float>(bits);
      const SplitWeight parts = split(weight);
      const float hi = std::bit_cast<float>(uint32_t{parts.hi} << 16);
      if (std::isnan(weight)) {
        ASSERT_TRUE(std::isnan(hi) && std::isnan(join(parts))) << std::hex << bits;
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(join(parts)), bits) << std::hex << bits;
        // One of the two nearest, hence PyTorch's but for ties.
        ASSERT_TRUE(low == 0x8000 || parts.hi == __bfloat16_as_ushort(__float2bfloat16_rn(weight))) << std::hex << bits;
      }
    }
  }
}

// The tensors of a small model and what training needs of them.
template <class T>
struct Model {
  struct Tensor {
    Buffer<T> weight;
    Buffer<int16_t> remainder;
    Buffer<float> gradient, first_moment, second_moment;
    Buffer<float> maxima;  // of each chunk
  };

  void add(size_t size, float weight_decay, size_t shift = 0) {
    const auto seed = static_cast<unsigned>(tensors.size());
    const Buffer<float> start = random<float>(size, 100 + seed, 0.02);
    Tensor& tensor = tensors.emplace_back(Tensor{Buffer<T>(size, shift), Buffer<int16_t>(size, shift),
                                                 random<float>(size, 200 + seed, 3, 0, shift),
                                                 filled<float>(size, 0, shift), filled<float>(size, 0, shift),
                                                 filled<float>((size + chunk_elements - 1) / chunk_elements, 1e30F)});
    for (size_t i = 0; i < size; ++i) {
      if constexpr (std::is_same_v<T, float>) {
        tensor.weight[i] = start[i];
      } else {
        const SplitWeight parts = split(start[i]);
        tensor.weight[i] = __ushort_as_bfloat16(parts.hi);
        tensor.remainder[i] = parts.lo;
      }
    }
    table.push_back({.weight = tensor.weight.data(),
                     .remainder = std::is_same_v<T, float> ? nullptr : tensor.remainder.data(),
                     .gradient = tensor.gradient.data(),
                     .first_moment = tensor.first_moment.data(),
                     .second_moment = tensor.second_moment.data(),
                     .size = static_cast<int64_t>(size),
                     .weight_decay = weight_decay,
                     .maxima = std::is_same_v<T, float> ? nullptr : tensor.maxima.data()});
    chunks = chunks_of(table);
  }

  std::vector<double> weights() const {
    std::vector<double> all;
    for (const Tensor& tensor : tensors) {
      for (size_t i = 0; i < tensor.weight.size(); ++i) {
        if constexpr (std::is_same_v<T, float>) {
          all.push_back(tensor.weight[i]);
        } else {
          all.push_back(join({__bfloat16_as_ushort(tensor.weight[i]), tensor.remainder[i]}));
        }
      }
    }
    return all;
  }

  // An empty one, two that are smaller than a vector, one of a whole chunk, one of two and a rest, one that begins
  // anywhere.
  static Model example() {
    Model model;
    model.add(0, 0.1F);
    model.add(1, 0);
    model.add(7, 0.1F);
    model.add(1000, 0);
    model.add(chunk_elements, 0.1F);
    model.add(2 * chunk_elements + 123, 0.1F);
    model.add(300, 0, /*shift=*/1);
    return model;
  }

  std::deque<Tensor> tensors;
  std::vector<ParameterTensor> table;
  std::vector<Chunk> chunks;
};

constexpr double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
constexpr int steps = 3;

template <class T>
void take_step(Model<T>& model, int step, float coefficient) {
  const float rate = 1e-2F / static_cast<float>(step), t = static_cast<float>(step);
  adamw<T>({.tensors = model.table.data(),
            .chunks = model.chunks.data(),
            .chunk_count = static_cast<int64_t>(model.chunks.size()),
            .learning_rate = &rate,
            .step = &t,
            .coefficient = &coefficient,
            .beta1 = beta1,
            .beta2 = beta2,
            .eps = eps},
           nullptr);
}

template <class T>
std::vector<double> trained(float coefficient = 0.25F, double bad_gradient = 0) {
  const auto results = in_both_orders([&] {
    Model<T> model = Model<T>::example();
    if (bad_gradient != 0) model.tensors[3].gradient[500] = static_cast<float>(bad_gradient);
    for (int step = 1; step <= steps; ++step) take_step(model, step, coefficient);
    std::vector<double> bf16_weights;  // what products read
    for (const auto& tensor : model.tensors) {
      for (const double weight : tensor.weight.doubles()) bf16_weights.push_back(weight);
    }
    return Results{model.weights(), bf16_weights};
  });
  if (nans(results[0]) == 0) {
    EXPECT_LT(relative_error(results[1], results[0]), rounding<T>);
  }
  EXPECT_EQ(nans(results[1]), nans(results[0]));
  return results[0];
}

TEST(AdamWKernel, IsThatOfFloat64) {
  const Model<float> model = Model<float>::example();
  std::vector<double> expected;
  for (size_t k = 0; k < model.tensors.size(); ++k) {
    const auto& tensor = model.tensors[k];
    for (size_t i = 0; i < tensor.weight.size(); ++i) {
      double w = tensor.weight.at(i), m = 0, v = 0;
      for (int step = 1; step <= steps; ++step) {
        const double rate = 1e-2 / step, g = tensor.gradient.at(i) * 0.25;
        m = beta1 * m + (1 - beta1) * g;
        v = beta2 * v + (1 - beta2) * g * g;
        w -= rate * double{model.table[k].weight_decay} * w;
        w -= rate * (m / (1 - std::pow(beta1, step))) / (std::sqrt(v / (1 - std::pow(beta2, step))) + eps);
      }
      expected.push_back(w);
    }
  }
  EXPECT_LT(relative_error(trained<float>(), expected), 1e-6);
}

TEST(AdamWKernel, SplitWeightsAreTheFloat32WeightsToTheBit) { EXPECT_EQ(trained<bf16>(), trained<float>()); }

TEST(AdamWKernel, ANumberThatIsNoneStaysInItsWeightAndIsSeenInTheBf16Copy) {
  for (const double bad : {double{NAN}, double{INFINITY}}) {
    EXPECT_EQ(nans(trained<float>(0.25F, bad)), 1U);
    EXPECT_EQ(nans(trained<bf16>(0.25F, bad)), 1U);
  }
}

TEST(AdamWKernel, TheNormsNaNReachesEveryWeight) {
  const std::vector<double> weights = trained<float>(NAN);
  EXPECT_EQ(nans(weights), weights.size());
}

// Exactly, and whatever was there before. NaN counts for nothing.
TEST(AdamWKernel, FindsTheGreatestBf16WeightOfEachChunk) {
  const auto results = in_both_orders([] {
    Model<bf16> model = Model<bf16>::example();
    model.tensors[3].weight[500] = __float2bfloat16_rn(NAN);
    model.tensors[4].weight[7] = __float2bfloat16_rn(-INFINITY);
    model.tensors[4].remainder[7] = 0;
    model.add(2 * chunk_elements, 0.1F);
    auto& zeros = model.tensors.back();
    for (size_t i = 0; i < zeros.weight.size(); ++i) {
      zeros.weight[i] = __float2bfloat16_rn(0);
      zeros.remainder[i] = 0;
      zeros.gradient[i] = 0;
    }
    Results found_and_expected(2);
    for (int step = 1; step <= steps; ++step) {
      take_step(model, step, 0.25F);
      for (const auto& tensor : model.tensors) {
        std::vector<double> greatest(tensor.maxima.size());
        for (size_t i = 0; i < tensor.weight.size(); ++i)
          greatest[i / chunk_elements] = std::fmax(greatest[i / chunk_elements], std::abs(tensor.weight.at(i)));
        found_and_expected[1].insert(found_and_expected[1].end(), greatest.begin(), greatest.end());
        const std::vector<double> found = tensor.maxima.doubles();
        found_and_expected[0].insert(found_and_expected[0].end(), found.begin(), found.end());
      }
    }
    return found_and_expected;
  });
  EXPECT_EQ(results[0].size(), size_t{steps} * 10);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(std::ranges::count(results[0], INFINITY), steps);
  EXPECT_EQ(std::ranges::count(results[0], 0), 2 * steps);
}

// The norm and the coefficient.
std::pair<double, double> norm_of(Model<float>& model, float max_norm) {
  const auto results = in_both_orders([&] {
    Buffer<float> workspace(model.chunks.size()), norm(1), coefficient(1);
    gradient_norm({.tensors = model.table.data(),
                   .chunks = model.chunks.data(),
                   .chunk_count = static_cast<int64_t>(model.chunks.size()),
                   .max_norm = max_norm,
                   .workspace = workspace.data(),
                   .norm = norm.data(),
                   .coefficient = coefficient.data()},
                  nullptr);
    return Results{norm.doubles(), coefficient.doubles()};
  });
  return {results[0][0], results[1][0]};
}

TEST(GradientNormKernel, IsThatOfFloat64) {
  Model<float> model = Model<float>::example();
  double squares = 0;
  for (const auto& tensor : model.tensors) {
    for (const double g : tensor.gradient.doubles()) squares += g * g;
  }
  const auto [norm, coefficient] = norm_of(model, 2);
  EXPECT_NEAR(norm / std::sqrt(squares), 1, 1e-6);
  EXPECT_NEAR(coefficient / (2 / (std::sqrt(squares) + 1e-6)), 1, 1e-6);
  EXPECT_EQ(norm_of(model, 1e6F).second, 1);
  Model<float> nothing;
  EXPECT_EQ(norm_of(nothing, 1), std::pair(0.0, 1.0));
}

TEST(GradientNormKernel, ANumberThatIsNoneIsSeen) {
  Model<float> model = Model<float>::example();
  model.tensors[2].gradient[6] = NAN;
  const auto [norm, coefficient] = norm_of(model, 1);
  EXPECT_TRUE(std::isnan(norm) && std::isnan(coefficient));
  model.tensors[2].gradient[6] = 1e30F;  // its square is infinite
  EXPECT_EQ(norm_of(model, 1).second, 0);
}

}  // namespace kernels_optimizer_test
