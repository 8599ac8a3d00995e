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
#pragma once

#include "results/training.h"

#include <filesystem>

namespace ablations {

// Throws std::invalid_argument where there is anything in the folder.
void check_may_begin_training(const std::filesystem::path& folder);

// Writes the training.json of a folder that nobody else begins a training in (harness::FolderLock). Throws as the
// check, std::system_error where it cannot be written.
void create_training(const Training& training, const std::filesystem::path& folder);

inline constexpr const char* training_file = "training.json";

bool holds_training(const std::filesystem::path& folder);

// Throws std::invalid_argument where the folder holds no training.
Training open_training(const std::filesystem::path& folder);

}  // namespace ablations
