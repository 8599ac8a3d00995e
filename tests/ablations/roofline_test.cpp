// The roofline of planted costs, limits and times, worked out by hand.
#include "ablations/roofline.h"

#include <gtest/gtest.h>

namespace {

using namespace ablations;
using harness::Json;

// At 1e12 FLOP/s and 1e11 bytes/s: 1e9 FLOPs take 1 ms, 1e8 bytes take 1 ms.
const Limits limits{1e12, 1e11, "made up"};
const std::vector<model::Cost> costs{
    {"forward", "linear", "c_attn", 12, 4e9, 1e8},   // 4 ms by compute
    {"forward", "linear", "c_fc", 12, 1e9, 3e8},     // 3 ms by memory
    {"forward", "gelu", "", 12, 0, 2e8},             // 2 ms by memory
    {"backward", "linear", "c_attn", 12, 8e9, 1e8},  // 8 ms by compute
    {"update", "adamw", "", 1, 0, 5e8},              // 5 ms by memory
};

const RooflineRow& find(const std::vector<RooflineRow>& rows, const std::string& phase, const std::string& op) {
  for (const RooflineRow& row : rows) {
    if (row.phase == phase && row.op == op) return row;
  }
  throw std::runtime_error(phase + " " + op + " is not there");
}

TEST(Roofline, TimeAtTheLimitIsTheLargerOfBothForEachPart) {
  const Roofline r = roofline(costs, limits, {});
  const RooflineRow& linear = find(r.ops, "forward", "linear");
  EXPECT_DOUBLE_EQ(linear.limit_ms(), 4 + 3);  // not max(5, 4): the parts are kernels of their own
  EXPECT_DOUBLE_EQ(linear.flops, 5e9);
  EXPECT_DOUBLE_EQ(linear.bytes, 4e8);
  EXPECT_EQ(linear.bound_by(), "compute");
  EXPECT_EQ(find(r.ops, "forward", "gelu").bound_by(), "memory");
  const RooflineRow& forward = find(r.phases, "forward", "");
  EXPECT_DOUBLE_EQ(forward.limit_ms(), 4 + 3 + 2);
  EXPECT_EQ(forward.bound_by(), "memory");  // 5 of 9 ms
  EXPECT_FALSE(linear.measured_ms || linear.distance());
}

TEST(Roofline, DistanceIsMeasuredOverTheLimit) {
  const Roofline r = roofline(costs, limits,
                              {{{"forward", "linear"}, 14.0},
                               {{"forward", "gelu"}, 1.0},
                               {{"forward", ""}, 0.5},
                               {{"backward", "linear"}, 10.0},
                               {{"data", "copy"}, 0.25}});
  EXPECT_DOUBLE_EQ(*find(r.ops, "forward", "linear").distance(), 2);
  EXPECT_DOUBLE_EQ(find(r.ops, "forward", "linear").ms_above(), 7);
  EXPECT_DOUBLE_EQ(*find(r.ops, "forward", "gelu").distance(), 0.5);  // from the cache
  EXPECT_DOUBLE_EQ(*find(r.phases, "forward", "").measured_ms, 15.5);
  EXPECT_DOUBLE_EQ(*find(r.phases, "forward", "").distance(), 15.5 / 9);
  // What has no costs has no limit, and all of its time counts as above it.
  EXPECT_FALSE(find(r.ops, "forward", "other").distance());
  EXPECT_DOUBLE_EQ(find(r.ops, "data", "copy").ms_above(), 0.25);
  EXPECT_EQ(find(r.ops, "data", "copy").bound_by(), "none");
  EXPECT_FALSE(find(r.phases, "update", "").measured_ms);
  // Most above the limit first; not measured last.
  std::vector<std::string> order;
  for (const RooflineRow& row : r.ops) order.push_back(row.phase + " " + row.op);
  EXPECT_EQ(order, (std::vector<std::string>{"forward linear", "backward linear", "forward other", "data copy",
                                             "forward gelu", "update adamw"}));
  EXPECT_EQ(r.phases.front().phase, "forward");
  EXPECT_EQ(r.phases.back().phase, "update");
}

TEST(Roofline, ConvertsToJson) {
  const Json json = to_json(roofline(costs, limits, {{{"update", "adamw"}, 6.0}}));
  EXPECT_EQ(json["limits"]["source"], "made up");
  EXPECT_EQ(json["ops"][0]["op"], "adamw");
  EXPECT_DOUBLE_EQ(json["ops"][0]["distance"].get<double>(), 1.2);
  EXPECT_DOUBLE_EQ(json["ops"][0]["ms_above"].get<double>(), 1);
  EXPECT_EQ(json["ops"][0]["bound_by"], "memory");
  EXPECT_TRUE(json["ops"][1]["measured_ms"].is_null() && json["ops"][1]["distance"].is_null());
  EXPECT_FALSE(json["phases"][0].contains("op"));
}

TEST(Roofline, TableFitsEightyColumns) {
  const std::string text = roofline_table(roofline(costs, {1e12, 1e11, std::string(200, 'x')},
                                                   {{{"forward", "linear"}, 14.0},
                                                    {{"forward", "gelu"}, 1.0},
                                                    {{"update", "adamw"}, 98765432.0},
                                                    {{"a long phase", "an operation with a long name"}, 1.0}}));
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    EXPECT_LE(end - begin, 80U) << text.substr(begin, end - begin);
    begin = end + 1;
  }
  EXPECT_NE(text.find("Limits: 1.00 TFLOP/s, 100 GB/s\n"), std::string::npos) << text;
  EXPECT_NE(text.find("forward   linear                14.0       7.00   compute      2.00x        7.00\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("forward   gelu                  1.00       2.00    memory      0.50x       -1.00\n"),
            std::string::npos)
      << text;
}

TEST(Roofline, LimitsAreOfTheTypeThatTheRecipeMultipliesIn) {
  model::Recipe bf16{.device = model::Device::cuda, .autocast = model::Autocast::bf16};
  const auto table = limits_from_table(bf16, "NVIDIA A100-SXM4-80GB");
  EXPECT_DOUBLE_EQ(table->flops_per_s, 312e12);
  EXPECT_DOUBLE_EQ(table->bytes_per_s, 2039e9);
  EXPECT_EQ(table->source, "dense bf16: NVIDIA A100 datasheet, June 2021");
  EXPECT_FALSE(limits_from_table(bf16, "NVIDIA H300") || limits_from_table(bf16, "Tesla T4") ||
               limits_from_table({}, "NVIDIA A100-SXM4-80GB"));

  const Rates rates{
      .device = "",
      .source = "",
      .reason = "",
      .rates = {{"copy", "256 MiB", 2e10, {}}, {"fp32", "1024^3", 1e11, {}}, {"oneDNN", "1536^3", 3e11, {}}}};
  EXPECT_DOUBLE_EQ(limits_from_rates({}, rates)->flops_per_s, 1e11);
  const auto onednn = limits_from_rates({.matmul_precision = model::MatmulPrecision::medium}, rates);
  EXPECT_DOUBLE_EQ(onednn->flops_per_s, 3e11);
  EXPECT_DOUBLE_EQ(onednn->bytes_per_s, 2e10);
  EXPECT_EQ(onednn->source, "measured: oneDNN 1536^3, copy of 256 MiB");
  EXPECT_FALSE(limits_from_rates({.autocast = model::Autocast::bf16}, rates));
}

TEST(Roofline, RefusesLimitsThatAreNone) {
  EXPECT_THROW((void)roofline(costs, {0, 1e11, ""}, {}), std::invalid_argument);
  EXPECT_THROW((void)roofline(costs, {1e12, -1, ""}, {}), std::invalid_argument);
}

}  // namespace
