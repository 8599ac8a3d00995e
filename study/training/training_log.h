// A training's log. In log.jsonl each step is a JSON object (results/training.h). In metrics.csv its figures are a
// table (RFC 4180; an empty cell: no value). Both grow while the training runs.
#pragma once

#include "files/files.h"
#include "results/training.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace study {

// Its files.
inline constexpr const char *log_file = "log.jsonl", *table_file = "metrics.csv";

class TrainingLog {
 public:
  // In a training's folder. `before`: the steps that were taken already; both files begin with these and no others.
  // Throws std::system_error, as add() and sync() do, where a file cannot be written.
  TrainingLog(const std::filesystem::path& folder, const std::vector<TrainingStep>& before);

  void add(const TrainingStep& step);
  // Returns when all of it is on the disk.
  void sync();

 private:
  files::GrowingFile lines_, table_;
};

// The steps of the log in a training's folder, up to step `last`; none where there is no log. A last line without its
// end is left out: its writer was killed. Throws std::invalid_argument that names file and line.
std::vector<TrainingStep> logged_steps(const std::filesystem::path& folder, int64_t last = INT64_MAX);

// A step as a terminal shows it: "step    12/500  loss 9.8231  lr 6.00e-04  norm 2.31  ...".
std::string step_line(const TrainingStep& step, int64_t steps, double seconds_left);

// The files of a training's folder:
//
//   FOLDER/training.json    what is trained, on what and how (results/training.h); never changed
//   FOLDER/log.jsonl        a line for each step (training_log.h)
//   FOLDER/metrics.csv      the same as a table
//   FOLDER/checkpoints/step-00000100/
//     model.safetensors      the weights under GPT-2's names
//     config.json            for Hugging Face's from_pretrained()
//     optimizer.safetensors  what else is needed to resume to the bit (Trainer::state)
//     checkpoint.json        after how many steps, and of which training
//   FOLDER/latest, FOLDER/best   links to the last checkpoint, and to the one of the lowest validation loss
//
// A checkpoint is there whole or not at all, whatever ends the program. A folder may have been prepared by a stranger:
// nothing is written through a link, and a training begins in an empty folder.

// Throws std::invalid_argument where there is anything in the folder.
void check_may_begin_training(const std::filesystem::path& folder);

// Writes the training.json of a folder that nobody else begins a training in (harness::FolderLock). Throws as the
// check, std::system_error where it cannot be written.
void create_training(const Training& training, const std::filesystem::path& folder);

inline constexpr const char* training_file = "training.json";

bool holds_training(const std::filesystem::path& folder);

// Throws std::invalid_argument where the folder holds no training.
Training open_training(const std::filesystem::path& folder);

}  // namespace study
