// The roofline of planted costs, limits and times, worked out by hand.
#include "study/trace/roofline.h"

#include <gtest/gtest.h>

namespace roofline_test {

using namespace study;

// At 1e12 FLOP/s and 1e11 bytes/s: 1e9 FLOPs take 1 ms, 1e8 bytes take 1 ms.
const Limits limits{1e12, 1e11, "made up"};
const std::vector<Cost> costs{
    {"forward", "linear", "c_attn", 12, 4e9, 1e8},   // 4 ms by compute
    {"forward", "linear", "c_fc", 12, 1e9, 3e8},     // 3 ms by memory
    {"forward", "gelu", "gelu", 12, 0, 2e8},         // 2 ms by memory
    {"backward", "linear", "c_attn", 12, 8e9, 1e8},  // 8 ms by compute
    {"update", "adamw", "", 1, 0, 5e8},              // 5 ms by memory
};

// `part` is none in the row of a phase.
const RooflineRow& find(const std::vector<RooflineRow>& rows, const std::string& phase,
                        const std::optional<std::string>& part = {}) {
  for (const RooflineRow& row : rows) {
    if (row.phase == phase && row.part == part) return row;
  }
  throw std::runtime_error(phase + " " + part.value_or("") + " is not there");
}

TEST(Roofline, TimeAtTheLimitIsTheLargerOfBothForEachPart) {
  const Roofline r = roofline(costs, limits, {});
  EXPECT_DOUBLE_EQ(find(r.parts, "forward", "c_attn").limit_ms, 4);
  EXPECT_EQ(find(r.parts, "forward", "c_attn").bound_by, Bound::compute);
  EXPECT_DOUBLE_EQ(find(r.parts, "forward", "c_fc").limit_ms, 3);
  EXPECT_EQ(find(r.parts, "forward", "c_fc").bound_by, Bound::memory);
  EXPECT_FALSE(find(r.parts, "forward", "gelu").measured_ms || find(r.parts, "forward", "gelu").distance);
  const RooflineRow& forward = find(r.phases, "forward");
  EXPECT_DOUBLE_EQ(forward.limit_ms, 4 + 3 + 2);  // not max(5, 6): the parts are kernels of their own
  EXPECT_EQ(forward.bound_by, Bound::memory);     // 5 of 9 ms
  EXPECT_DOUBLE_EQ(forward.flops, 5e9);
  EXPECT_DOUBLE_EQ(forward.bytes, 6e8);
}

TEST(Roofline, DistanceIsMeasuredOverTheLimit) {
  const Roofline r = roofline(costs, limits,
                              {{{"forward", "c_attn"}, 8.0},
                               {{"forward", "c_fc"}, 6.0},
                               {{"forward", "gelu"}, 1.0},
                               {{"forward", ""}, 0.5},
                               {{"backward", "c_attn"}, 10.0},
                               {{"data", "copy"}, 0.25}});
  EXPECT_DOUBLE_EQ(*find(r.parts, "forward", "c_attn").distance, 2);
  EXPECT_DOUBLE_EQ(*find(r.parts, "forward", "c_attn").ms_above, 4);
  EXPECT_DOUBLE_EQ(*find(r.parts, "forward", "gelu").distance, 0.5);  // from the cache
  EXPECT_DOUBLE_EQ(*find(r.phases, "forward").measured_ms, 15.5);
  EXPECT_DOUBLE_EQ(*find(r.phases, "forward").distance, 15.5 / 9);
  // What has no costs has no limit, and all of its time counts as above it.
  EXPECT_FALSE(find(r.parts, "forward", "other").distance);
  EXPECT_DOUBLE_EQ(*find(r.parts, "data", "copy").ms_above, 0.25);
  EXPECT_EQ(find(r.parts, "data", "copy").bound_by, Bound::none);
  EXPECT_FALSE(find(r.phases, "update").measured_ms);
  // Most above the limit first; not measured last.
  std::vector<std::string> order;
  for (const RooflineRow& row : r.parts) order.push_back(row.phase + " " + row.part.value());
  EXPECT_EQ(order, (std::vector<std::string>{"forward c_attn", "forward c_fc", "backward c_attn", "forward other",
                                             "data copy", "forward gelu", "update adamw"}));
  EXPECT_EQ(r.phases.front().phase, "forward");
  EXPECT_EQ(r.phases.back().phase, "update");
}

// A trace has no parts in the update: all of it is the optimizer's.
TEST(Roofline, TakesTheTimesOfATrace) {
  const TraceSummary summary{
      .by_part = {{{.ms = 3.0, .count = 12}, "forward", "gelu"}, {{.ms = 10.0, .count = 2}, "update", ""}}};
  const Roofline r = roofline(costs, limits, measured_by_part(summary));
  EXPECT_DOUBLE_EQ(*find(r.parts, "forward", "gelu").distance, 1.5);
  EXPECT_DOUBLE_EQ(*find(r.parts, "update", "adamw").distance, 2);
  EXPECT_EQ(r.parts.size(), costs.size());
}

TEST(Roofline, HasWhatItsAxesShow) {
  const Roofline r = roofline(costs, limits, {{{"forward", "c_attn"}, 8.0}, {{"forward", "gelu"}, 1.0}});
  EXPECT_DOUBLE_EQ(r.limits.flops_per_byte, 10);
  EXPECT_DOUBLE_EQ(find(r.parts, "forward", "c_attn").flops_per_byte.value(), 40);
  EXPECT_DOUBLE_EQ(find(r.parts, "forward", "c_attn").flops_per_s.value(), 5e11);  // 4e9 in 8 ms
  const RooflineRow &gelu = find(r.parts, "forward", "gelu"), &no_time = find(r.parts, "forward", "c_fc");
  EXPECT_FALSE(gelu.flops_per_byte || gelu.flops_per_s);  // without FLOPs it has no place on them
  EXPECT_TRUE(no_time.flops_per_byte && !no_time.flops_per_s);
}

TEST(Roofline, TableFitsEightyColumns) {
  const std::string text = roofline_table(roofline(costs, {1e12, 1e11, std::string(200, 'x')},
                                                   {{{"forward", "c_attn"}, 8.0},
                                                    {{"forward", "gelu"}, 1.0},
                                                    {{"update", "adamw"}, 98765432.0},
                                                    {{"a long phase", "a part with a long name"}, 1.0}}));
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    EXPECT_LE(end - begin, 80U) << text.substr(begin, end - begin);
    begin = end + 1;
  }
  EXPECT_NE(text.find("Limits: 1.00 TFLOP/s, 100 GB/s\n"), std::string::npos) << text;
  EXPECT_NE(text.find("forward   c_attn                8.00       4.00   compute      2.00x        4.00\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("forward   gelu                  1.00       2.00    memory      0.50x       -1.00\n"),
            std::string::npos)
      << text;
}

TEST(Roofline, RefusesLimitsThatAreNone) {
  EXPECT_THROW((void)roofline(costs, {0, 1e11, ""}, {}), std::invalid_argument);
  EXPECT_THROW((void)roofline(costs, {1e12, -1, ""}, {}), std::invalid_argument);
}

// Measured beside other work, as an H200's was: 291 TFLOP/s, while its own parts made up to 650.
TEST(Roofline, APartThatIsFasterRefutesTheLimit) {
  const auto refuted = [](const MeasuredMs& measured) { return refutation_of(roofline(costs, limits, measured)); };
  EXPECT_EQ(refuted({{{"forward", "c_attn"}, 3.9}, {{"update", ""}, 4.9}}), "") << "5 % are noise";
  EXPECT_EQ(refuted({{{"forward", "c_attn"}, 2.0}}), "forward c_attn ran at 2.00x the measured limit of compute");
  EXPECT_EQ(refuted({{{"update", ""}, 2.5}}), "update ran at 2.00x the measured limit of memory");
  EXPECT_EQ(refuted({{{"forward", "gelu"}, 0.1}, {{"forward", "c_fc"}, 12.0}}), "")
      << "a part bound by memory may read caches, or stand in the part that it is fused into";
  Roofline published = roofline(costs, limits, {});
  published.limits.refuted = "why";
  EXPECT_EQ(refutation_of(published), "why");
}

// MFU: which peak counts, and when there is none. An H200's float32 rung and its last: by the peak of each one's own
// type the faster one would use less.
TEST(Mfu, MeasuresAllRungsByOnePeak) {
  const auto percent = [](double ms) { return 100 * mfu("NVIDIA H200", 13.14e12, ms).value.value(); };
  EXPECT_NEAR(percent(367), 3.6, 0.05);
  EXPECT_NEAR(percent(155), 8.6, 0.05);
  EXPECT_NEAR(percent(29.1), 45.6, 0.05);
  const Mfu bf16 = mfu("NVIDIA A100-SXM4-80GB", 200e9, 1.0);
  EXPECT_EQ(bf16.type, harness::NumberType::bf16);
  EXPECT_EQ(bf16.peak_source, "NVIDIA A100 datasheet, June 2021");
  EXPECT_EQ(bf16.formula, "6 N + 6 L C T FLOPs per token, N without padding rows, over the dense bf16 peak");
  EXPECT_EQ(bf16.reason, "");
  const Mfu without_bf16 = mfu("Tesla T4", 6.5e9, 1.0);
  EXPECT_NEAR(without_bf16.value.value(), 0.1, 1e-12);
  EXPECT_EQ(without_bf16.type, harness::NumberType::fp16);
}

TEST(Mfu, IsNoneWithItsReasonWhereThePeakIsNotKnown) {
  const Mfu cpu = mfu("", 1e12, 100);
  EXPECT_FALSE(cpu.value || cpu.peak_flops || cpu.peak_source);
  EXPECT_EQ(cpu.reason, "there is no table of peaks for CPUs");
  const Mfu unknown = mfu("NVIDIA H300", 1e12, 100);
  EXPECT_FALSE(unknown.value);
  EXPECT_EQ(unknown.reason, "\"NVIDIA H300\" is not in the table of peaks");
}

}  // namespace roofline_test
