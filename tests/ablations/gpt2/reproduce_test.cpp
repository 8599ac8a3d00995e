// What of a record decides whether a run can be made again, and what counts as the same losses.
#include "ablations/gpt2/reproduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace reproduce_test {

using namespace ablations;
using files::Json;

Record record() {
  Record record;
  record.id = "r1-00-start";
  record.recipe = {{"device", "cpu"}, {"attention", "flash"}};  // from before later fields
  record.optimizations = {"flash"};
  record.workload = {.model = "tiny", .B = 3, .T = 16, .accumulation = 2, .positions = 80, .seed = 7};
  record.timing.warmup_steps = 1;
  record.timing.step_ms = {3.0, 2.0, 1.0};
  record.timing.loss = {10.5, 9.25, 8.125};
  record.environment = {.cpu = {.model = "A", .features = std::vector<std::string>{"avx2"}},
                        .torch = "2.11.0",
                        .torch_cpu_capability = "AVX2",
                        .compiler = "12",
                        .git_commit = "abc",
                        .git_dirty = false,
                        .threads = 2};
  return record;
}

TEST(Reproduce, ARecordHoldsTheRun) {
  const RunOptions options = options_of(record(), "record.json");
  EXPECT_EQ(options.id, "r1-00-start");
  EXPECT_EQ(options.model, "tiny");
  EXPECT_EQ(options.B, 3);
  EXPECT_EQ(options.T, 16);
  EXPECT_EQ(options.accumulation, 2);
  EXPECT_EQ(options.positions, 80);
  EXPECT_EQ(options.warmup_steps, 1);
  EXPECT_EQ(options.timed_steps, 2);
  EXPECT_EQ(options.seed, 7U);
  EXPECT_EQ(options.threads, 2);
  EXPECT_EQ(options.recipe, (model::Recipe{.attention = model::Attention::flash}));
  EXPECT_EQ(options.applied, std::vector<std::string>{"flash"});
}

TEST(Reproduce, ARecordWithoutARunIsRefused) {
  const auto refused = [](const std::function<void(Record&)>& edit) {
    Record changed = record();
    edit(changed);
    try {
      (void)options_of(changed, "record.json");
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused([](Record&) {}), "accepted");
  EXPECT_NE(refused([](Record& one) { one.status = RunStatus::failed; }).find("record.json: a run that failed"),
            std::string::npos);
  EXPECT_NE(refused([](Record& one) { one.observations["peer"] = Json::object(); }).find("is a run of PyTorch"),
            std::string::npos);
  EXPECT_NE(refused([](Record& one) { one.workload.model = "gpt9"; }).find("gpt9"), std::string::npos);
  EXPECT_NE(refused([](Record& one) { one.timing.warmup_steps = 3; }).find("3 steps of warm-up, 3 times"),
            std::string::npos);
  EXPECT_NE(refused([](Record& one) { one.timing.loss = {1.0}; }).find("1 losses"), std::string::npos);
  EXPECT_NE(refused([](Record& one) { one.recipe["attention"] = "none"; }).find("got \"none\""), std::string::npos);
}

TEST(Reproduce, ProgramsDifferByWhatDecidesBits) {
  const Environment environment = record().environment;
  using Edit = std::function<void(Environment&)>;
  const auto edited = [&](const Edit& edit) {
    Environment other = environment;
    edit(other);
    return other;
  };
  const auto compared = [&](const Edit& edit) { return compare_programs(environment, edited(edit), /*cuda=*/false); };
  const ProgramComparison itself = compare_programs(environment, environment, /*cuda=*/false);
  EXPECT_TRUE(itself.differences.empty() && itself.unknown.empty());
  EXPECT_EQ(compared([](Environment& other) {
              other.torch = "2.12.0";
              other.git_commit = "def";
            }).differences,
            (std::vector<std::string>{"git_commit: \"abc\" against \"def\"", "torch: \"2.11.0\" against \"2.12.0\""}));
  EXPECT_EQ(compared([](Environment& other) { other.compiler = "13"; }).differences.size(), 1U);
  EXPECT_TRUE(compared([](Environment& other) {
                other.threads = 3;
                other.cpu.model = "B";
              }).differences.empty());
  const ProgramComparison changed = compared([](Environment& other) { other.git_dirty = true; });
  EXPECT_TRUE(changed.differences.empty());
  EXPECT_EQ(changed.unknown.size(), 1U);
  const auto with_changes = [&](const std::string& sha256) {
    return edited([&](Environment& other) {
      other.git_dirty = true;
      other.program_sha256 = std::optional(sha256);
    });
  };
  const auto same = compare_programs(with_changes("ab"), with_changes("ab"), /*cuda=*/false);
  EXPECT_TRUE(same.differences.empty() && same.unknown.empty());
  const auto rebuilt = compare_programs(with_changes("ab"), with_changes("cd"), /*cuda=*/false);
  EXPECT_EQ(rebuilt.differences, std::vector<std::string>{"program_sha256: \"ab\" against \"cd\""});
  EXPECT_EQ(compared([](Environment& other) { other.git_commit = "unknown"; }).unknown.size(), 1U);
  Environment outside;
  outside.git_commit = "unknown";
  outside.git_dirty = false;
  outside.program_sha256 = std::optional<std::string>("ab");
  EXPECT_TRUE(compare_programs(outside, outside, /*cuda=*/false).unknown.empty());
  Environment older = environment, newer = environment;
  older.cuda = std::optional<std::string>("12.8");
  newer.cuda = std::optional<std::string>("13.0");
  EXPECT_TRUE(compare_programs(older, newer, /*cuda=*/false).differences.empty());
  EXPECT_EQ(compare_programs(older, newer, /*cuda=*/true).differences.size(), 1U);
}

TEST(Reproduce, LossesAreTheSameToTheBitOrNot) {
  using Losses = std::vector<std::optional<double>>;
  using Edit = std::function<void(Environment&)>;
  const auto compared = [](
                            const Losses& losses, const Edit& edit = [](Environment&) {}) {
    Record again = record();
    again.timing.loss = losses;
    edit(again.environment);
    return compare_losses(record(), again);
  };
  EXPECT_TRUE(compared({10.5, 9.25, 8.125}).identical);
  EXPECT_EQ(compared({10.5, 9.25, 8.125}).largest_deviation, 0.0);
  const double one_ulp = std::nextafter(9.25F, 10.0F);
  const Reproduction nearly = compared({10.5, one_ulp, 8.125});
  EXPECT_FALSE(nearly.identical);
  EXPECT_EQ(*nearly.largest_deviation, one_ulp - 9.25);
  EXPECT_EQ(*nearly.largest_ulps, 1);
  EXPECT_EQ(nearly.excuses, std::vector<std::string>{"several threads may add in a different order each time"});
  EXPECT_NE(describe(nearly, "a.json").find("(1 units in the last place)"), std::string::npos);
  EXPECT_TRUE(compared({10.5, 9.25, 8.135}).excuses.empty());  // no order of sums explains that
  EXPECT_EQ(*compared({10.5, 9.0, 8.0}).largest_deviation, 0.25);
  EXPECT_FALSE(compared({10.5, std::nullopt, 8.125}).identical);
  EXPECT_FALSE(compared({10.5, std::nullopt, 8.125}).largest_deviation);
  EXPECT_FALSE(compared({10.5, 9.25}).identical);
  const Edit elsewhere[] = {[](Environment& there) { there.cpu.model = "B"; },
                            [](Environment& there) {
                              there.cpu.features = {"avx2", "avx512f"};
                            },
                            [](Environment& there) { there.threads = 1; },
                            [](Environment& there) { there.torch_cpu_capability = "AVX512"; }};
  for (const Edit& edit : elsewhere) EXPECT_EQ(compared({10.5, 9.0, 8.0}, edit).excuses.size(), 1U);
}

TEST(Reproduce, OneThreadRepeatsToTheBit) {
  Record one = record();
  one.environment.threads = 1;
  Record again = one;
  again.timing.loss[1] = std::nextafter(9.25F, 10.0F);
  const Reproduction nearly = compare_losses(one, again);
  EXPECT_EQ(*nearly.largest_ulps, 1);
  EXPECT_TRUE(nearly.excuses.empty());
}

TEST(Reproduce, OtherPositionsAreAnExcuse) {
  Record one = record(), again = record();
  again.timing.loss = {10.5, 9.0, 8.0};
  one.workload.positions = 128;
  again.workload.positions = 64;
  EXPECT_EQ(compare_losses(one, again).excuses.size(), 1U);
}

TEST(Reproduce, AGpuRepeatsOnlyDeterministicRecipes) {
  Record gpu = record();
  gpu.recipe["device"] = "cuda";
  gpu.environment.gpu = Environment::Gpu{.name = "H200"};
  EXPECT_EQ(compare_losses(gpu, gpu).excuses.size(), 1U);
  gpu.recipe["deterministic"] = true;
  EXPECT_TRUE(compare_losses(gpu, gpu).excuses.empty());
  Record other = gpu;
  other.environment.gpu->name = "A100";
  EXPECT_EQ(compare_losses(gpu, other).excuses.size(), 1U);
}

}  // namespace reproduce_test
