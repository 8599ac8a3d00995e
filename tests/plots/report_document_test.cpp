// The report document from planted records, and what becomes of it in CSV and in Google Benchmark's form.
#include "plots/report_document.h"

#include "ablations/profile/profile_counters.h"
#include "plots/export.h"
#include "study/analysis.h"
#include "study/guard.h"
#include "tests/study/planted_study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <tuple>

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

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
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
  Json bad = document;
  bad["studies"][0]["losses"][0]["guarded_by"] = 7;
  EXPECT_NE(refusal([&] { (void)typed(bad); }).find("[studies][0][losses]: \"guarded_by\" is 7"), std::string::npos);
  bad = document;
  bad["studies"][0]["study"]["schema_version"] = 2;
  EXPECT_NE(refusal([&] { (void)typed(bad); }).find("\"schema_version\" is 2"), std::string::npos);
  bad = document;
  bad["gates"].push_back({{"kind", "study"}});
  EXPECT_NE(refusal([&] { (void)typed(bad); }).find("r: field [gates][0]"), std::string::npos);
}

// Lines of cells. Only as much of RFC 4180 as it takes to read back what was written.
std::vector<std::vector<std::string>> cells(const std::string& csv) {
  std::vector<std::vector<std::string>> rows{{""}};
  bool quoted = false;
  for (size_t i = 0; i < csv.size(); ++i) {
    const char c = csv[i];
    if (quoted && c == '"' && csv[i + 1] == '"') {
      rows.back().back() += csv[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      rows.back().emplace_back();
    } else if (!quoted && c == '\r') {
      rows.emplace_back(1);
      ++i;
    } else {
      rows.back().back() += c;
    }
  }
  rows.pop_back();
  return rows;
}

std::string cell(const std::vector<std::vector<std::string>>& rows, size_t row, const std::string& column) {
  const auto at = std::ranges::find(rows.at(0), column) - rows.at(0).begin();
  return rows.at(row).at(static_cast<size_t>(at));
}

TEST_F(Report, RungsAsCsvAreTheStudysNumbers) {
  const Json document = report();
  const auto rows = cells(rungs_csv(typed(document)));
  ASSERT_EQ(rows.size(), 4U);
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  EXPECT_EQ(cell(rows, 1, "ms_per_step_median"),
            document["studies"][0]["study"]["rungs"][0]["ms_per_step"]["median"].dump());
  EXPECT_NEAR(std::stod(cell(rows, 1, "ms_per_step_median")), 110, 1e-9);
  const std::vector<std::tuple<size_t, const char*, const char*>> texts{
      {1, "optimization", ""},        {1, "speedup_previous_ratio", ""},
      {2, "recipe_autocast", "bf16"}, {2, "optimization", "bf16"},
      {2, "label", "bf16 autocast"},  {2, "title", "bf16 autocast"},
      {2, "guard_passed", "true"},    {2, "proofs_passed", "1"},
      {2, "workload_batch", "1"},     {2, "workload_context", "1"},
      {3, "study_id", "test"}};
  for (const auto& [row, column, text] : texts) EXPECT_EQ(cell(rows, row, column), text) << column;
  EXPECT_EQ(std::stod(cell(rows, 3, "speedup_first_lo")),
            document["studies"][0]["study"]["rungs"][2]["speedup_first"]["lo"].get<double>());  // every digit
}

TEST_F(Report, TextsInCsvStayTexts) {
  Json document = report();
  Json& rungs = document["studies"][0]["study"]["rungs"];
  const std::string title = "a, \"b\"\nc<b>|";
  for (const auto& [given, shown] :
       std::vector<std::pair<std::string, std::string>>{{title, title},
                                                        {"=1+1", " =1+1"},
                                                        {"@x", " @x"},
                                                        {"-1", " -1"},
                                                        {"\t=1", " =1"},
                                                        {"\x1b[31m", "\\x1b[31m"},
                                                        {std::string(10000, 'x'), std::string(10000, 'x')},
                                                        {"\xc3\xa4", "\xc3\xa4"}}) {
    rungs[1]["title"] = given;
    EXPECT_EQ(cell(cells(rungs_csv(typed(document))), 2, "title"), shown);
  }
  rungs[1]["title"] = title;
  EXPECT_NE(rungs_csv(typed(document)).find("\"a, \"\"b\"\"\nc<b>|\""), std::string::npos);
}

TEST_F(Report, StepsAsCsvAreAllSteps) {
  write_losses(1, 0, {10.0, nullptr, 9.0});
  const auto rows = cells(steps_csv(typed(report())));
  ASSERT_EQ(rows.size(), 1U + 27U);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"study", "run", "rung", "label", "repeat", "position", "step", "warmup",
                                               "ms", "loss", "disturbed"}));
  size_t without_loss = 0, warmup = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    without_loss += cell(rows, i, "loss").empty() ? 1 : 0;
    warmup += cell(rows, i, "warmup") == "1" ? 1 : 0;
    EXPECT_EQ(cell(rows, i, "warmup") == "1", cell(rows, i, "step") == "1");
  }
  EXPECT_EQ(without_loss, 1U);
  EXPECT_EQ(warmup, 9U);
}

TEST_F(Report, AboutBatchesHasColumnsOfThem) {
  for (const auto& csv : {rungs_csv(typed(report())), steps_csv(typed(report()))}) {
    EXPECT_EQ(csv.find("data_ms") + csv.find("batches_ms"), 2 * std::string::npos) << "other studies do without";
  }
  make_about_batches();
  const Json document = report();
  const auto rungs = cells(rungs_csv(typed(document))), steps = cells(steps_csv(typed(document)));
  for (const auto& row : rungs) EXPECT_EQ(row.size(), rungs[0].size());
  EXPECT_NEAR(std::stod(cell(rungs, 2, "batches_ms_median")), 10.0 / 3, 1e-9);
  EXPECT_EQ(cell(rungs, 2, "batches_bytes_read"), "34.0");
  EXPECT_EQ(cell(rungs, 2, "batches_cached_before"), "1000");
  EXPECT_EQ(cell(rungs, 2, "page_faults_per_step"), "1.0");
  EXPECT_EQ(steps.size(), 1U + 27U);
  for (size_t i = 1; i < steps.size(); ++i) {
    EXPECT_EQ(cell(steps, i, "data_ms") == "500.0", cell(steps, i, "warmup") == "1") << i;
  }
}

TEST_F(Report, WithoutARunHasItsColumnsAllTheSame) {
  fs::remove_all(folder_ / "records");
  const Json document = report();
  EXPECT_EQ(document["studies"][0]["runs"].size() + document["studies"][0]["losses"].size(), 0U);
  EXPECT_EQ(cells(steps_csv(typed(document))).size(), 1U);
  EXPECT_EQ(cells(rungs_csv(typed(document))).size(), 4U);
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
