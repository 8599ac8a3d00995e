// What of a record decides whether a run can be made again, and what counts as the same losses.
#include "ablations/run/reproduce.h"

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace ablations;
using files::Json;

Json record() {
  return {{"kind", "record"},
          {"id", "r1-00-start"},
          {"status", "ok"},
          {"recipe", {{"device", "cpu"}, {"attention", "flash"}}},  // from before later fields
          {"optimizations", {"flash"}},
          {"workload",
           {{"model", "tiny"}, {"batch", 3}, {"context", 16}, {"accumulation", 2}, {"positions", 80}, {"seed", 7}}},
          {"timing", {{"warmup_steps", 1}, {"step_ms", {3.0, 2.0, 1.0}}, {"loss", {10.5, 9.25, 8.125}}}},
          {"observations", Json::object()},
          {"environment",
           {{"cpu", {{"model", "A"}, {"features", {"avx2"}}}},
            {"torch_cpu_capability", "AVX2"},
            {"threads", 2},
            {"torch", "2.11.0"},
            {"compiler", "12"},
            {"git_commit", "abc"},
            {"git_dirty", false}}}};
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
  const auto refused = [](const Json& edit) {
    Json changed = record();
    changed.merge_patch(edit);
    try {
      (void)options_of(changed, "record.json");
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused(Json::object()), "accepted");
  EXPECT_NE(refused({{"status", "failed"}}).find("record.json: a run that failed"), std::string::npos);
  EXPECT_NE(refused({{"observations", {{"peer", Json::object()}}}}).find("PyTorch's"), std::string::npos);
  EXPECT_NE(refused({{"workload", {{"seed", nullptr}}}}).find("seed"), std::string::npos);
  EXPECT_NE(refused({{"workload", {{"model", "gpt9"}}}}).find("gpt9"), std::string::npos);
  EXPECT_NE(refused({{"timing", {{"warmup_steps", 3}}}}).find("3 steps of warm-up, 3 times"), std::string::npos);
  EXPECT_NE(refused({{"timing", {{"loss", {1.0}}}}}).find("1 losses"), std::string::npos);
  EXPECT_NE(refused({{"recipe", {{"attention", "none"}}}}).find("got \"none\""), std::string::npos);
}

TEST(Reproduce, ProgramsDifferByWhatDecidesBits) {
  const Json environment = record().at("environment");
  const auto compared = [&](const Json& edit, model::Device device = model::Device::cpu) {
    Json other = environment;
    other.merge_patch(edit);
    return compare_programs(environment, other, device);
  };
  EXPECT_TRUE(compared(Json::object()).differences.empty());
  EXPECT_TRUE(compared(Json::object()).unknown.empty());
  EXPECT_EQ(compared({{"torch", "2.12.0"}, {"git_commit", "def"}}).differences,
            (std::vector<std::string>{"git_commit: \"abc\" against \"def\"", "torch: \"2.11.0\" against \"2.12.0\""}));
  EXPECT_EQ(compared({{"compiler", "13"}}).differences.size(), 1U);
  EXPECT_TRUE(compared({{"threads", 3}, {"cpu", {{"model", "B"}}}}).differences.empty());
  EXPECT_TRUE(compared({{"git_dirty", true}}).differences.empty());
  EXPECT_EQ(compared({{"git_dirty", true}}).unknown.size(), 1U);
  const auto with_changes = [&](const char* sha256) {
    Json changed = environment;
    changed.update({{"git_dirty", true}, {"program_sha256", sha256}});
    return changed;
  };
  const auto same = compare_programs(with_changes("ab"), with_changes("ab"), model::Device::cpu);
  EXPECT_TRUE(same.differences.empty() && same.unknown.empty());
  const auto rebuilt = compare_programs(with_changes("ab"), with_changes("cd"), model::Device::cpu);
  EXPECT_EQ(rebuilt.differences, std::vector<std::string>{"program_sha256: \"ab\" against \"cd\""});
  EXPECT_EQ(compared({{"git_commit", "unknown"}}).unknown.size(), 1U);
  const Json outside{{"git_commit", "unknown"}, {"git_dirty", false}, {"program_sha256", "ab"}};
  EXPECT_TRUE(compare_programs(outside, outside, model::Device::cpu).unknown.empty());
  Json older = environment, newer = environment;
  older["cuda"] = "12.8";
  newer["cuda"] = "13.0";
  EXPECT_TRUE(compare_programs(older, newer, model::Device::cpu).differences.empty());
  EXPECT_EQ(compare_programs(older, newer, model::Device::cuda).differences.size(), 1U);
}

TEST(Reproduce, LossesAreTheSameToTheBitOrNot) {
  const auto compared = [](const Json& losses, const Json& edit = Json::object()) {
    Json again = record();
    again["timing"]["loss"] = losses;
    again["environment"].merge_patch(edit);
    return compare_losses(record(), again);
  };
  EXPECT_TRUE(compared({10.5, 9.25, 8.125}).identical);
  EXPECT_EQ(compared({10.5, 9.25, 8.125}).largest_deviation, 0.0);
  const Reproduction nearly = compared({10.5, std::nextafter(9.25, 10), 8.125});
  EXPECT_FALSE(nearly.identical);
  EXPECT_GT(*nearly.largest_deviation, 0);
  EXPECT_LT(*nearly.largest_deviation, 1e-14);
  EXPECT_TRUE(nearly.excuses.empty());
  EXPECT_EQ(*compared({10.5, 9.0, 8.0}).largest_deviation, 0.25);
  EXPECT_FALSE(compared({10.5, nullptr, 8.125}).identical);
  EXPECT_FALSE(compared({10.5, nullptr, 8.125}).largest_deviation);
  EXPECT_FALSE(compared({10.5, 9.25}).identical);
  for (const Json& elsewhere : {Json{{"cpu", {{"model", "B"}}}}, Json{{"cpu", {{"features", {"avx2", "avx512f"}}}}},
                                Json{{"threads", 1}}, Json{{"torch_cpu_capability", "AVX512"}}}) {
    EXPECT_EQ(compared({10.5, 9.0, 8.0}, elsewhere).excuses.size(), 1U) << elsewhere;
  }
}

TEST(Reproduce, PositionsThatARecordDoesNotStateExcuseNothing) {
  Json older = record(), again = record();
  again["timing"]["loss"] = {10.5, 9.0, 8.0};
  again["workload"]["positions"] = 64;
  older["workload"].erase("positions");
  EXPECT_TRUE(compare_losses(older, again).excuses.empty());
  older["workload"]["positions"] = 128;
  EXPECT_EQ(compare_losses(older, again).excuses.size(), 1U);
}

TEST(Reproduce, AGpuRepeatsOnlyDeterministicRecipes) {
  Json gpu = record();
  gpu["recipe"]["device"] = "cuda";
  gpu["environment"]["gpu"] = {{"name", "H200"}};
  EXPECT_EQ(compare_losses(gpu, gpu).excuses.size(), 1U);
  gpu["recipe"]["deterministic"] = true;
  EXPECT_TRUE(compare_losses(gpu, gpu).excuses.empty());
  Json other = gpu;
  other["environment"]["gpu"]["name"] = "A100";
  EXPECT_EQ(compare_losses(gpu, other).excuses.size(), 1U);
}

}  // namespace
