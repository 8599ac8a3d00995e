// Whether an operation of our own is taken. All times are made up, but in the last test, which compares none.
#include "ablations/profile/own_operations.h"

#include "ablations/gpt2/ladder_file.h"
#include "ablations/gpt2/modes.h"
#include "ablations/techniques/techniques.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace own_operations_test {

using namespace ablations;
using model::Autocast;
using model::Products;
using model::Recipe;

// PyTorch's way takes 1,000 us everywhere; ours as long as `own_us` says.
struct Timer {
  std::function<double(const Recipe& own)> own_us;
  std::vector<Recipe> asked = {};

  OwnOperations operations() {
    return {12, [this](const Recipe& own, const Recipe& without) {
              EXPECT_NE(own, without);
              asked.push_back(own);
              ProductTiming timing{.type = "Float", .m = 100, .n = 100, .k = 100, .plain_microseconds = 1000};
              timing.tried = 2;
              timing.own_microseconds = own_us(own);
              std::vector<ProductTiming> timings(2, timing);
              timings[0].product = "c_fc";
              timings[1].product = "head";
              return timings;
            }};
  }
};

Recipe packed(Recipe recipe = {}) {
  recipe.products = Products::packed;
  return recipe;
}

TEST(OwnOperations, ProductsThatAreNotFasterAreLeftToTheLibrary) {
  Timer timer{.own_us = [](const Recipe&) { return 10000; }};
  OwnOperations own = timer.operations();
  Recipe edited = packed();
  // 13 products of 3 x 2 x 100^3 FLOP in 13 ms
  EXPECT_EQ(own.choose({}, edited), "not faster here: the library makes 6.00 GFLOP/s, ours 0.60 GFLOP/s");
  EXPECT_EQ(edited, Recipe());
  ASSERT_EQ(own.timings().size(), 2U);
  EXPECT_EQ(own.timings()[0].algorithm, -1);
  EXPECT_EQ(own.timings()[0].microseconds, 1000);
  EXPECT_EQ(own.timings()[0].own_microseconds, 10000);
}

TEST(OwnOperations, ATieStaysWithTheLibraryAndIsDecidedOnce) {
  for (const auto& [own_us, is_taken] : {std::pair(1000 / 1.02, false), {1000 / 1.04, true}, {1010.0, false}}) {
    double time = own_us;
    Timer timer{.own_us = [&](const Recipe&) { return time; }};
    OwnOperations own = timer.operations();
    for (const double later : {own_us, 1.0, 1e6}) {  // whatever another timing would have been
      Recipe edited = packed();
      EXPECT_EQ(own.choose({}, edited).empty(), is_taken);
      EXPECT_EQ(edited.products == Products::packed, is_taken);
      time = later;
    }
    EXPECT_EQ(timer.asked.size(), 1U);
    EXPECT_EQ(own.timings()[0].algorithm, is_taken ? 0 : -1);
  }
}

TEST(OwnOperations, AnotherNumberTypeIsAskedForAnew) {
  Timer timer{.own_us = [](const Recipe& own) { return own.autocast == Autocast::off ? 500 : 5000; }};
  OwnOperations own = timer.operations();
  const Recipe before = packed();
  Recipe edited = before;
  edited.autocast = Autocast::bf16;
  EXPECT_NE(own.choose(before, edited), "");
  EXPECT_EQ(edited.products, Products::aten);
  EXPECT_EQ(edited.autocast, Autocast::bf16);
  Recipe same = before;
  same.optimizer = model::Optimizer::fused;
  EXPECT_EQ(own.choose(before, same), "");
  EXPECT_EQ(timer.asked.size(), 1U);
}

TEST(OwnOperations, AreNotAskedForOnAGpu) {
  Timer timer{.own_us = [](const Recipe&) { return 5000; }};
  OwnOperations own = timer.operations();
  Recipe edited{.device = model::Device::cuda, .mlp = model::Mlp::fused};
  EXPECT_EQ(own.choose({.device = model::Device::cuda}, edited), "");
  EXPECT_EQ(edited.mlp, model::Mlp::fused);
  EXPECT_TRUE(timer.asked.empty());
}

// As on a processor whose library is faster.
TEST(OwnOperations, ALadderGoesOnWithoutWhatIsSlower) {
  Timer timer{.own_us = [](const Recipe& own) { return own.products == Products::packed ? 10000 : 1000; }};
  OwnOperations own = timer.operations();
  harness::Machine machine;
  const Choose choose = [&](const Recipe& before, Recipe& edited) { return own.choose(before, edited); };
  const std::vector<Rung> rungs = climb(load_ladder("gpt2-cpu-fused"), machine, choose);
  for (const Rung& rung : rungs) {
    const bool is_left_out = rung.optimization == "packed_products" || rung.optimization == "packed_attention";
    EXPECT_EQ(rung.reason.starts_with("not faster here: "), is_left_out) << name_of(rung) << ": " << rung.reason;
    EXPECT_EQ(recipe_of(rung).products, Products::aten) << name_of(rung);
  }
  EXPECT_EQ(rungs.back().optimization, "master_weights");  // fused operations at the same speed do not keep it away
  EXPECT_EQ(rungs.back().status, Rung::Status::planned);
  EXPECT_EQ(recipe_of(rungs.back()).weights, model::Weights::master);
}

TEST(OwnOperations, AFactorialTakesThemWithoutAsking) {
  const harness::Machine machine;
  const Choose refuse = [](const Recipe& before, Recipe& edited) { return edited = before, "not faster here"; };
  const Design design = design_of({.mode = "factorial", .factors = "packed_products"}, machine);
  const std::vector<Rung> rungs = rungs_of(load_ladder("gpt2-cpu-fused"), design, {}, machine, refuse);
  ASSERT_EQ(rungs.size(), 2U);
  EXPECT_EQ(recipe_of(rungs[1]).products, Products::packed);
}

TEST(OwnOperations, AreTimedBesidePyTorchsAtTheShapesOfAStep) {
  const model::Config config = model::preset("tiny");
  const auto names_of_calls = [&](const Recipe& own, const Recipe& without) {
    std::string names;
    for (const ProductTiming& timing : time_both(config, own, without, 2, 8)) {
      EXPECT_GT(timing.plain_microseconds, 0);
      EXPECT_GT(timing.own_microseconds.value(), 0);
      EXPECT_EQ(timing.n, 16);
      names += (names.empty() ? "" : " ") + timing.product;
    }
    return names;
  };
  EXPECT_EQ(names_of_calls(packed(), {}), "qkv linear_attn_proj linear_c_fc linear_mlp_proj head");
  EXPECT_EQ(names_of_calls({.attention = model::Attention::packed}, {.attention = model::Attention::flash}),
            "self_attention");
  EXPECT_EQ(names_of_calls(packed({.mlp = model::Mlp::fused}), packed()), "mlp");
  EXPECT_EQ(names_of_calls({.cross_entropy = model::CrossEntropy::fused}, {}), "head_loss");
}

}  // namespace own_operations_test
