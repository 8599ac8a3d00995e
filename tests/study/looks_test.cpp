// What looks at two commands saw, side by side.
#include "study/looks.h"

#include "files/files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace looks_test {

using namespace study;
namespace fs = std::filesystem;
using files::Json;

class Looks : public testing::Test {
 protected:
  std::optional<std::vector<std::string>> differ(const std::string& before, const std::string& after) const {
    files::write_file(folder_ / "before.json", before);
    files::write_file(folder_ / "after.json", after);
    return seen_to_differ(folder_ / "before.json", folder_ / "after.json");
  }
  std::vector<std::string> changed_by(const Json& edits) const {
    Json after = eager_;
    after.merge_patch(edits);
    return differ(eager_.dump(), after.dump()).value();
  }

  const files::TemporaryFolder temporary_{"looks-test"};
  const fs::path folder_ = temporary_.path();
  const Json eager_ = Json::parse(R"({"look": 1, "pid": 7, "peak_bytes": 1000, "compiled_regions": 0,
    "kernels_per_step": 1143.0, "graph_launches_per_step": 0.0, "operations_per_step": 300.5,
    "product_flops_per_step": 1e9, "products": {"float32": 48.0}, "attention": {"flash": 12},
    "optimizers": [{"class": "AdamW", "fused": null}], "optimizer_ran": "foreach", "parameters": 1000,
    "parameter_types": {"float32": 50}, "devices": ["cuda:0"], "settings": {"allow_tf32": false, "threads": 8}})");
};

using Lines = std::vector<std::string>;

TEST_F(Looks, WhatRepeatsByChanceDoesNotDiffer) {
  EXPECT_EQ(changed_by({{"pid", 8}, {"peak_bytes", 2000}, {"operations_per_step", 301.0}}), Lines{});
}

TEST_F(Looks, SayTheMostTellingFirst) {
  EXPECT_EQ(changed_by({{"kernels_per_step", 402.0},
                        {"compiled_regions", 2},
                        {"products", {{"float32", 2}, {"bfloat16", 46}}},
                        {"optimizer_ran", "fused"},
                        {"settings", {{"allow_tf32", true}}}}),
            (Lines{"compiled regions 0 \u2192 2", "kernels in a step 1,143 \u2192 402",
                   "matrix products float32 \u2192 bfloat16 46, float32 2",
                   "optimizer AdamW foreach \u2192 AdamW fused", "allow_tf32 false \u2192 true"}));
}

TEST_F(Looks, SayWhatIsThereOnOneSideOnly) {
  EXPECT_EQ(changed_by({{"attention", nullptr}}), Lines{"attention flash \u2192 none"});
  EXPECT_EQ(changed_by({{"settings", {{"NVIDIA_TF32_OVERRIDE", "0"}}}}), Lines{"NVIDIA_TF32_OVERRIDE none \u2192 0"});
  EXPECT_EQ(changed_by({{"settings", {{"threads", nullptr}}}}), Lines{"threads 8 \u2192 none"});
}

TEST_F(Looks, TellNothingWhereOneFailedOrIsMissing) {
  EXPECT_FALSE(differ(eager_.dump(), R"({"look": 1, "error": "RuntimeError: no"})"));
  EXPECT_FALSE(differ("{", eager_.dump()));
  EXPECT_FALSE(differ("[]", eager_.dump()));
  EXPECT_FALSE(seen_to_differ(folder_ / "none.json", folder_ / "before.json"));
}

TEST_F(Looks, TellHowLongInputWasWaitedFor) {
  const auto told = [&](const Json& wait_ms, const Json& step_ms) {
    Json look = eager_;
    look.merge_patch({{"wait_ms_per_step", wait_ms}, {"step_ms", step_ms}});
    files::write_file(folder_ / "look.json", look.dump());
    return input_wait_in(folder_ / "look.json");
  };
  const auto wait = told(9, 31);
  ASSERT_TRUE(wait && wait->by_look);
  EXPECT_EQ(std::pair(wait->wait_ms, wait->step_ms), std::pair(9.0, 31.0));
  EXPECT_TRUE(told(0, 31));
  for (const Json& bad : {Json(), Json("9"), Json(-1), Json(1e300), Json::array()}) {
    EXPECT_FALSE(told(bad, 31)) << bad;
    EXPECT_FALSE(told(9, bad)) << bad;
  }
  EXPECT_FALSE(told(9, 0));
  EXPECT_FALSE(input_wait_in(folder_ / "none.json"));
}

// The files are written by the command's own process.
TEST_F(Looks, BearAnyValuesInAnyPlace) {
  const std::vector<Json> strange{nullptr,
                                  true,
                                  -1,
                                  1e308,
                                  "\x1b[31m\xe2\x80\xae",
                                  Json::array({1, "a"}),
                                  Json{{"a", {{"b", 1}}}},
                                  Json{{"\n", "x"}},
                                  std::string(5000, 'a')};
  for (const auto& [name, ignored] : eager_.items()) {
    for (const Json& value : strange) {
      Json other = eager_;
      other[name] = value;
      for (const auto& both : {std::pair{eager_, other}, {other, eager_}}) {
        const auto lines = differ(both.first.dump(), both.second.dump());
        for (const std::string& line : *lines) {
          EXPECT_LT(line.size(), 2000U);
          EXPECT_EQ(line.find_first_of("\n\x1b"), std::string::npos) << line;
        }
      }
    }
  }
}

}  // namespace looks_test
