// Which stored study counts for a training, and which of its rungs.
#include "cli/gpt2/fastest_rung.h"

#include "files/json_file.h"
#include "tests/study/planted_study.h"

#include <gtest/gtest.h>

namespace fastest_rung_test {

using namespace planted;

// float32, bf16 autocast, fused AdamW, each twice as fast as the one before.
class FastestRung : public PlantedStudy {
 protected:
  FastestRung() { repeats_ = 4; }
  const files::TemporaryFolder stored_{"stored-studies"};

  void store(const std::string& name, const Json& study) const {
    fs::create_directories(stored_.path() / name);
    files::write_json(stored_.path() / name / "study.json", study);
  }
  [[nodiscard]] std::string shown(const std::function<bool(const model::Recipe&)>& fits = [](const auto&) {
    return true;
  }) const {
    const auto [found, passed_over] = fastest_shown(stored_.path(), "tiny", environment_here(), fits);
    const std::string but =
        passed_over.empty() ? "" : "; not " + passed_over.substr(stored_.path().string().size() + 1);
    return (found ? found->title + " of " + found->study.filename().string() : "none") + but;
  }
};

TEST_F(FastestRung, IsTheOneThatAStudyNamesFirst) {
  EXPECT_EQ(shown(), "none");
  store("a", study());
  EXPECT_EQ(shown(), "fused AdamW of a");
  const auto found = fastest_shown(stored_.path(), "tiny", environment_here(), [](const auto&) { return true; }).rung;
  EXPECT_EQ(model::to_json(found->recipe), plan_.rungs[2].recipe);
  EXPECT_EQ(found->ladder, "test");
  EXPECT_EQ(found->finished, begun);

  Json overtaken = study();
  overtaken["headline"]["fastest"] = 1;
  store("a", overtaken);
  EXPECT_EQ(shown(), "bf16 autocast of a");
  const auto is_fused = [](const model::Recipe& recipe) { return recipe.optimizer == model::Optimizer::fused; };
  EXPECT_EQ(shown(is_fused), "fused AdamW of a");
  EXPECT_EQ(shown([](const auto&) { return false; }), "none");

  Json slower = study();  // every optimization costs time here
  slower["headline"]["speedup"] = {{"ratio", 0.5}, {"lo", 0.4}, {"hi", 0.6}, {"pairs", 4}};
  store("a", slower);
  EXPECT_EQ(shown(), "float32 of a");
}

TEST_F(FastestRung, IsOfAStudyThatHasOne) {
  store("a", study());
  const auto newer = [&](const std::function<void(Json&)>& edit) {
    Json one = study();
    one["finished"] = "2026-02-01T00:00:00Z";
    edit(one);
    store("b", one);
    return shown();
  };
  EXPECT_EQ(newer([](Json& one) {
              one["headline"]["speedup"] = {{"ratio", 1.1}, {"lo", 0.9}, {"hi", 1.3}, {"pairs", 4}};
            }),
            "fused AdamW of a; not b: no rung is clearly the fastest");
  const auto disturb = [](Json& one, const std::string& flag) {
    for (Json& rung : one["rungs"]) rung["flags"] = Json::array();
    for (int i = 0; i < 5; ++i) one["rungs"][static_cast<size_t>(i % 3)]["flags"].push_back("r1 " + flag);
    one["plan"]["runs_ok"] = 9;
  };
  EXPECT_EQ(newer([&](Json& one) { disturb(one, "shared: 2 other processes on the GPU"); }),
            "fused AdamW of a; not b: other work ran during 5 of 9 runs");
  EXPECT_EQ(newer([&](Json& one) { disturb(one, "throttled: HwSlowdown"); }),
            "fused AdamW of a; not b: the GPU was throttled during 5 of 9 runs");
  Json newest = study();
  newest["finished"] = "2026-03-01T00:00:00Z";
  store("c", newest);
  EXPECT_EQ(shown(), "fused AdamW of c");
  fs::remove_all(stored_.path() / "a");
  fs::remove_all(stored_.path() / "c");
  EXPECT_EQ(shown(), "none; not b: the GPU was throttled during 5 of 9 runs");
}

TEST_F(FastestRung, IsOfTheNewestStudyThatCounts) {
  store("a", study());
  const auto newer = [&](const char* field, const Json& value) {
    Json one = study();
    one["finished"] = "2026-02-01T00:00:00Z";
    one[Json::json_pointer(field)] = value;
    store("b", one);
    return shown();
  };
  EXPECT_EQ(newer("/finished", "2026-03-01T00:00:00Z"), "fused AdamW of b");
  EXPECT_EQ(newer("/finished", "2025-03-01T00:00:00Z"), "fused AdamW of a");
  EXPECT_EQ(newer("/finished", nullptr), "fused AdamW of a");
  EXPECT_EQ(newer("/quick", true), "fused AdamW of a");
  EXPECT_EQ(newer("/mode", "factorial"), "fused AdamW of a");
  EXPECT_EQ(newer("/headline", nullptr), "fused AdamW of a");
  EXPECT_EQ(newer("/workload/model", "gpt2-124m"), "fused AdamW of a");
  EXPECT_EQ(newer("/environment/cpu/model", "Another CPU"), "fused AdamW of a");
  EXPECT_EQ(newer("/environment/torch", "1.0.0"), "fused AdamW of a");
  EXPECT_EQ(newer("/environment/git_commit", "of another program"), "fused AdamW of b");
  EXPECT_EQ(newer("/rungs/2/recipe/attention", "by magic"), "fused AdamW of a");
  files::write_file(stored_.path() / "b" / "study.json", "{");
  EXPECT_EQ(shown(), "fused AdamW of a");
}

}  // namespace fastest_rung_test
