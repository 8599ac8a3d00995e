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

// The file itself, or model.safetensors in a folder as save_pretrained() leaves it, or of the best, else the latest
// checkpoint in a training's folder. Where a folder has none, what it has instead. Throws std::invalid_argument for a
// folder without weights.
std::filesystem::path weights_file(const std::filesystem::path& file_or_folder);

// Reads the shapes in the header of a safetensors file with Hugging Face's GPT-2 names (checkpoint.h), not the weights,
// and a config.json beside it. What that says must be this program's GPT-2, and fit the file and the preset `named`, if
// it is not empty. The number of heads is in no shape: it is "n_head" of config.json, else that of the preset with the
// file's layers and width. The name is a preset's, or "this model".
// Throws std::invalid_argument that names the file, and says what is missing or of another model.
StoredConfig config_of_weights(const std::filesystem::path& file, const std::string& named = "");

// Says that a model with so many rows leaves some of the file's out; empty: it does not.
std::string rows_left_out(const std::filesystem::path& file, const StoredConfig& stored, int64_t rows);

}  // namespace model
