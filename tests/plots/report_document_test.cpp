// The report document from planted records, and what becomes of it in CSV and in Google Benchmark's form.
#include "plots/report_document.h"

#include "ablations/profile/profile_counters.h"
#include "files/resources.h"
#include "plots/export.h"
#include "study/analysis.h"
#include "study/guard.h"
#include "tests/study/made_up_study.h"
#include "tests/study/planted_study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>
#include <utility>
#include <vector>

namespace report_document_test {

namespace fs = std::filesystem;
using namespace plots;
using files::Json;

// All of the offset, or as little of it as a text that is hard to tell leaves, with 1 % for what rows are drawn.
TEST(Band, IsTheReferenceAndTheKnownOffset) {
  const Band up = band_of({10, 9}, 0.25, 0), down = band_of({10, 9}, -0.25, 0);
  const auto least = [](double loss) { return 0.99 * std::log1p((1 - std::exp(8 - loss)) * std::expm1(0.25)); };
  const auto expect = [](const Band& band, size_t step, double lo, double hi) {
    EXPECT_DOUBLE_EQ(band.lo[step], lo);
    EXPECT_DOUBLE_EQ(band.hi[step], hi);
  };
  expect(up, 0, 10 + least(10), 10.2525);
  expect(up, 1, 9 + least(9), 9.2525);
  expect(down, 0, 9.7475, 10 - least(9.75));
  expect(down, 1, 8.7475, 9 - least(8.75));
  expect(band_of({7}, 0.25, 0), 0, 7, 7.2525);
  expect(band_of({10}, 0, 0), 0, 10, 10);
}

TEST(Band, SpansTheStepsThatWereSkipped) {
  const Band band = band_of({10, 7, 8, 5}, 0, 1);
  EXPECT_EQ(band.lo, (std::vector<double>{10, 7, 7, 5}));
  EXPECT_EQ(band.hi, (std::vector<double>{10, 10, 8, 8}));
}

TEST(Band, HasNoneWhereALossIsNotFinite) {
  const Band band = band_of({10, std::nan(""), 8, 7}, 0, 1);
  EXPECT_TRUE(std::isnan(band.lo[1]) && std::isnan(band.hi[1]) && std::isnan(band.lo[2]));
  EXPECT_EQ(band.hi[3], 8);
}

class Report : public planted::PlantedStudy {
 protected:
  Json report() const { return json_of(report_document({computed_study(plan_, folder_)})); }

  void write_losses(size_t rung, int64_t repeat, const Json& losses) const {
    plant(rung, repeat, 50, {{"/timing/loss", losses}});
  }
};

results::Report typed(const Json& report) { return value_from<results::Report>(report, "r"); }

TEST_F(Report, TellsOfEachOptimizationOfTheStudy) {
  const Json told = report()["studies"][0]["techniques"];
  ASSERT_EQ(told.size(), 2U);
  for (const char* name : {"bf16", "fused_adamw"}) {
    EXPECT_EQ(told[name][0]["title"], "How it works");
  }
}

// Every step of every run in its order: the kept charts of steps.
TEST_F(Report, HasWhatDisturbedARun) {
  const Json unwatched{{"unavailable", "no GPU"}};
  plant(1, 2, 60, {{"/flags", {"shared: said so"}}, {"/monitor", unwatched}});
  for (const Json& run : report()["studies"][0]["runs"]) {
    const bool disturbed = run["id"] == run_of(1, 2).id;
    EXPECT_EQ(run["flags"].size(), disturbed ? 1U : 0U);
    EXPECT_EQ(run["conditions"], disturbed ? unwatched : Json());
  }
}

TEST_F(Report, HasTheLossesOfTheWorstRunAndTheirDeviations) {
  write_losses(1, 0, {10.0, 9.51, 8.99});
  write_losses(1, 1, {10.005, 9.52, 8.99});
  const Json document = report();
  const Json guard = document["studies"][0]["study"]["rungs"][1]["guard"];
  EXPECT_EQ(guard["guarded_by"], 0);
  EXPECT_EQ(guard["repeat"], 1);
  ASSERT_EQ(document["studies"][0]["losses"].size(), 2U);  // the reference is not guarded
  const Json losses = document["studies"][0]["losses"][0];
  EXPECT_EQ(losses["rung"], 1);
  EXPECT_EQ(losses["guarded_by"], 0);
  EXPECT_EQ(losses["repeat"], 1);
  EXPECT_EQ(losses["loss"], (Json{10.005, 9.52, 8.99}));
  EXPECT_EQ(losses["reference"], (Json{10.0, 9.5, 9.0}));
  EXPECT_EQ(losses["lo"], losses["reference"]);  // no row of its vocabulary is padding
  EXPECT_EQ(losses["hi"], losses["reference"]);
  EXPECT_NEAR(losses["deviation"][1].get<double>(), 0.02, 1e-12);
  EXPECT_NEAR(losses["deviation"][2].get<double>(), -0.01, 1e-12);
}

TEST_F(Report, ALossThatIsNotFiniteIsNull) {
  write_losses(2, 1, {10.0, nullptr, 9.0});
  const Json losses = report()["studies"][0]["losses"][1];
  EXPECT_EQ(losses["repeat"], 1);
  EXPECT_TRUE(losses["loss"][1].is_null() && losses["deviation"][1].is_null());
  EXPECT_EQ(losses["hi"][1], 9.5);
}

TEST_F(Report, ShowsThatARunWasMadeAgain) {
  const fs::path file = record_file(folder_, run_of(1, 1).id);
  Json first = good(run_of(1, 1), 77);
  first["flags"] = {"shared: the processor was busy with something else for 29 % of the time"};
  files::write_json(flagged_file(file), first);
  size_t made_again = 0;
  const Json document = report();
  for (const Json& run : document["studies"][0]["runs"]) {
    if (!run.contains("first_flags")) continue;
    ++made_again;
    EXPECT_EQ(run["id"], run_of(1, 1).id);
    EXPECT_EQ(run["first_flags"], first["flags"]);
    EXPECT_EQ(run["flags"], Json::array());
  }
  EXPECT_EQ(made_again, 1U);
}

TEST_F(Report, OfTwoComparesWhatTheyHaveInCommon) {
  StudyFiles base = computed_study(plan_, folder_), head = base;
  head.source = "other";
  Json report = json_of(report_document({base, head}));
  EXPECT_EQ(report["studies"].size(), 2U);
  EXPECT_EQ(report["comparison"]["entries"].size(), 3U);
  EXPECT_EQ(report["comparison"]["base"]["source"], base.source);
  EXPECT_EQ(report["comparison"]["entries"][0]["loss"]["message"], "losses identical to the bit");
  for (auto& record : head.records) record->timing.loss = {10.0, 9.501, 9.001};
  const Json loss = json_of(report_document({base, head}))["comparison"]["entries"][2]["loss"];
  EXPECT_TRUE(loss["message"].get<std::string>().starts_with("median difference of the losses 0.001 nats (limit "))
      << loss;
  for (auto& record : head.records) record->recipe["vocabulary_rows"] = 50304;
  report = json_of(report_document({base, head}));
  EXPECT_TRUE(report["comparison"].is_null());
  EXPECT_NE(report["notes"].dump().find("no recipe in common"), std::string::npos);
  for (auto& record : head.records) record.reset();
  report = json_of(report_document({base, head}));
  EXPECT_TRUE(report["comparison"].is_null());
  EXPECT_NE(report["notes"].dump().find("other has no record"), std::string::npos);
}

// A proof that failed in one run, losses that strayed in another: no run of the two rungs is compared.
TEST_F(Report, OfTwoComparesNoRungThatHasNoNumber) {
  const StudyFiles base = computed_study(plan_, folder_);
  plant(1, 2, 50, {{"/proofs/0/passed", false}});
  write_losses(2, 0, {10.0, 9.0, 8.0});
  const Json comparison = json_of(report_document({base, computed_study(plan_, folder_)}).comparison);
  ASSERT_EQ(comparison["entries"].size(), 1U);
  EXPECT_EQ(comparison["entries"][0]["label"], "float32");
  ASSERT_EQ(comparison["head"]["left_out"].size(), 6U);
  EXPECT_EQ(comparison["head"]["left_out"][0],
            run_of(1, 0).id + ": its rung is unproven: autocast: expected e; observed o");
  EXPECT_NE(comparison["head"]["left_out"][4].dump().find("its rung is void: its loss is"), std::string::npos)
      << comparison["head"]["left_out"];
}

TEST_F(Report, IsReadAgainAsItIs) {
  const Json document = report();
  files::write_json(folder_ / "report.json", document);
  EXPECT_EQ(json_of(read_document<results::Report>(folder_ / "report.json")), document);
  for (const auto& [place, value, says] : std::vector<std::tuple<const char*, Json, std::string>>{
           {"/studies/0/losses/0/guarded_by", 7, "[studies][0][losses]: \"guarded_by\" is 7"},
           {"/studies/0/study/schema_version", 2, "\"schema_version\" is 2"},
           {"/gates/0", {{"kind", "study"}}, "r: field [gates][0]"}}) {
    Json bad = document;
    bad[Json::json_pointer(place)] = value;
    try {
      (void)typed(bad);
      ADD_FAILURE() << place;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  }
}

// Of a study about batches, with texts that a spreadsheet would take for something else.
results::Report with_odd_texts() {
  results::Report report;
  ReportedStudy& entry = report.studies.emplace_back();
  entry.source = "folder";
  entry.study = made_up::study();
  std::vector<StudyRung>& rungs = entry.study.rungs;
  rungs[0].title = "a, \"b\"\nc<b>|";
  rungs[1].title = "=1+1";
  rungs[1].recipe = {{"at", "@x"}, {"minus", "-1"}, {"tab", "\t=1"}, {"escape", "\x1b[31m"}, {"letter", "\xc3\xa4"}};
  rungs[1].speedup_first = made_up::ratio(4.0 / 3, 1.3, {});  // with every digit
  rungs[1].proofs = {Proof{.field = "autocast", .passed = true}, Proof{.field = "device", .passed = false}};
  rungs[1].guard = RungGuard{.passed = true};
  rungs[2].batches = RungBatches{.ms = {{}, 2.5}, .share = 0.05, .bytes_read = 34, .major_faults = 0.5};
  entry.runs = {
      {.id = "r1-00", .warmup_steps = 1, .step_ms = {1000, 100.0 / 3}, .loss = {10.0, std::nullopt}},
      {.id = "r1-01", .rung = 2, .position = 1, .step_ms = {40}, .data_ms = {0.5}, .loss = {9.0}, .flags = {"shared"}}};
  return report;
}

TEST(Exported, TablesAreTheKeptOnes) {
  for (const auto& [name, table] :
       {std::pair{"rungs.csv", rungs_csv(with_odd_texts())}, {"steps.csv", steps_csv(with_odd_texts())}}) {
    const fs::path kept = files::resource_root() / "tests" / "plots" / "exported" / name;
    if (std::getenv("LADDER_WRITE_EXPORTED") != nullptr) files::write_file(kept, table);
    EXPECT_EQ(files::read_file(kept), table) << "LADDER_WRITE_EXPORTED=1 ablations_tests writes it";
  }
  results::Report plain = with_odd_texts();
  plain.studies[0].runs.pop_back();
  plain.studies[0].study.rungs.pop_back();
  EXPECT_EQ((rungs_csv(plain) + steps_csv(plain)).find("data_ms"), std::string::npos) << "other studies do without";
  EXPECT_EQ(rungs_csv(plain).find("batches"), std::string::npos);
}

TEST_F(Report, WithoutARunHasItsColumnsAllTheSame) {
  fs::remove_all(folder_ / "records");
  const Json document = report();
  EXPECT_EQ(document["studies"][0]["runs"].size() + document["studies"][0]["losses"].size(), 0U);
  EXPECT_EQ(std::ranges::count(steps_csv(typed(document)), '\n'), 1);
  EXPECT_EQ(std::ranges::count(rungs_csv(typed(document)), '\n'), 4);
  EXPECT_TRUE(benchmark_json(typed(document))["benchmarks"].empty());
  EXPECT_NE(benchmark_json(typed(document))["context"]["left_out"].get<std::string>().find("test/bf16: missing"),
            std::string::npos);
}

TEST_F(Report, AsBenchmarksHasRunsAndTheirAggregates) {
  plan_.workload.T = 10;
  const Json document = benchmark_json(typed(report()));
  const auto named = [&](const std::string& name) {
    for (const Json& entry : document["benchmarks"]) {
      if (entry["name"] == name) return entry;
    }
    throw std::runtime_error(name);
  };
  ASSERT_EQ(document["benchmarks"].size(), 3U * (3 + 4));
  const Json first = document["benchmarks"][7];
  EXPECT_EQ(first["name"], "test/bf16");
  EXPECT_EQ(first["repetitions"], 3);
  EXPECT_EQ(first["repetition_index"], 0);
  EXPECT_EQ(first["iterations"], 2);
  // Runs of 50, 55 and 60 ms: standard deviation 5.
  EXPECT_NEAR(named("test/bf16_mean")["real_time"].get<double>(), 55, 1e-9);
  EXPECT_NEAR(named("test/bf16_median")["real_time"].get<double>(), 55, 1e-9);
  EXPECT_NEAR(named("test/bf16_stddev")["real_time"].get<double>(), 5, 1e-9);
  EXPECT_NEAR(named("test/bf16_cv")["real_time"].get<double>(), 5.0 / 55, 1e-9);
  EXPECT_EQ(named("test/bf16_cv")["aggregate_unit"], "percentage");
  EXPECT_NEAR(named("test/bf16_median")["tokens_per_second"].get<double>(), 10 * 1000.0 / 55, 1e-9);
  EXPECT_NE(document["context"]["not_measured"].get<std::string>().find("cpu_time"), std::string::npos);
}

TEST_F(Report, AsBenchmarksHasNoNumberThatDoesNotCount) {
  write_losses(2, 0, {10.0, 20.0, 9.0});
  const Json document = benchmark_json(typed(report()));
  EXPECT_EQ(document["benchmarks"].size(), 2U * (3 + 4));
  EXPECT_EQ(document["context"]["left_out"], "test/fused_adamw: void");
  for (size_t rung = 0; rung < 3; ++rung) {
    for (int64_t repeat : {1, 2}) fs::remove(record_file(folder_, run_of(rung, repeat).id));
  }
  EXPECT_EQ(benchmark_json(typed(report()))["benchmarks"].size(), 2U);  // one run each has no spread to aggregate
}

}  // namespace report_document_test
