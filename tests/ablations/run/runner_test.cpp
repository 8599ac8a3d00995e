// Which runs the runner makes a second time, with a program in the place of `ladder` that hands out planted records.
#include "ablations/gpt2/child.h"
#include "tests/study/planted_study.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

namespace runner_test {

namespace fs = std::filesystem;

using namespace ablations;
using files::Json;

class Runner : public planted::PlantedStudy {
 protected:
  const fs::path planted_ = folder_ / "planted";  // ID.json is the first attempt's, ID.second the second's

  void SetUp() override {
    PlantedStudy::SetUp();
    plan_.rungs.push_back(plan_.rungs.back());
    plan_.rungs.back().optimization = plan_.rungs.back().title = "vocab";
    plan_.runs = interleave(plan_.rungs, plan_.repeats, 1);
    plan_.workload.B = plan_.workload.accumulation = 1;
    plan_.workload.T = 10;
    fs::remove_all(folder_ / "records");
    fs::create_directories(planted_);
    for (const PlannedRun& run : plan_.runs) {
      files::write_json(planted_ / (run.id + ".json"), record_of(run));
      files::write_json(planted_ / (run.id + ".second"), record_of(run));
    }
    std::ofstream(planted_ / "ladder") << fmt::format(
        "#!/bin/sh\necho $5 >> '{0}/attempts'\ncp '{0}'/$5.json $7\ncp '{0}'/$5.second '{0}'/$5.json\n",
        planted_.string());
    fs::permissions(planted_ / "ladder", fs::perms::owner_all);
  }

  // With a proof of every field of its recipe.
  Json record_of(const PlannedRun& run, bool is_disturbed = false) const {
    Json record = good(run, 100);
    record["proofs"] = Json::array();
    for (const auto& item : record["recipe"].items()) {
      record["proofs"].push_back({{"field", item.key()}, {"passed", true}, {"expected", ""}, {"observed", ""}});
    }
    record["environment"]["threads"] = plan_.workload.threads;
    if (is_disturbed) record["flags"] = {"shared: planted"};
    return record;
  }

  void disturb(const PlannedRun& run, const std::string& attempt) const {
    Json record = record_of(run, true);
    if (attempt == ".second") record["duration_s"] = 2.0;  // no two runs take equally long
    files::write_json(planted_ / (run.id + attempt), record);
  }

  // What was made since the last call, in order.
  std::vector<std::string> made() {
    fs::remove(planted_ / "attempts");
    testing::internal::CaptureStderr();
    outcome_ = carry_out(plan_, folder_, children(plan_, folder_, {.ladder = planted_ / "ladder", .python = {}}), 0);
    said_ = testing::internal::GetCapturedStderr();
    std::vector<std::string> ids;
    std::ifstream file(planted_ / "attempts");
    for (std::string id; std::getline(file, id);) ids.push_back(id);
    return ids;
  }

  std::vector<std::string> planned() const {
    std::vector<std::string> ids;
    for (const PlannedRun& run : plan_.runs) ids.push_back(run.id);
    return ids;
  }

  Outcome outcome_;
  std::string said_;
};

TEST_F(Runner, ADisturbedRunIsMadeAgainAfterTheOthersOfItsRepeat) {
  disturb(plan_.runs[0], ".json");
  disturb(plan_.runs[5], ".json");
  disturb(plan_.runs[5], ".second");
  std::vector<std::string> expected = planned();
  expected.insert(expected.begin() + 8, plan_.runs[5].id);
  expected.insert(expected.begin() + 4, plan_.runs[0].id);
  EXPECT_EQ(made(), expected) << said_;
  EXPECT_FALSE(read_document<Record>(record_file(folder_, plan_.runs[0].id)).is_disturbed());
  EXPECT_TRUE(read_document<Record>(record_file(folder_, plan_.runs[5].id)).is_disturbed());
  for (const size_t run : {0, 5}) EXPECT_TRUE(fs::exists(flagged_file(record_file(folder_, plan_.runs[run].id))));
  EXPECT_EQ(said_.find("not made again"), std::string::npos) << said_;
  EXPECT_NE(said_.find("\n12/12 "), std::string::npos) << "runs that are made again are not counted: " << said_;
  EXPECT_NE(said_.find(", repeat 1, is run again because it was disturbed (shared: planted)\nagain "),
            std::string::npos);
  EXPECT_TRUE(made().empty()) << "once only";
}

TEST_F(Runner, WhereMostAreDisturbedNoneIsMadeAgainAndThatIsSaidOnce) {
  for (const PlannedRun& run : plan_.runs) disturb(run, ".json");
  EXPECT_EQ(made(), planned()) << said_;
  const size_t said = said_.find("most runs are disturbed, so disturbed runs are not made again");
  EXPECT_NE(said, std::string::npos) << said_;
  EXPECT_EQ(said_.find("not made again", said + 100), std::string::npos) << said_;
  EXPECT_EQ(outcome_.not_made, 0U);
  EXPECT_TRUE(made().empty()) << said_;
}

TEST_F(Runner, ARepeatDecidesByAllRunsUpToItsEnd) {
  for (const size_t run : {0, 1, 2, 6}) disturb(plan_.runs[run], ".json");  // three of four, then four of eight: half
  std::vector<std::string> expected = planned();
  expected.insert(expected.begin() + 8, plan_.runs[6].id);
  EXPECT_EQ(made(), expected) << said_;
  EXPECT_TRUE(made().empty()) << "what was given up stays so";
}

TEST_F(Runner, AnUnfinishedRepeatDecidesWhenItEnds) {
  for (const PlannedRun& run : plan_.runs) disturb(run, ".json");
  (void)made();
  for (const PlannedRun& run : plan_.runs) files::write_json(planted_ / (run.id + ".json"), record_of(run));
  fs::remove(record_file(folder_, plan_.runs[3].id));
  EXPECT_EQ(made(), std::vector<std::string>{plan_.runs[3].id}) << said_;  // three of its four were disturbed
  fs::remove(record_file(folder_, plan_.runs[2].id));
  const std::vector<std::string> with_the_waiting{plan_.runs[2].id, plan_.runs[0].id, plan_.runs[1].id};
  EXPECT_EQ(made(), with_the_waiting) << said_;  // two of four
}

// Evenly throttled: nothing in the run itself says so.
TEST_F(Runner, ARunAtAnotherClockThanTheOthersOfItsRungIsMadeAgain) {
  const auto plant = [&](const PlannedRun& run, const std::string& attempt, double mhz) {
    Json record = record_of(run);
    record["flags"] = Json::array();
    const Json range{{"min", mhz}, {"median", mhz}, {"max", mhz}};
    record["monitor"] = {{"samples", 3},         {"throttle", Json::array()},
                         {"energy_j", 1.0},      {"joules_per_token", 0.1},
                         {"other_processes", 0}, {"notes", Json::object()}};
    for (const char* name : {"sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c", "utilization_percent"}) {
      record["monitor"][name] = range;
    }
    files::write_json(planted_ / (run.id + attempt), record);
  };
  for (const PlannedRun& run : plan_.runs) {
    plant(run, ".json", 1785);
    plant(run, ".second", 1770);
  }
  const PlannedRun slow = run_of(1, 2);  // its rung's third
  plant(slow, ".json", 1600);
  std::vector<std::string> expected = planned();
  expected.push_back(slow.id);
  EXPECT_EQ(made(), expected) << said_;
  EXPECT_NE(said_.find("throttled: median SM clock of 1600 MHz, 1785 in the other runs"), std::string::npos) << said_;
  EXPECT_FALSE(read_document<Record>(record_file(folder_, slow.id)).is_disturbed());
  EXPECT_TRUE(read_document<Record>(flagged_file(record_file(folder_, slow.id))).is_disturbed());
}

}  // namespace runner_test
