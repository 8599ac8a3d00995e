// What of a record decides whether a run can be made again, and what counts as the same losses.
#include "ablations/gpt2/reproduce.h"

#include "tests/refusal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace reproduce_test {

using namespace ablations;
using files::Json;

Record record() {
  Record record;
  record.id = "r1-00-start";
  record.recipe = {{"device", "cpu"}, {"attention", "flash"}};  // from before later fields
  record.optimizations = {"flash"};
  record.workload = {
      .model = "tiny", .B = 3, .T = 16, .accumulation = 2, .positions = 80, .seed = 7, .random_windows = true};
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
  const RunOptions o = options_of(record(), "record.json");
  EXPECT_EQ(std::tie(o.id, o.model, o.applied), std::tuple("r1-00-start", "tiny", std::vector<std::string>{"flash"}));
  EXPECT_EQ(std::tie(o.B, o.T, o.accumulation, o.positions, o.warmup_steps, o.timed_steps, o.seed, o.threads,
                     o.random_windows),
            std::tuple(3, 16, 2, 80, 1, 2, 7U, 2, true));
  EXPECT_EQ(o.recipe, (model::Recipe{.attention = model::Attention::flash}));
}

TEST(Reproduce, ARecordWithoutARunIsRefused) {
  using Edit = void (*)(Record&);
  for (const auto& [edit, words] : std::vector<std::pair<Edit, const char*>>{
           {[](Record&) {}, "accepted"},
           {[](Record& one) { one.status = RunStatus::failed; }, "record.json: a run that failed"},
           {[](Record& one) { one.observations["peer"] = Json::object(); }, "is a run of PyTorch"},
           {[](Record& one) { one.workload.model = "gpt9"; }, "gpt9"},
           {[](Record& one) { one.timing.warmup_steps = 3; }, "3 steps of warm-up, 3 times"},
           {[](Record& one) { one.timing.loss = {1.0}; }, "1 losses"},
           {[](Record& one) { one.recipe["attention"] = "none"; }, "got \"none\""}}) {
    Record changed = record();
    edit(changed);
    EXPECT_TRUE(has(refusal_of([&] { return options_of(changed, "record.json"); }), words));
  }
}

TEST(Reproduce, ProgramsDifferByWhatDecidesBits) {
  using Edit = void (*)(Environment&);
  const Edit nothing = [](Environment&) {}, changed = [](Environment&it) { it.git_dirty = true; };
  const Edit changed_ab = [](Environment& it) { it.git_dirty = true, it.program_sha256 = "ab"; };
  const Edit changed_cd = [](Environment& it) { it.git_dirty = true, it.program_sha256 = "cd"; };
  const Edit outside = [](Environment& it) { it.git_commit = "unknown", it.program_sha256 = "ab"; };
  const Edit cuda12 = [](Environment&it) { it.cuda = "12.8"; }, cuda13 = [](Environment&it) { it.cuda = "13.0"; };
  struct Case {
    Edit one, other;
    std::string differences;
    size_t unknown = 0;
    bool cuda = false;
  };
  for (const Case& each :
       std::vector<Case>{{nothing, nothing, ""},
                         {nothing, [](Environment& it) { it.torch = "2.12.0", it.git_commit = "def"; },
                          "git_commit: \"abc\" against \"def\"; torch: \"2.11.0\" against \"2.12.0\""},
                         {nothing, [](Environment& it) { it.compiler = "13"; }, "compiler: \"12\" against \"13\""},
                         {nothing, [](Environment& it) { it.threads = 3, it.cpu.model = "B"; }, ""},
                         {nothing, changed, "", 1},
                         {changed_ab, changed_ab, ""},
                         {changed_ab, changed_cd, "program_sha256: \"ab\" against \"cd\"", 2},
                         {nothing, [](Environment& it) { it.git_commit = "unknown"; }, "", 1},
                         {outside, outside, ""},
                         {cuda12, cuda13, ""},
                         {cuda12, cuda13, "cuda: \"12.8\" against \"13.0\"", 0, true}}) {
    Environment one = record().environment, other = one;
    each.one(one);
    each.other(other);
    const ProgramComparison found = compare_programs(one, other, each.cuda);
    EXPECT_EQ(fmt::format("{}", fmt::join(found.differences, "; ")), each.differences);
    EXPECT_EQ(found.unknown.size(), each.unknown) << each.differences;
  }
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

TEST(Reproduce, OneThreadRepeatsToTheBitAndOtherPositionsAreAnExcuse) {
  Record one = record(), again = record();
  one.environment.threads = again.environment.threads = 1;
  again.timing.loss[1] = std::nextafter(9.25F, 10.0F);
  EXPECT_EQ(*compare_losses(one, again).largest_ulps, 1);
  EXPECT_TRUE(compare_losses(one, again).excuses.empty());
  again.timing.loss = {10.5, 9.0, 8.0};
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
