// What may lie in a study's folder: records of other plans, files of the user's own, what killed writers left, links.
#include "ablations/run/study_folder.h"

#include "ablations/plan/make_plan.h"
#include "ablations/plan/shard.h"
#include "tests/refusal.h"
#include "tests/study/planted_study.h"

#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace study_folder_test {

using namespace planted;

class StudyFolder : public PlantedStudy {
 protected:
  static void put(const fs::path& file) { std::ofstream(file) << "{"; }

  void write_for(const PlannedRun& run, const Plan& plan) const {
    Json record = good(run, 100);
    record["plan"] = identity_of(plan);
    write(run, record);
  }

  std::string refusal(Unnamed unnamed) const {
    return refusal_of([&] { return check_records_are_of(plan_, folder_, unnamed), 0; });
  }
};

TEST_F(StudyFolder, BeginsEmpty) {
  const fs::path fresh = folder_ / "fresh";
  EXPECT_NO_THROW(check_may_begin(fresh));
  fs::create_directory(fresh);
  put(fresh / "plan.json.0123456789abcdef.tmp");  // its writer was killed
  EXPECT_NO_THROW(create_study(plan_, fresh));
  EXPECT_EQ(json_of(open_study(fresh)), json_of(plan_));
  EXPECT_FALSE(fs::exists(fresh / "plan.json.0123456789abcdef.tmp"));
  for (const char* mine : {"report.md", "records", "x.0123456789abcdef.tmp"}) {
    const fs::path used = folder_ / (std::string("with-") + mine);
    fs::create_directory(used);
    fs::create_directory(used / mine);
    EXPECT_THROW(create_study(plan_, used), std::invalid_argument) << mine;
    EXPECT_FALSE(fs::exists(used / "plan.json"));
  }
  put(folder_ / "file");
  EXPECT_THROW(check_may_begin(folder_ / "file"), std::invalid_argument);
}

TEST_F(StudyFolder, CountsRecordsOfItsOwnPlan) {
  EXPECT_EQ(refusal(Unnamed::counts), "accepted");  // from before records named their plan
  EXPECT_NE(refusal(Unnamed::refused).find("does not say for which plan"), std::string::npos);
  Plan shard = plan_;
  shard.shard = Shard{1, 2};
  for (const PlannedRun& run : plan_.runs) write_for(run, shard);
  EXPECT_EQ(refusal(Unnamed::refused), "accepted");
  put(record_file(folder_, plan_.runs[0].id));  // nobody's number, and made again
  EXPECT_EQ(refusal(Unnamed::refused), "accepted");

  Plan other = plan_;
  other.created = "2026-01-01T00:00:01Z";
  for (const fs::path& file : {record_file(folder_, plan_.runs[1].id), folder_ / "records" / "r9.json",
                               flagged_file(record_file(folder_, plan_.runs[0].id))}) {
    Json record = good(plan_.runs[1], 100);
    record["plan"] = identity_of(other);
    files::write_json(file, record);
    for (const Unnamed unnamed : {Unnamed::counts, Unnamed::refused}) {
      EXPECT_TRUE(refusal(unnamed).starts_with(file.string() + ": was made for another plan (test, SHA-256 "))
          << refusal(unnamed);
    }
    write_for(plan_.runs[1], plan_);
    if (file != record_file(folder_, plan_.runs[1].id)) fs::remove(file);
  }
}

TEST_F(StudyFolder, LosesOnlyWhatItsOwnWritersLeft) {
  const std::string run = "records/" + plan_.runs[0].id;
  const std::string number = ".0123456789abcdef.tmp";
  const std::vector<std::string> left{"study.json" + number,       "report.md" + number,
                                      run + ".json" + number,      run + ".child.tmp",
                                      run + ".child.tmp" + number, run + ".flagged.json" + number};
  const std::vector<std::string> others{"mine.tmp", "study.json.tmp", "notes.md" + number, "records/mine.tmp",
                                        "records/other.json" + number};
  for (const std::string& name : left) put(folder_ / name);
  for (const std::string& name : others) put(folder_ / name);
  remove_unfinished_files(plan_, folder_);
  for (const std::string& name : left) EXPECT_FALSE(fs::exists(folder_ / name)) << name;
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder_ / name)) << name;
}

TEST_F(StudyFolder, HasNoLinkedFolders) {
  EXPECT_NO_THROW(check_has_no_links(folder_));
  fs::create_directory(folder_ / "elsewhere");
  fs::create_directory_symlink("elsewhere", folder_ / "logs");
  EXPECT_THROW(check_has_no_links(folder_), std::invalid_argument);
  EXPECT_NO_THROW(check_has_no_links(folder_, {"charts"}));
}

}  // namespace study_folder_test
