// What model the weights in a file are of.
#pragma once

#include "model/config.h"

#include <filesystem>
#include <string>

namespace model {

// Reads the shapes in the header of a safetensors file with Hugging Face's GPT-2 names (checkpoint.h), not the weights.
// The number of heads is in no shape. It is, in this order,
// - that of the preset `named`, if it is not empty; the preset must have the file's layers and width;
// - "n_head" of a config.json beside the file, which must describe a GPT-2 of the file's layers and width;
// - that of the preset with the file's layers and width.
// Throws std::invalid_argument that names the file, and says what is missing or of another model.
Config config_of_weights(const std::filesystem::path& file, const std::string& named = "");

}  // namespace model
