// Plans and ladders are the same after they were read and written: the recorded ones, and what only other ones have.
#include "results/plan.h"

#include "files/resources.h"
#include "results/ladder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace plan_test {

namespace fs = std::filesystem;
using namespace results;
using files::Json;

void expect_kept(const Json& json) {
  const Json again = json_of(value_from<Plan>(json, "the plan"));
  EXPECT_TRUE(again.dump() == json.dump()) << Json::diff(json, again).dump(1);
}

Json recorded(const std::string& name) {
  return files::read_any_json(files::resource_root() / "results" / "evidence" / name / "plan.json");
}

TEST(PlanDocument, OfTheEvidenceIsTheSameWhenCopied) {
  size_t seen = 0;
  for (const auto& study : fs::directory_iterator(files::resource_root() / "results" / "evidence")) {
    SCOPED_TRACE(study.path().string());
    if (!fs::exists(study.path() / "plan.json")) continue;
    const Json json = files::read_any_json(study.path() / "plan.json");
    expect_kept(json);
    ++seen;
  }
  EXPECT_GE(seen, 6U);
}

TEST(PlanDocument, KeepsWhatOnlySomeHave) {
  Json json = recorded("amd-epyc-avx2-batch-2026-11-24");
  json["ladder"]["file"] = "own.json";
  json["workload"].erase("tokens");
  json["workload"].erase("positions");
  json["shard"] = {{"index", 2}, {"count", 3}};
  json["rungs"][1]["workload"]["positions"] = 64;
  json["rungs"][1]["peer"] = "pytorch-eager";
  expect_kept(json);
}

TEST(PlanDocument, KeepsThatItIsAQuickLook) {
  Json json = recorded("intel-xeon-2-cores-2026-11-23");
  const size_t left_out = json["rungs"].size() - 1;
  json["rungs"][left_out]["status"] = "not_measured";
  json["rungs"][left_out]["reason"] = "left out";
  json["quick"] = {{"repeats", json["repeats"].get<int64_t>() + 1}, {"left_out", {left_out}}};
  expect_kept(json);
}

TEST(PlanDocument, KeepsAGatesTermsAndPrograms) {
  Json json = recorded("intel-xeon-2-cores-2026-11-23");
  for (Json& rung : json["rungs"]) {
    rung["program"] = "/opt/ladder/ladder";
    rung["program_sha256"] = std::string(64, 'a');
  }
  json["gate"] = {{"min_effect", 0.02},  {"top_up", 8},   {"baselines", "results/baselines"},
                  {"calibrates", false}, {"saves", true}, {"force", false}};
  expect_kept(json);
}

TEST(PlanDocument, IsRefusedByItsSchemaOrWhereItContradictsItself) {
  const auto refusal = [](const char* pointer, const Json& value) -> std::string {
    Json json = recorded("amd-epyc-avx2-batch-2026-11-24");
    json[Json::json_pointer(pointer)] = value;
    try {
      (void)value_from<Plan>(json, "plan.json");
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("/rungs/0/title", "t"), "accepted");
  EXPECT_NE(refusal("/rungs/0/status", "ready").find("plan.json: field [rungs][0][status]"), std::string::npos);
  EXPECT_NE(refusal("/swept", "seed").find("plan.json: field [swept]"), std::string::npos);
  EXPECT_NE(refusal("/rungs/0/recipe/device", "tpu").find("plan.json: rung 0: recipe field \"device\""),
            std::string::npos);
  EXPECT_NE(refusal("/reference", 99).find("plan.json: reference 99 is not a rung"), std::string::npos);
}

TEST(LadderDocument, OfTheProgramIsTheSameWhenCopied) {
  size_t seen = 0;
  for (const auto& file : fs::directory_iterator(files::resource_root() / "ladders")) {
    const Json json = files::read_any_json(file.path());
    EXPECT_EQ(json_of(value_from<Ladder>(json, "the ladder")).dump(), json.dump()) << file.path();
    ++seen;
  }
  EXPECT_GE(seen, 4U);
}

TEST(LadderDocument, MayLeaveOutWhatHasADefault) {
  Json json = files::read_any_json(files::resource_root() / "ladders" / "gpt2.json");
  for (const char* field : {"comment", "start_title", "reference"}) json.erase(field);
  const auto ladder = value_from<Ladder>(json, "the ladder");
  EXPECT_EQ(ladder.start_title, "baseline");
  EXPECT_EQ(ladder.workload.accumulation, 1);
  EXPECT_EQ(ladder.start.at("optimizer"), "foreach");
  EXPECT_EQ(json_of(ladder), json);
  json["workload"]["accumulation"] = 4;
  EXPECT_EQ(json_of(value_from<Ladder>(json, "the ladder")), json);
}

}  // namespace plan_test
