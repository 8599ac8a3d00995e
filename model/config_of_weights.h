// What model the weights in a file are of.
#pragma once

#include "model/config.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace model {

struct StoredConfig : Config {
  int64_t vocabulary_rows = 0;  // of the token embedding; those beyond the vocabulary are padding
  double dropout = 0;           // the most that config.json asks for in a training
};

// The file itself, or model.safetensors in a folder as save_pretrained() leaves it. In a training's folder it is the
// best checkpoint's, else the latest's. Where a folder has none, what it has instead. Throws std::invalid_argument for
// a folder without weights.
std::filesystem::path weights_file(const std::filesystem::path& file_or_folder);

// Reads the shapes in the header of a safetensors file with Hugging Face's GPT-2 names (checkpoint.h), and a
// config.json beside it. Weights are not read. The config.json must be of this program's GPT-2, and fit the file and
// the preset `named`, if it is not empty. No shape has the number of heads. It is "n_head" of config.json, else the one
// of the preset with the file's layers and width. The name is a preset's, or "this model".
// Throws std::invalid_argument that names the file, and says what is missing or of another model.
StoredConfig config_of_weights(const std::filesystem::path& file, const std::string& named = "");

// Says that a model with `rows` rows leaves some of the file's out. Empty: it does not.
std::string rows_left_out(const std::filesystem::path& file, const StoredConfig& stored, int64_t rows);

}  // namespace model
