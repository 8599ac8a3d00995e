// A study is the same after it was read and written: the recorded ones, and what only some have.
#include "results/study.h"

#include "files/resources.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace study_test {

namespace fs = std::filesystem;
using namespace results;
using files::Json;

Json copied(const Json& json) { return json_of(value_from<Study>(json, "the study")); }

void expect_kept(const Json& json) {
  const Json again = copied(json);
  EXPECT_TRUE(again.dump() == json.dump()) << Json::diff(json, again).dump(1);
}

Json recorded(const char* name) {
  return files::read_any_json(files::resource_root() / "results" / "evidence" / name / "study.json");
}

Json recorded() { return recorded("intel-xeon-2-cores-2026-11-23"); }

TEST(StudyDocument, OfTheEvidenceIsTheSameWhenCopied) {
  for (const char* name : {"amd-epyc-2-cores-2026-11-22", "intel-xeon-2-cores-2026-11-23"}) {
    SCOPED_TRACE(name);
    expect_kept(recorded(name));
  }
}

TEST(StudyDocument, KeepsWhatIsNullOrAbsent) {
  Json json = recorded();
  json["finished"] = nullptr;
  for (const char* field : {"memory", "profile", "explanation", "workload"}) json["rungs"][1].erase(field);
  json["rungs"][2]["guard"]["deviation"] = nullptr;  // a loss that is not finite
  json["rungs"][2]["mfu"] = nullptr;
  expect_kept(json);
}

TEST(StudyDocument, KeepsWhatOnlySomeHave) {
  Json json = recorded();
  const Json none{{"ratio", nullptr}, {"lo", nullptr}, {"hi", nullptr}};
  Json ratio{{"ratio", 2.0}, {"lo", 1.5}, {"hi", 2.5}}, peer = ratio, unknown = none, worth = ratio, without = none;
  peer.update({{"peer", "pytorch-eager"}, {"rung", 3}, {"pairs", 6}});
  unknown.update({{"peer", "pytorch-compile"}, {"rung", 4}});
  worth.update({{"optimization", "bf16"}, {"title", "b"}, {"method", "shapley"}, {"repeats", 6}, {"reason", ""}});
  without.update({{"optimization", "bf16"}, {"title", "b"}, {"method", "cumulative"}, {"repeats", 0}, {"reason", "r"}});
  json.update({{"quick", true}, {"mode", "sweep"}, {"swept", "context"}, {"attribution", {worth, without}}});
  json["ladder"]["file"] = "own.json";
  json["statistics"]["attribution"] = "by Shapley";
  json["headline"]["planned"] = 1;
  json["rungs"][2]["peers"] = {peer, unknown};
  json["rungs"][3].update({{"peer", "pytorch-eager"}, {"against", 2}, {"status", "void"}, {"flags", {"shared"}}});
  json["rungs"][4].update({{"out_of_memory", false}, {"skipped_steps", 1}, {"joules_per_token", 0.5}});
  json["rungs"][4]["speedup_first"].update({{"lo", nullptr}, {"hi", nullptr}});
  json["rungs"][4]["least_work"] = {{"flops", 8.5e11}, {"bytes", 2.5e10}};
  json["runs"][0].update({{"status", "missing"}, {"median_ms", nullptr}, {"record", nullptr}});
  expect_kept(json);
}

TEST(StudyDocument, HasTheWordsOfTheSchema) {
  Json json = recorded();
  for (const char* status : {"measured", "not_applicable", "not_measured", "failed", "unproven", "void", "missing"}) {
    json["rungs"][1]["status"] = status;
    EXPECT_EQ(copied(json)["rungs"][1]["status"], status);
  }
  json["rungs"][1]["status"] = "voided";
  EXPECT_THROW((void)copied(json), std::invalid_argument);
}

}  // namespace study_test
