// The guard, and the verdicts a study comes to from planted records.
#include "ablations/analysis.h"

#include "ablations/run.h"
#include "ablations/runner.h"
#include "ablations/terminal.h"
#include "harness/environment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

namespace {

namespace fs = std::filesystem;
using namespace ablations;
using harness::Json;

TEST(Guard, AllowsTheToleranceAndTheKnownOffset) {
  const double offset = std::log(50304.0 / 50257.0);
  EXPECT_TRUE(guard({10.0, 9.0}, {10.0, 9.0}, 0, 0).passed);
  EXPECT_TRUE(guard({10.0 + offset, 9.0}, {10.0, 9.0}, 1e-6, offset).passed);
  EXPECT_FALSE(guard({10.0 + offset, 9.0}, {10.0, 9.0}, 1e-6, 0).passed);
  EXPECT_FALSE(guard({10.0, 9.0 + 2 * offset}, {10.0, 9.0}, 1e-4, offset).passed);
  EXPECT_FALSE(guard({10.0, 8.99}, {10.0, 9.0}, 1e-3, offset).passed);
  EXPECT_NEAR(*guard({10.0, 8.99}, {10.0, 9.0}, 1e-3, offset).max_deviation, 0.01, 1e-12);
}

TEST(Guard, ALossThatIsNotFiniteFails) {
  const Guard verdict = guard({10.0, std::nan("")}, {10.0, 9.0}, 1, 0);
  EXPECT_FALSE(verdict.passed);
  EXPECT_FALSE(verdict.max_deviation);
  EXPECT_NE(verdict.message.find("step 2 is not finite"), std::string::npos);
}

class Analysis : public testing::Test {
 protected:
  fs::path folder_ = fs::temp_directory_path() / ("analysis-test-" + std::to_string(::getpid()));
  Plan plan_;

  void SetUp() override {
    // float32, bf16, fused: three rungs, three repeats.
    const model::Recipe start, bf16{.autocast = model::Autocast::bf16},
        fused{.autocast = model::Autocast::bf16, .optimizer = model::Optimizer::fused};
    plan_ = {.id = "test",
             .created = "2026-01-01T00:00:00Z",
             .ladder_name = "test",
             .ladder_title = "Test",
             .model = "tiny",
             .data = "text",
             .vocabulary = "vocabulary",
             .warmup_steps = 1,
             .timed_steps = 2,
             .repeats = 3,
             .rungs = {{"", "float32", {}, start, Rung::Status::planned, ""},
                       {"bf16", "bf16 autocast", {"bf16"}, bf16, Rung::Status::planned, ""},
                       {"fused_adamw", "fused AdamW", {"bf16", "fused_adamw"}, fused, Rung::Status::planned, ""}},
             .reference = 0,
             .runs = {}};
    plan_.runs = interleave(plan_.rungs, plan_.repeats, 1);
    create_study(plan_, folder_);
    fs::create_directories(folder_ / "records");
    for (const PlannedRun& run : plan_.runs) {
      write(run, good(run, 100.0 / std::pow(2.0, static_cast<double>(run.rung)) *
                               (1.0 + 0.1 * static_cast<double>(run.repeat))));
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const PlannedRun& run, const Json& record) const {
    harness::write_json(record_file(folder_, run.id), record, "record");
  }

  Json good(const PlannedRun& run, double ms) const {
    const Rung& rung = plan_.rungs[run.rung];
    return {{"kind", "record"},
            {"schema_version", 1},
            {"id", run.id},
            {"started", "2026-01-01T00:00:00Z"},
            {"duration_s", 1.0},
            {"status", "ok"},
            {"recipe", model::to_json(rung.recipe)},
            {"optimizations", rung.applied},
            {"workload",
             {{"model", "tiny"},
              {"parameters", 1},
              {"batch", 1},
              {"context", 10},
              {"accumulation", 1},
              {"tokens_per_step", 10},
              {"flops_per_step", 1.0},
              {"seed", 1},
              {"data", {{"source", "text"}, {"sha256", ""}, {"tokens", 100}}}}},
            {"timing",
             {{"warmup_steps", 1},
              {"step_ms", {1000.0, ms, ms}},
              {"loss", {10.0, 9.5, 9.0}},
              {"page_faults", {9, 1, 1}},
              {"window_ms", 2 * ms},
              {"device_ms", nullptr}}},
            {"summary",
             {{"median_ms", ms},
              {"q1_ms", ms},
              {"q3_ms", ms},
              {"min_ms", ms},
              {"max_ms", ms},
              {"n", 2},
              {"tokens_per_s", 1.0}}},
            {"memory", {{"peak_bytes", 1 << 20}, {"peak_source", "test"}}},
            {"observations", Json::object()},
            {"proofs", {{{"field", "autocast"}, {"passed", true}, {"expected", "e"}, {"observed", "o"}}}},
            {"environment", harness::environment()}};
  }
  const PlannedRun& run_of(size_t rung, int64_t repeat) const {
    for (const PlannedRun& run : plan_.runs) {
      if (run.rung == rung && run.repeat == repeat) return run;
    }
    throw std::runtime_error("no such run");
  }
  Json study() const {
    Json result = analyse(plan_, folder_);
    harness::check_schema(result, "study", "the study");
    return result;
  }
};

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

TEST_F(Analysis, AFailedProofTakesTheNumberAway) {
  Json record = good(run_of(1, 2), 50);
  record["proofs"][0]["passed"] = false;
  write(run_of(1, 2), record);
  const Json s = study();
  EXPECT_EQ(s["rungs"][1]["status"], "unproven");
  EXPECT_TRUE(s["rungs"][1]["ms_per_step"].is_null());
  EXPECT_NEAR(s["rungs"][2]["speedup_previous"]["ratio"].get<double>(), 4, 1e-9);  // against the last valid rung
  EXPECT_NE(study_table(s).find("unproven: autocast"), std::string::npos);
}

TEST_F(Analysis, AFailedGuardVoidsTheSpeedup) {
  Json record = good(run_of(2, 0), 25);
  record["timing"]["loss"] = {10.0, 9.5, 8.0};
  write(run_of(2, 0), record);
  const Json s = study();
  EXPECT_EQ(s["rungs"][2]["status"], "void");
  EXPECT_TRUE(s["rungs"][2]["speedup_first"].is_null());
  EXPECT_EQ(s["headline"]["last"], 1);
}

TEST_F(Analysis, FailedAndMissingRunsAreSaidNotInvented) {
  for (int64_t repeat = 0; repeat < 3; ++repeat) {
    write(run_of(1, repeat), failed_record(run_of(1, repeat).id, "signal", "killed by signal 9 (Killed)", 1.0));
  }
  fs::remove(record_file(folder_, run_of(2, 1).id));
  const Json s = study();
  EXPECT_EQ(s["rungs"][1]["status"], "failed");
  EXPECT_NE(s["rungs"][1]["reason"].get<std::string>().find("signal 9"), std::string::npos);
  EXPECT_EQ(s["rungs"][2]["runs_ok"], 2);
  EXPECT_EQ(s["rungs"][2]["speedup_first"]["pairs"], 2);
  EXPECT_TRUE(s["finished"].is_null());
}

TEST_F(Analysis, WithoutAReferenceThereIsNoSpeedup) {
  for (int64_t repeat = 0; repeat < 3; ++repeat) fs::remove(record_file(folder_, run_of(0, repeat).id));
  const Json s = study();
  EXPECT_EQ(s["rungs"][0]["status"], "missing");
  EXPECT_EQ(s["rungs"][1]["status"], "void");
  EXPECT_TRUE(s["headline"].is_null());
}

TEST_F(Analysis, TheTableFitsEightyColumns) {
  const std::string table = study_table(study());
  size_t begin = 0;
  while (begin < table.size()) {
    const size_t end = table.find('\n', begin);
    EXPECT_LE(end - begin, 80U) << table.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST_F(Analysis, AStudyIsCreatedOnce) {
  EXPECT_THROW(create_study(plan_, folder_), std::invalid_argument);
  EXPECT_EQ(to_json(open_study(folder_)), to_json(plan_));
  EXPECT_THROW((void)open_study(folder_ / "records"), std::invalid_argument);
}

}  // namespace
