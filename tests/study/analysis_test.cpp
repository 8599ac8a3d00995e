// The verdicts a study comes to from planted records.
#include "study/analysis.h"

#include "ablations/gpt2/run.h"
#include "ablations/plan/make_plan.h"
#include "ablations/run/study_folder.h"
#include "tests/study/planted_study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <regex>

namespace analysis_test {

namespace fs = std::filesystem;
using namespace study;
using files::Json;

class Analysis : public planted::PlantedStudy {};

TEST_F(Analysis, ComputesMediansRatiosAndTheHeadline) {
  const Json s = study();
  EXPECT_DOUBLE_EQ(s["rungs"][0]["ms_per_step"]["median"].get<double>(), 110);
  EXPECT_EQ(s["rungs"][0]["ms_per_step"]["n"], 6);  // warm-up steps are not among them
  EXPECT_DOUBLE_EQ(s["rungs"][0]["ms_per_step"]["max"].get<double>(), 120);
  EXPECT_NEAR(s["rungs"][2]["speedup_first"]["ratio"].get<double>(), 4, 1e-9);
  EXPECT_NEAR(s["rungs"][2]["speedup_previous"]["ratio"].get<double>(), 2, 1e-9);
  EXPECT_NEAR(s["rungs"][2]["speedup_first"]["lo"].get<double>(), 4, 1e-6);  // pairs cancel what a repeat shares
  EXPECT_NEAR(s["rungs"][0]["tokens_per_s"]["median"].get<double>(), 10 * 1000.0 / 110, 1e-9);
  EXPECT_EQ(s["headline"]["last"], 2);
  EXPECT_EQ(s["plan"]["runs_ok"], 9);
  EXPECT_TRUE(s["rungs"][0]["speedup_previous"].is_null());
}

TEST_F(Analysis, WhatBatchesCostIsToldWhereRungsDifferInThem) {
  for (const Json& rung : study()["rungs"]) EXPECT_FALSE(rung.contains("batches"));
  EXPECT_EQ(planted::table_of(study()).find("a step's batch"), std::string::npos);
  make_about_batches();
  const Json s = study(), read = s["rungs"][1]["batches"];
  EXPECT_NEAR(read["ms"]["median"].get<double>(), 10.0 / 3, 1e-9);  // of 5, 10/3 and 2.5: warm-up is not among them
  EXPECT_LT(read["ms"]["lo"].get<double>(), 10.0 / 3);
  EXPECT_NEAR(read["share"].get<double>(), 10.0 / 3 / 50, 1e-9);
  EXPECT_DOUBLE_EQ(read["bytes_read"].get<double>(), 34);  // 68 in two steps
  EXPECT_TRUE(read["storage_bytes"].is_null());
  EXPECT_DOUBLE_EQ(read["major_faults"].get<double>(), 0.5);
  EXPECT_EQ(read["resident_bytes"], 120);
  EXPECT_EQ(read["cached_after"], 500);
  EXPECT_EQ(s["rungs"][2]["batches"]["bytes_read"], 0.0);
  EXPECT_EQ(s["rungs"].size(), 3U);
  EXPECT_TRUE(
      std::regex_search(planted::table_of(s), std::regex("\\+ bf16 autocast +3.33 +6.67 % +34.0 +- .* 100>50 %\n")))
      << planted::table_of(s);
  plant(1, 0, 50);  // one record that does not say is enough
  EXPECT_FALSE(study()["rungs"][1].contains("batches"));
  EXPECT_TRUE(study()["rungs"][2].contains("batches"));
  plant(1, 0, 50, {{"/timing/data_ms", {1.0}}});
  EXPECT_THROW((void)study(), std::invalid_argument);
}

TEST_F(Analysis, MfuOfAllRungsIsOfOnePeak) {
  for (Rung& rung : plan_.rungs) rung.recipe["device"] = "cuda";
  plant_all(100, {{"/workload/flops_per_step", 10e12},  // 100 TFLOP/s
                  {"/environment/gpu", {{"name", "NVIDIA A100-SXM4-40GB"}}}});
  const Json s = study();
  EXPECT_NEAR(s["rungs"][0]["mfu"]["value"].get<double>(), 100.0 / 312, 1e-9);
  EXPECT_NEAR(s["rungs"][1]["mfu"]["value"].get<double>(), 100.0 / 312, 1e-9);
}

TEST_F(Analysis, AStudyWithRungsOnAGpuIsNoCpusStudy) {
  EXPECT_EQ(study()["device"]["kind"], "cpu");
  plan_.rungs[2].recipe["device"] = "cuda";
  plant_all(100, {{"/environment/gpu", {{"name", "NVIDIA H200"}}}});
  const Json mixed = study()["device"];
  EXPECT_EQ(mixed["kind"], "cuda");
  EXPECT_TRUE(mixed["name"].get<std::string>().starts_with("NVIDIA H200; rungs without it on ")) << mixed;
  for (size_t rung = 0; rung < 2; ++rung) plan_.rungs[rung].status = Rung::Status::not_measured;
  EXPECT_EQ(study()["device"]["name"], "NVIDIA H200");
}

TEST_F(Analysis, AFailedProofTakesTheNumberAway) {
  plant(1, 2, 50, {{"/proofs/0/passed", false}});
  const Json s = study();
  EXPECT_EQ(s["rungs"][1]["status"], "unproven");
  EXPECT_TRUE(s["rungs"][1]["ms_per_step"].is_null());
  // The step from rung 0 would be what both bring.
  EXPECT_TRUE(s["rungs"][2]["speedup_previous"].is_null());
  EXPECT_NEAR(s["rungs"][2]["speedup_first"]["ratio"].get<double>(), 4, 1e-9);
  EXPECT_NE(
      s["warnings"].dump().find("what it alone brings is not known: \\\"bf16 autocast\\\" before it has no number"),
      std::string::npos)
      << s["warnings"];
  EXPECT_NE(planted::table_of(s).find("unproven: autocast"), std::string::npos);
}

TEST_F(Analysis, EnergyIsTheMedianOfTheRunsThatCouldTell) {
  const Json joules{0.25, nullptr, 0.75};
  for (int64_t repeat = 0; repeat < 3; ++repeat) {
    plant(1, repeat, 50, {{"/monitor", monitor({{"joules_per_token", joules[static_cast<size_t>(repeat)]}})}});
  }
  plant(2, 0, 25, {{"/monitor", {{"unavailable", "libnvidia-ml.so.1: no such file"}}}});
  EXPECT_EQ(study()["rungs"][1]["joules_per_token"], 0.5);
  EXPECT_FALSE(study()["rungs"][2].contains("joules_per_token"));
  EXPECT_FALSE(study()["rungs"][1].contains("flags"));
}

TEST_F(Analysis, AFailedGuardVoidsTheSpeedup) {
  plant(2, 0, 25, {{"/timing/loss", {10.0, 9.0, 8.0}}});
  const Json s = study();
  EXPECT_EQ(s["rungs"][2]["status"], "void");
  EXPECT_TRUE(s["rungs"][2]["speedup_first"].is_null());
  EXPECT_EQ(s["headline"]["last"], 1);
}

TEST_F(Analysis, FailedAndMissingRunsAreSaidNotInvented) {
  for (int64_t repeat = 0; repeat < 3; ++repeat) fail(1, repeat, FailureKind::signal, "killed by signal 9 (Killed)");
  fs::remove(record_file(folder_, run_of(2, 1).id));
  const Json s = study();
  EXPECT_EQ(s["rungs"][1]["status"], "failed");
  EXPECT_NE(s["rungs"][1]["reason"].get<std::string>().find("signal 9"), std::string::npos);
  EXPECT_EQ(s["rungs"][2]["runs_ok"], 2);
  EXPECT_EQ(s["rungs"][2]["speedup_first"]["pairs"], 2);
  EXPECT_TRUE(s["finished"].is_null());
}

TEST_F(Analysis, AFailedRunIsNotAMissingOne) {
  fail(2, 1, FailureKind::out_of_memory, "asked 9 GiB of 8");
  EXPECT_FALSE(study()["finished"].is_null());
}

TEST_F(Analysis, WithoutAReferenceTheNextMeasuredRungTakesItsPlace) {
  lose(0);
  const Json s = study();
  EXPECT_EQ(s["rungs"][0]["status"], "failed");
  EXPECT_EQ(s["rungs"][0]["out_of_memory"], true);
  EXPECT_NEAR(s["rungs"][1]["speedup_first"]["ratio"].get<double>(), 1, 1e-9);
  EXPECT_NEAR(s["rungs"][2]["speedup_first"]["ratio"].get<double>(), 2, 1e-9);
  EXPECT_EQ(s["headline"]["first"], 1);
  EXPECT_EQ(s["headline"]["planned"], 0);
  // It guards, too.
  plant(2, 0, 25, {{"/timing/loss", {10.0, 9.0, 8.0}}});
  EXPECT_EQ(study()["rungs"][2]["status"], "void");
}

TEST_F(Analysis, OneFaultAmongFailuresForWantOfMemoryIsAFault) {
  lose(1);
  fail(1, 1, FailureKind::signal, "killed by signal 11");
  const Json s = study();
  EXPECT_EQ(s["rungs"][1]["out_of_memory"], false);
  EXPECT_NE(s["rungs"][1]["reason"].get<std::string>().find("signal 11"), std::string::npos);
}

TEST_F(Analysis, ALossThatIsNotFiniteVoidsWithoutAReferenceToo) {
  for (int64_t repeat = 0; repeat < 3; ++repeat) plant(0, repeat, 100, {{"/timing/loss/1", nullptr}});
  const Json s = study();
  EXPECT_EQ(s["rungs"][0]["status"], "void");
  EXPECT_NE(s["rungs"][0]["reason"].get<std::string>().find("step 2 is not finite"), std::string::npos);
  EXPECT_EQ(s["headline"]["first"], 1);
}

TEST_F(Analysis, TheToleranceFollowsTheRecipesNotTheEdits) {
  const auto deviation_passes = [&](double deviation) {
    plant(2, 0, 25, {{"/timing/loss", {10.0, 9.5 + deviation, 9.0 + deviation}}});
    return study()["rungs"][2]["status"] == "measured";
  };
  plan_.rungs[2].applied = {"fused_adamw"};  // on a ladder that starts in bfloat16
  EXPECT_TRUE(deviation_passes(0.008));
  EXPECT_FALSE(deviation_passes(0.012));
  plan_.rungs[2].applied = {"bf16", "fused_adamw"};
  plan_.rungs[2].recipe["autocast"] = "off";
  plan_.rungs[2].losses->tolerance = 1e-3;
  EXPECT_FALSE(deviation_passes(0.008));
}

// The three rungs as another mode's: the reference, everything on, and without flash.
TEST_F(Analysis, LeaveOneOutSaysWhatEachIsWorth) {
  plan_.mode = Mode::leave_one_out;
  plan_.rungs[1].name = "full";
  plan_.rungs[1].reference = plan_.rungs[2].reference = 0;
  plan_.rungs[2].against = 1;
  const Json s = study();
  EXPECT_EQ(s["attribution"].size(), 1U);
  EXPECT_EQ(s["attribution"][0]["optimization"], "fused_adamw");
  EXPECT_NEAR(s["attribution"][0]["ratio"].get<double>(), 0.5, 1e-9);  // without it takes half the time
  EXPECT_NEAR(s["rungs"][2]["speedup_previous"]["ratio"].get<double>(), 2, 1e-9);
  EXPECT_TRUE(s["rungs"][1]["speedup_previous"].is_null());
  EXPECT_EQ(s["headline"]["last"], 1);
  EXPECT_NE(planted::table_of(s).find("what is lost without it"), std::string::npos);
  // A rung whose number does not count has no worth.
  plant(2, 2, 50, {{"/proofs/0/passed", false}});
  const Json unproven = study();
  EXPECT_TRUE(unproven["attribution"][0]["ratio"].is_null());
  EXPECT_NE(unproven["attribution"][0]["reason"].get<std::string>().find("autocast: expected e; observed o"),
            std::string::npos);
}

TEST_F(Analysis, ASweepComparesNothingOfUnequalSize) {
  plan_.mode = Mode::sweep;
  plan_.swept = Swept::batch;
  for (size_t i = 0; i < 3; ++i) plan_.rungs[i].shape = Shape{.B = 1 << i, .T = 10, .accumulation = 1};
  plant(1, 0, 50, {{"/timing/loss", {3.0, 2.0, 1.0}}});  // another batch, other losses
  const Json s = study();
  for (const Json& rung : s["rungs"]) {
    EXPECT_EQ(rung["status"], "measured");
    EXPECT_TRUE(rung["guard"].is_null() && rung["speedup_first"].is_null() && rung["speedup_previous"].is_null());
  }
  EXPECT_EQ(s["rungs"][2]["workload"]["batch"], 4);
  EXPECT_TRUE(s["headline"].is_null());
  EXPECT_NE(planted::table_of(s).find("B=4 fused AdamW"), std::string::npos);
  EXPECT_EQ(planted::table_of(s).find("vs first"), std::string::npos);
}

// A proof may show more than the plan knew: whose attention it was.
TEST_F(Analysis, ARungIsCalledAsItsRunsWereAfterTheirProof) {
  for (int64_t repeat = 0; repeat < 3; ++repeat) plant(1, repeat, 100, {{"/title", "bf16 autocast (seen)"}});
  EXPECT_EQ(study()["rungs"][0]["title"], "float32");
  EXPECT_EQ(study()["rungs"][1]["label"], "+ bf16 autocast (seen)");
  EXPECT_EQ(study()["rungs"][2]["title"], "fused AdamW");
}

TEST_F(Analysis, APeerStandsBesideItsTwinAndNotInTheLadder) {
  plan_.rungs[2] = plan_.rungs[1];
  plan_.rungs[2].peer = "pytorch-eager";
  plan_.rungs[2].title = "PyTorch eager";
  plan_.rungs[2].against = 1;
  for (int64_t repeat = 0; repeat < 3; ++repeat) plant(2, repeat, 75 * (1.0 + 0.1 * static_cast<double>(repeat)));
  const Json s = study();
  EXPECT_EQ(s["headline"]["last"], 1);
  ASSERT_EQ(s["rungs"][1]["peers"].size(), 1U);
  EXPECT_EQ(s["rungs"][1]["peers"][0]["rung"], 2);
  EXPECT_NEAR(s["rungs"][1]["peers"][0]["ratio"].get<double>(), 1.5, 1e-9);
  const std::string table = planted::table_of(s);
  EXPECT_NE(table.find("the same work in PyTorch"), std::string::npos);
  EXPECT_EQ(table.find("+ PyTorch"), std::string::npos);
  // LADDER_PYTHON may name another PyTorch. Where --peer-python did, the plan says it.
  EXPECT_EQ(s["rungs"][2]["title"], "PyTorch eager");
  for (int64_t repeat = 0; repeat < 3; ++repeat) plant(2, repeat, 75, {{"/environment/torch", "2.15.1+cpu"}});
  EXPECT_EQ(study()["rungs"][2]["title"], "PyTorch 2.15.1 eager");
  plan_.rungs[2].peer = "pytorch-2.15.1-eager";
  EXPECT_EQ(study()["rungs"][2]["title"], "PyTorch eager");
  plan_.rungs[2].peer = "pytorch-eager";
  // A peer in fp8 may be further off.
  for (int64_t repeat = 0; repeat < 3; ++repeat) plant(2, repeat, 75, {{"/timing/loss", {10.015, 9.515, 9.015}}});
  EXPECT_EQ(study()["rungs"][2]["status"], "void");
  plan_.rungs[2].peer = "pytorch-fp8";
  plan_.rungs[2].losses->tolerance = 2e-2;
  EXPECT_EQ(study()["rungs"][2]["status"], "measured");
  // It is guarded by the same reference as the rungs are.
  plant(2, 1, 80, {{"/timing/loss", {10.0, 9.0, 8.0}}});
  const Json wrong = study();
  EXPECT_EQ(wrong["rungs"][2]["status"], "void");
  EXPECT_TRUE(wrong["rungs"][1]["peers"][0]["ratio"].is_null());
}

TEST_F(Analysis, ALadderThatBeginsInBfloat16HoldsNobodyToFloat32) {
  const model::Recipe bf16{.autocast = model::Autocast::bf16};
  for (Rung& rung : plan_.rungs) {
    rung.applied = {};
    rung.recipe = model::to_json(bf16);
  }
  plant_all(50, {});
  for (int64_t repeat = 0; repeat < 3; ++repeat) {
    plant(2, repeat, 50, {{"/timing/loss", {10.0, 9.5317, 8.99}}});  // as a peer's that is right
  }
  const Json s = study();
  EXPECT_EQ(s["rungs"][2]["status"], "measured") << s["rungs"][2]["reason"];
  EXPECT_GT(s["rungs"][2]["guard"]["tolerance"].get<double>(), 1e-3);
}

TEST_F(Analysis, WithoutARecordTheThreadsAreThePlans) {
  fs::remove_all(folder_ / "records");
  plan_.workload.threads = 7;
  EXPECT_EQ(study()["environment"]["threads"], 7);
  EXPECT_TRUE(study()["device"]["name"].get<std::string>().ends_with(", 7 threads"));
}

}  // namespace analysis_test
