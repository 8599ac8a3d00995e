// Every value of a real study's study.json, changed one by one in the smallest way, is found where it stands: by the
// hash of the file, and, where somebody put the hashes right, by computing it again.
#include "study/archive/verify.h"

#include "ablations/gpt2/reproduce.h"
#include "ablations/plan/make_plan.h"
#include "files/files.h"
#include "harness/process/process.h"
#include "model/data.h"
#include "study/analysis.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>

namespace verify_test {

namespace fs = std::filesystem;
using namespace study;
using files::Json;

class Verify : public testing::Test {
 protected:
  const files::TemporaryFolder temporary_{"verify-test"};
  const fs::path home_ = temporary_.path();
  const fs::path folder_ = home_ / "study";

  // Two rungs and one that does not apply, two runs each.
  void SetUp() override {
    const char* program = std::getenv("LADDER");
    if (program == nullptr) GTEST_SKIP() << "LADDER does not name the program";
    std::vector<uint16_t> tokens;
    for (int i = 0; i < 4000; ++i) tokens.push_back(static_cast<uint16_t>(i * 31 % 50257));
    model::write_tokens(home_ / "tokens.bin", tokens);
    const Json ladder{{"kind", "ladder"},
                      {"schema_version", 1},
                      {"name", "small"},
                      {"title", "Small"},
                      {"start", Json::object()},
                      {"rungs", {"gpu", "flash"}},
                      {"workload", {{"model", "tiny"}, {"batch", 1}, {"context", 16}}},
                      {"plan", {{"repeats", 2}, {"warmup_steps", 1}, {"timed_steps", 3}}}};
    files::write_file(home_ / "small.json", ladder.dump());
    const fs::path log = home_ / "log";
    const auto child =
        harness::run_child({.argv = {program, "ablate", "--ladder", home_ / "small.json", "--threads", "1", "--data",
                                     home_ / "tokens.bin", "--out", folder_, "--json"},
                            .log = log,
                            .limit_s = 200,
                            .environment = {"CUDA_VISIBLE_DEVICES=", "LADDER_LOCK_DIR=" + home_.string()}});
    ASSERT_TRUE(child.end == harness::ChildResult::End::exited &&
                (child.code == 0 || child.code == 3))  // of two repeats
        << child.describe(200) << "\n"
        << files::read_file(log);
  }

  [[nodiscard]] Json study() const { return files::read_any_json(folder_ / "study.json"); }

  // As somebody would leave it who edits a record and puts every hash and every number of the study right.
  void edit_record_and_seal(const Json::json_pointer& field, const Json& value) const {
    const fs::path file = folder_ / "records" / "r1-00-start.json";
    Json record = files::read_any_json(file);
    record[field] = value;
    files::write_json(file, record);
    write_document(folder_ / "study.json", sealed(analyse(open(), folder_), folder_));
  }
  // With every hash put right.
  [[nodiscard]] Json resealed(Json study) const {
    study["hashes"] = hashes_of(folder_);
    study["sha256"] = own_sha256(study);
    return study;
  }
  [[nodiscard]] Plan open() const { return value_from<Plan>(files::read_any_json(folder_ / "plan.json"), "plan.json"); }
};

// The smallest other value.
Json nudged(const Json& value) {
  if (value.is_number_float()) return std::nextafter(value.get<double>(), std::numeric_limits<double>::infinity());
  if (value.is_number()) return value.get<int64_t>() + 1;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return value.get<std::string>() + " ";
  return 0;  // null, [] and {}
}

bool names(const std::vector<Finding>& findings, const std::string& field) {
  return std::ranges::any_of(findings, [&](const Finding& finding) {
    return finding.file == "study.json" && finding.field == field && finding.stored != finding.expected;
  });
}

TEST_F(Verify, FindsEveryChangedValueOfAStudy) {
  const Verification untouched = verify_study(folder_, ablations::computed_again);
  for (const Finding& finding : untouched.findings) {
    ADD_FAILURE() << finding.file << " " << finding.field << ": " << finding.stored << "; " << finding.expected;
  }
  EXPECT_GE(untouched.records, 4U);
  EXPECT_EQ(untouched.files, untouched.records + 2);

  const Json good = study();
  const Recomputed recomputed = recompute(folder_, value_from<Study>(good, "study.json"), ablations::computed_again);
  ASSERT_TRUE(compare_study(good, recomputed).empty());
  size_t numbers = 0;
  const Json flat = good.flatten();
  for (const auto& [field, value] : flat.items()) {
    SCOPED_TRACE(field);
    numbers += value.is_number() ? 1 : 0;
    Json edited = good;
    edited[Json::json_pointer(field)] = nudged(value);
    EXPECT_TRUE(names(compare_study(edited, recomputed), "/sha256"));
    if (field.starts_with("/hashes") || field == "/sha256") continue;
    const std::vector<Finding> findings = compare_study(resealed(edited), recomputed);
    EXPECT_EQ(findings.size(), 1U);
    EXPECT_TRUE(names(findings, field));
  }
  EXPECT_GT(numbers, 80U);

  // And what was taken out or put in.
  for (const auto& [name, value] : good.items()) {
    SCOPED_TRACE(name);
    Json edited = good;
    edited.erase(name);
    if (name == "hashes" || name == "sha256") {
      EXPECT_THROW((void)value_from<Study>(edited, "study.json"), std::invalid_argument);
      continue;
    }
    EXPECT_FALSE(compare_study(edited, recomputed).empty());
    EXPECT_TRUE(names(compare_study(resealed(edited), recomputed), "/" + name));
  }
  Json more = good;
  more["rungs"][0]["note"] = "fast";
  more["warnings"].push_back("none");
  const std::vector<Finding> findings = compare_study(resealed(more), recomputed);
  EXPECT_EQ(findings.size(), 2U);
  EXPECT_TRUE(names(findings, "/rungs/0/note"));
  EXPECT_TRUE(names(findings, fmt::format("/warnings/{}", good.at("warnings").size())));
}

TEST_F(Verify, ComputesARecordsOwnValuesAgain) {
  const auto found = [&](const char* field, const std::function<Json(const Json&)>& edit) {
    const fs::path file = folder_ / "records" / "r1-00-start.json";
    const Json before = files::read_any_json(file);
    const Json::json_pointer pointer(field);
    edit_record_and_seal(pointer, edit(before.at(pointer)));
    std::string fields;
    for (const Finding& finding : verify_study(folder_, ablations::computed_again).findings) {
      fields += finding.file + finding.field + " ";
    }
    edit_record_and_seal(pointer, before.at(pointer));
    return fields;
  };
  const std::string record = "records/r1-00-start.json";
  for (const char* field :
       {"/summary/median_ms", "/summary/q1_ms", "/summary/q3_ms", "/summary/min_ms", "/summary/max_ms", "/summary/n",
        "/summary/tokens_per_s", "/workload/flops_per_step", "/workload/parameters"}) {
    EXPECT_NE(found(field, nudged).find(record + field + " "), std::string::npos) << field;
  }
  // Proofs and counts are this program's own, and with uncommitted changes `ladder` and this test are different
  // programs.
  for (const char* field : {"/proofs/0/passed", "/proofs/4/observed", "/least_work/flops", "/least_work/bytes"}) {
    const bool clean = environment_here().git_dirty == false;
    EXPECT_EQ(found(field, nudged).find(record + field + " ") != std::string::npos, clean) << field;
  }
  EXPECT_NE(found("/workload/tokens_per_step", nudged).find(record + "/workload/tokens_per_step "), std::string::npos);
  EXPECT_NE(found("/recipe/attention", [](const Json&) { return "flash"; }).find(record + " "), std::string::npos);
  EXPECT_EQ(found("/memory/peak_source", nudged), "");  // not derived from anything: only the hash can tell
  EXPECT_EQ(verify_study(folder_, ablations::computed_again).findings.size(), 0U);

  // Only where something else kept the processor busy may the steps fill a quarter of their window.
  const auto four_times_the_steps = [&](const Json&) {
    const Json timing = files::read_any_json(folder_ / record).at("timing");
    const auto step_ms = timing.at("step_ms").get<std::vector<double>>();
    return 4 * std::accumulate(step_ms.begin() + timing.at("warmup_steps").get<int64_t>(), step_ms.end(), 0.0);
  };
  for (const bool disturbed : {false, true}) {
    edit_record_and_seal(Json::json_pointer("/flags"), disturbed ? Json{"shared: so"} : Json::array());
    EXPECT_EQ(found("/timing/window_ms", four_times_the_steps), disturbed ? "" : record + "/timing/window_ms ");
  }
}

}  // namespace verify_test
