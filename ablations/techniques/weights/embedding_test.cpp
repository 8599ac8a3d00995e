// The token and position embeddings and their gradients against float64.
#include "ablations/techniques/weights/embedding.h"

#include "tests/ablations/techniques/cuda/kernel_test.h"

#include <numeric>

namespace kernels_embedding_test {

using namespace kernels;
using namespace kernel_tests;

template <class T>
class EmbeddingOf : public testing::Test {};
TYPED_TEST_SUITE(EmbeddingOf, Types);

struct Shape {
  size_t B, context, C, V, P;
  size_t N() const { return B * context; }
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << s.B << " x " << s.context << " tokens of " << s.V << ", " << s.C << " columns, " << s.P << " positions";
}

constexpr Shape shapes[] = {{1, 1, 1, 1, 1},     {2, 3, 7, 5, 4},      {3, 33, 8, 11, 33},
                            {2, 50, 100, 7, 64}, {2, 70, 264, 50, 70}, {1, 130, 1032, 3, 130}};

std::vector<int64_t> tokens_of(const Shape& shape) {
  std::vector<int64_t> tokens;
  // Some occur often, some once, some never.
  for (size_t n = 0; n < shape.N(); ++n) tokens.push_back(static_cast<int64_t>((n * n + n / 5) % shape.V));
  return tokens;
}

struct Gradients {
  std::vector<double> wte, wpe;
};

template <class T>
Gradients backward(const Shape& shape, const Buffer<T>& upstream, const std::vector<int64_t>& tokens, bool accumulate) {
  std::vector<int64_t> order(tokens.size());
  std::vector<int32_t> sorted;
  std::iota(order.begin(), order.end(), 0);
  const auto token_of = [&](int64_t row) { return tokens[static_cast<size_t>(row)]; };
  std::ranges::stable_sort(order, {}, token_of);
  for (const int64_t row : order) sorted.push_back(static_cast<int32_t>(token_of(row)));
  const auto N = static_cast<int64_t>(shape.N()), C = static_cast<int64_t>(shape.C);
  const auto results = in_both_orders([&] {
    Buffer<float> wte = random<float>(shape.V * shape.C, 3), wpe = random<float>(shape.P * shape.C, 4);
    Buffer<float> workspace(static_cast<size_t>(embedding_backward_workspace(N, C)));
    embedding_backward<T>({.upstream = upstream.data(),
                           .sorted_tokens = sorted.data(),
                           .order = order.data(),
                           .wte_gradient = wte.data(),
                           .wpe_gradient = wpe.data(),
                           .accumulate_wpe = accumulate,
                           .workspace = workspace.data(),
                           .N = N,
                           .context = static_cast<int64_t>(shape.context),
                           .C = C,
                           .V = static_cast<int64_t>(shape.V),
                           .P = static_cast<int64_t>(shape.P)},
                          nullptr);
    return Results{wte.doubles(), wpe.doubles()};
  });
  return {results[0], results[1]};
}

template <class T>
Gradients expected(const Shape& shape, const Buffer<T>& upstream, const std::vector<int64_t>& tokens, bool accumulate) {
  Gradients result{random<float>(shape.V * shape.C, 3).doubles(), std::vector<double>(shape.P * shape.C)};
  if (accumulate) result.wpe = random<float>(shape.P * shape.C, 4).doubles();
  for (size_t i = 0; i < shape.N() * shape.C; ++i) {
    const size_t n = i / shape.C, c = i % shape.C;
    if (const int64_t token = tokens[n]; token >= 0 && token < static_cast<int64_t>(shape.V))
      result.wte[static_cast<size_t>(token) * shape.C + c] += upstream.at(i);
    result.wpe[n % shape.context * shape.C + c] += upstream.at(i);
  }
  return result;
}

template <class T>
void expect_backward_is_right(const Shape& shape, const std::vector<int64_t>& tokens, size_t shift = 0) {
  const auto upstream = random<T>(shape.N() * shape.C, 5, 1, 0.3, shift);
  for (const bool accumulate : {false, true}) {
    const Gradients found = backward(shape, upstream, tokens, accumulate);
    const Gradients right = expected(shape, upstream, tokens, accumulate);
    EXPECT_LT(relative_error(found.wte, right.wte), 1e-6);
    EXPECT_LT(relative_error(found.wpe, right.wpe), 1e-6);
  }
}

// The rows that it makes, and those of float64.
template <class W, class T>
Results forward(const Shape& shape, const std::vector<int64_t>& tokens, size_t shift = 0) {
  const auto wte = random<W>(shape.V * shape.C, 3, 1, 0, shift);
  const auto wpe = random<float>(shape.P * shape.C, 4, 1, 0, shift);
  Results results = in_both_orders([&] {
    Buffer<T> x(shape.N() * shape.C, shift);
    embedding_forward<W, T>({.tokens = tokens.data(),
                             .wte = wte.data(),
                             .wpe = wpe.data(),
                             .x = x.data(),
                             .N = static_cast<int64_t>(shape.N()),
                             .context = static_cast<int64_t>(shape.context),
                             .C = static_cast<int64_t>(shape.C),
                             .V = static_cast<int64_t>(shape.V)},
                            nullptr);
    return Results{x.doubles()};
  });
  auto& sums = results.emplace_back();
  for (size_t n = 0; n < shape.N(); ++n) {
    const int64_t token = tokens[n];
    for (size_t c = 0; c < shape.C; ++c) {
      const bool known = token >= 0 && token < static_cast<int64_t>(shape.V);
      sums.push_back(known ? wte.at(static_cast<size_t>(token) * shape.C + c) + wpe.at(n % shape.context * shape.C + c)
                           : NAN);
    }
  }
  return results;
}

TYPED_TEST(EmbeddingOf, IsThatOfFloat64) {
  for (const Shape& shape : shapes) {
    for (const size_t shift : {0, 1}) {
      SCOPED_TRACE(testing::Message() << shape);
      const std::vector<int64_t> tokens = tokens_of(shape);
      expect_backward_is_right<TypeParam>(shape, tokens, shift);
      for (const Results& x :
           {forward<float, TypeParam>(shape, tokens, shift), forward<bf16, TypeParam>(shape, tokens, shift)})
        EXPECT_LT(relative_error(x[0], x[1]), rounding<TypeParam>);
    }
  }
}

TYPED_TEST(EmbeddingOf, TheRowOfATokenThatIsNoneIsNoNumber) {
  const Results x = forward<bf16, TypeParam>({1, 5, 8, 3, 5}, {0, -1, 2, 3, 1});
  for (size_t i = 0; i < x[0].size(); ++i) EXPECT_EQ(std::isnan(x[0][i]), std::isnan(x[1][i])) << i;
  EXPECT_EQ(nans(x[0]), 16U);
}

// Windows have 32 places.
TYPED_TEST(EmbeddingOf, ARunOfOneTokenMayEndAnywhere) {
  const Shape shape{1, 130, 8, 3, 130};
  for (const size_t first : {0, 1, 31, 32, 33, 64, 95, 96, 97, 129, 130}) {
    for (const size_t second : {0, 1, 31, 32, 33, 65, 130}) {
      SCOPED_TRACE(testing::Message() << first << " and " << second);
      std::vector<int64_t> tokens(130, 2);
      for (size_t i = 0; i < first; ++i) tokens[i] = 0;
      for (size_t i = first; i < std::min<size_t>(first + second, 130); ++i) tokens[i] = 1;
      expect_backward_is_right<TypeParam>(shape, tokens);
    }
  }
}

TYPED_TEST(EmbeddingOf, ATokenThatIsNoneHasNoGradient) {
  const Shape shape{1, 130, 8, 3, 130};
  std::vector<int64_t> tokens(130, -1);
  for (size_t i = 50; i < 130; ++i) tokens[i] = i % 5;  // two of them are none
  expect_backward_is_right<TypeParam>(shape, tokens);
}

TYPED_TEST(EmbeddingOf, ANumberThatIsNoneStaysInItsRows) {
  const Shape shape{2, 20, 8, 40, 25};
  std::vector<int64_t> tokens(40);
  std::iota(tokens.begin(), tokens.end(), 0);
  auto upstream = random<TypeParam>(40 * 8, 5, 1e30);
  upstream[23 * 8 + 1] = from_float<TypeParam>(NAN);
  const Gradients found = backward(shape, upstream, tokens, false);
  EXPECT_TRUE(std::isnan(found.wte[23 * 8 + 1]) && std::isnan(found.wpe[3 * 8 + 1]));
  EXPECT_EQ(nans(found.wte) + nans(found.wpe), 2U);
}

}  // namespace kernels_embedding_test
