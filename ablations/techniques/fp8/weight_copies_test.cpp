// fp8 copies of weights and their transposes, and scales of what LayerNorms make.
#include "ablations/techniques/fp8/weight_copies.h"

#include "tests/ablations/techniques/cuda/fp8_test.h"

#include <tuple>

namespace kernels_weight_copies_test {

using namespace kernels;
using namespace kernel_tests;

struct Weight {
  int64_t out, in;
  Buffer<bf16> weight;
  Buffer<uint8_t> rows, columns;
  Buffer<float> row_scales, column_scales, maxima;  // maxima: the last is the greatest

  Weight(int64_t out_features, int64_t in_features, unsigned seed, double scale, size_t parts)
      : out(out_features),
        in(in_features),
        weight(random<bf16>(count(), seed, scale)),
        rows(count()),
        columns(count()),
        row_scales(static_cast<size_t>(out)),
        column_scales(static_cast<size_t>(in)),
        maxima(filled<float>(parts, 0)) {
    for (const double x : weight.doubles())
      maxima[parts - 1] = std::max(maxima[parts - 1], static_cast<float>(std::abs(x)));
  }
  [[nodiscard]] size_t count() const { return static_cast<size_t>(out * in); }
};

TEST(WeightCopies, HaveTheWeightsScaleAndTheirTransposesToo) {
  std::vector<Weight> weights;
  for (const auto& [out, in, parts] : {std::tuple{16, 16, 1}, {64, 128, 2}, {80, 48, 1024}, {208, 64, 2500}})
    weights.emplace_back(out, in, static_cast<unsigned>(out), out / 100.0, parts);
  const Buffer<float> norm = random<float>(100, 5, 2), bias = random<float>(100, 6, 3);
  const Results results = in_both_orders([&] {
    std::vector<WeightCopies> table;
    for (Weight& w : weights)
      table.push_back({w.weight.data(), w.maxima.data(), w.rows.data(), w.columns.data(), w.row_scales.data(),
                       w.column_scales.data(), w.out, w.in, static_cast<int64_t>(w.maxima.size())});
    Buffer<float> scale(1);
    const std::vector<NormScale> norms{{norm.data(), bias.data(), scale.data(), 100}};
    const std::vector<WeightTile> tiles = weight_tiles(table);
    copy_weights({table.data(), norms.data(), tiles.data(), std::ssize(table), std::ssize(norms), std::ssize(tiles)},
                 nullptr);
    Results made{scale.doubles()};
    for (const Weight& w : weights)
      made.insert(made.end(),
                  {e4m3_values(w.rows), e4m3_values(w.columns), w.row_scales.doubles(), w.column_scales.doubles()});
    return made;
  });
  const auto greatest = [](const std::vector<double>& values) {
    double most = 0;
    for (const double x : values) most = std::max(most, std::abs(x));
    return most;
  };
  const double bound = std::sqrt(99.0) * greatest(norm.doubles()) + greatest(bias.doubles());
  EXPECT_NEAR(results[0][0], bound / 448, 1e-6 * bound);
  for (size_t i = 0; i < weights.size(); ++i) {
    const Weight& w = weights[i];
    const double most = greatest(w.weight.doubles());
    const std::vector<double>&rows = results[4 * i + 1], &columns = results[4 * i + 2];
    for (const double scale : results[4 * i + 3]) ASSERT_NEAR(scale, most / 448, 1e-8);
    for (const double scale : results[4 * i + 4]) ASSERT_NEAR(scale, most / 448, 1e-8);
    for (size_t at = 0; at < w.count(); ++at) {
      const double x = w.weight.at(at);
      ASSERT_NEAR(rows[at] * most / 448, x, std::max(std::abs(x) / 16, most / 448 / 1024) * 1.001);
      const size_t row = at / static_cast<size_t>(w.in), column = at % static_cast<size_t>(w.in);
      ASSERT_EQ(columns[column * static_cast<size_t>(w.out) + row], rows[at]) << row << ", " << column;
    }
  }
}

}  // namespace kernels_weight_copies_test
