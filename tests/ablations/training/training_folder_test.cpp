// A training's folder: what begins in it, checkpoints that are whole, which of them stay, and which are refused.
#include "ablations/techniques/operations.h"
#include "ablations/training/checkpoints.h"
#include "ablations/training/training_loop.h"
#include "files/files.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "study/training/training_log.h"
#include "tests/ablations/techniques/numbers.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

namespace training_folder_test {

using namespace study;
namespace fs = std::filesystem;

Training training_of(uint64_t seed = 1) {
  Training training{.created = "2026-11-26T10:00:00Z", .recipe_from = "--recipe"};
  training.settings.model = "tiny";
  training.settings.T = 8;
  training.settings.positions = 64;
  training.settings.steps = 100;
  training.settings.seed = seed;
  training.settings.data = {.source = "made up", .sha256 = "ab", .tokens = 500};
  training.parameters = 1;
  training.files = {.data = "made up", .vocabulary = ""};
  return training;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

class Folder : public testing::Test {
 protected:
  Folder() { create_training(training_of(), folder_); }

  void save(Checkpoints& checkpoints, int64_t step, std::optional<double> validation_loss) {
    checkpoints.save(trainer_,
                     {.step = step, .loss = 5, .validation_loss = validation_loss, .training = training_of()});
  }

  [[nodiscard]] fs::path link(const char* name) const { return fs::read_symlink(folder_ / name); }

  const files::TemporaryFolder temporary_{"training-test"};
  const fs::path folder_ = temporary_.path();
  const model::TokenStream text_ = numbers::text_that_repeats(500);
  const model::Recipe recipe_{.vocabulary_rows = 50304};
  model::Trainer trainer_{model::preset("tiny"), recipe_, trainer_options(training_of().settings), text_,
                          model::step_parts()};
};

TEST_F(Folder, BeginsOnceAndInAnEmptyOne) {
  EXPECT_EQ(json_of(open_training(folder_)), json_of(training_of()));
  const files::TemporaryFolder other("training-test");
  const auto begin = [](const fs::path& folder) {
    return refusal_of([&] { return check_may_begin_training(folder), create_training(training_of(), folder), 0; });
  };
  EXPECT_TRUE(has(begin(folder_), "holds a training already; --resume continues it"));
  EXPECT_EQ(refusal_of([&] { return open_training(other.path()); }),
            other.path().string() + ": holds no training (no training.json)");
  std::ofstream(other.path() / "mine") << "mine";
  EXPECT_TRUE(has(begin(other.path()), "is not empty (mine is in it)"));
  fs::remove(other.path() / "mine");
  EXPECT_EQ(begin(other.path()), "accepted");
}

TEST_F(Folder, KeepsTheLastCheckpointsAndTheBest) {
  Checkpoints checkpoints(folder_, 2);
  EXPECT_FALSE(checkpoints.latest());
  EXPECT_FALSE(latest_checkpoint(checkpoints, training_of()));
  const fs::path all = folder_ / "checkpoints";
  save(checkpoints, 10, 4.0);
  save(checkpoints, 20, std::nullopt);
  save(checkpoints, 30, 3.0);
  EXPECT_EQ(names_in(all), (std::vector<std::string>{"step-00000020", "step-00000030"}));
  EXPECT_EQ(link("best"), "checkpoints/step-00000030");
  save(checkpoints, 40, 3.5);
  save(checkpoints, 50, std::nullopt);
  EXPECT_EQ(names_in(all), (std::vector<std::string>{"step-00000030", "step-00000040", "step-00000050"}));
  EXPECT_EQ(link("best"), "checkpoints/step-00000030");
  EXPECT_EQ(link("latest"), "checkpoints/step-00000050");
  EXPECT_EQ(names_in(all / "step-00000030"),
            (std::vector<std::string>{"checkpoint.json", "config.json", "model.safetensors", "optimizer.safetensors"}));
  // Another process finds the same.
  Checkpoints again(folder_, 2);
  EXPECT_EQ(again.latest()->step, 50);
  EXPECT_EQ(again.best()->step, 30);
  EXPECT_EQ(latest_checkpoint(again, training_of())->step, 50);
  save(again, 60, 2.5);
  EXPECT_EQ(names_in(all), (std::vector<std::string>{"step-00000050", "step-00000060"}));
  EXPECT_EQ(link("best"), "checkpoints/step-00000060");
}

TEST_F(Folder, HasWhatATrainerGoesOnFrom) {
  for (int i = 0; i < 3; ++i) trainer_.step();
  Checkpoints checkpoints(folder_, 1);
  save(checkpoints, 3, std::nullopt);
  model::Trainer second(model::preset("tiny"), recipe_, trainer_options(training_of().settings, 3), text_,
                        model::step_parts());
  load_checkpoint(second, checkpoints.place_of(*checkpoints.latest()));
  for (int i = 0; i < 3; ++i) {
    trainer_.step();
    second.step();
    EXPECT_EQ(second.values(3 + i).front().loss, trainer_.values(3 + i).front().loss) << i;
  }
}

TEST_F(Folder, RemovesWhatKilledProgramsLeft) {
  const fs::path all = files::make_folder_in(folder_, "checkpoints");
  const std::string ending = ".0123456789abcdef.tmp";
  fs::create_directory(all / ("step-00000010" + ending));
  std::ofstream(all / ("step-00000010" + ending) / "model.safetensors") << "half";
  fs::create_symlink("checkpoints/step-00000010", folder_ / ("latest" + ending));
  std::ofstream(folder_ / ("log.jsonl" + ending)) << "half";
  std::ofstream(folder_ / ("mine" + ending)) << "mine";
  fs::create_directory(all / "mine");
  const std::vector<std::string> before = names_in(all);
  EXPECT_FALSE(Checkpoints(folder_, 2, Checkpoints::Access::reads).latest());
  EXPECT_EQ(names_in(all), before) << "their writer may be at work";
  const Checkpoints checkpoints(folder_, 2);
  EXPECT_FALSE(checkpoints.latest());
  EXPECT_EQ(names_in(all), std::vector<std::string>{"mine"});
  EXPECT_EQ(names_in(folder_), (std::vector<std::string>{"checkpoints", "mine" + ending, "training.json"}));
}

// The state has twice the bytes of the weights: of a checkpoint that does not fit, one file may be complete.
class FilesOfAtMost {
 public:
  explicit FilesOfAtMost(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FilesOfAtMost() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FilesOfAtMost(const FilesOfAtMost&) = delete;  // one limit
  FilesOfAtMost& operator=(const FilesOfAtMost&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_F(Folder, LosesNothingWhereACheckpointCannotBeWritten) {
  Checkpoints checkpoints(folder_, 1);
  save(checkpoints, 10, 4.0);
  const auto before = files::files_below(folder_, [](const fs::path&) { return true; });
  for (const rlim_t bytes : {1 << 10, 8 << 20}) {
    const FilesOfAtMost limit(bytes);
    EXPECT_THROW(save(checkpoints, 20, 3.0), std::system_error) << bytes;
    EXPECT_EQ(files::files_below(folder_, [](const fs::path&) { return true; }), before) << bytes;
    EXPECT_EQ(checkpoints.latest()->step, 10);
    EXPECT_EQ(link("latest"), "checkpoints/step-00000010");
  }
  load_checkpoint(trainer_, checkpoints.place_of(*checkpoints.latest()));
  save(checkpoints, 20, 3.0);  // once there is room
  EXPECT_EQ(link("best"), "checkpoints/step-00000020");
}

TEST_F(Folder, RefusesOthersCheckpoints) {
  Checkpoints checkpoints(folder_, 2);
  save(checkpoints, 10, 4.0);
  const fs::path checkpoint = checkpoints.place_of(*checkpoints.latest());
  Training other = training_of(2);
  other.settings.recipe["autocast"] = "bf16";
  EXPECT_EQ(refusal_of([&] { return latest_checkpoint(checkpoints, other); }),
            (checkpoint / "checkpoint.json").string() +
                ": is not of the training that training.json describes: recipe/autocast: off against bf16; "
                "seed: 1 against 2");

  // Truncated, as by a copy that was cut off. checkpoint_test.cpp and trainer_test.cpp have weights and states of
  // others.
  fs::resize_file(checkpoint / "optimizer.safetensors", fs::file_size(checkpoint / "optimizer.safetensors") - 1);
  EXPECT_TRUE(has(refusal_of([&] { return load_checkpoint(trainer_, checkpoint), 0; }), "optimizer.safetensors"));
  const auto reads = [&] { return Checkpoints(folder_, 2), 0; };
  std::ofstream(checkpoint / "checkpoint.json") << "{}";
  EXPECT_TRUE(has(refusal_of(reads), "checkpoint.json: not a checkpoint"));
  fs::rename(checkpoint, folder_ / "moved");
  fs::create_directory_symlink(folder_ / "moved", checkpoint);
  EXPECT_TRUE(has(refusal_of(reads), "is a symbolic link"));
}

TEST_F(Folder, StaysWithoutLinksWhereSomethingElseHasTheirNames) {
  fs::create_directory(folder_ / "latest");
  Checkpoints checkpoints(folder_, 1);
  testing::internal::CaptureStderr();
  save(checkpoints, 10, 4.0);
  save(checkpoints, 20, 3.0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(said.starts_with("note: no links to the latest and the best checkpoint: ")) << said;
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  EXPECT_EQ(names_in(folder_ / "checkpoints"), std::vector<std::string>{"step-00000020"});
  EXPECT_TRUE(fs::is_empty(folder_ / "latest"));
}

}  // namespace training_folder_test
