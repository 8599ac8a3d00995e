// Weights in and out as safetensors under Hugging Face's GPT-2 names.
//
// Their Conv1D layers hold (in, out) where torch's linear layers hold (out, in). So c_attn, c_proj and c_fc are
// transposed on the way. Padding rows of the vocabulary are never written. A file's padding rows are read as far as the
// model has them, too.
#pragma once

#include "model/gpt2.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace model {

// The parameter's name. Stored names may begin with "transformer." and with what wrappers put there ("module.").
std::string own_name(const std::string& stored);

// What a file holds, by the parameters' names. The tied embedding may be there as lm_head.weight alone. Throws
// std::invalid_argument for two tensors of the same name.
template <class T>
std::map<std::string, T> under_own_names(std::map<std::string, T> stored, const std::filesystem::path& file) {
  std::map<std::string, T> own;
  for (auto& [name, value] : stored) {
    if (own.emplace(own_name(name), std::move(value)).second) continue;
    throw std::invalid_argument(
        fmt::format("{}: tensor \"{}\" is there twice, with different names before it", file.string(), own_name(name)));
  }
  if (own.contains("lm_head.weight") && !own.contains("wte.weight")) {
    auto head = own.extract("lm_head.weight");
    head.key() = "wte.weight";
    own.insert(std::move(head));
  }
  return own;
}

// Reads float16, bfloat16, float32 and float64 tensors with the names above. Accepts the buffers and the tied
// lm_head.weight that some files carry. Throws std::invalid_argument for a tensor that is missing, unknown, or of
// another shape or type than the model's. The message names the file and the tensor.
void load_weights(GPT2& model, const std::filesystem::path& file);

// float32, with the leading "transformer.". Throws std::system_error where the file cannot be written.
void save_weights(const GPT2& model, const std::filesystem::path& file);

// The config.json that stands beside such a file for Hugging Face's from_pretrained().
std::string hugging_face_config(const Config& config);

// What save_weights writes, for any tensors that belong to the parameters (their gradients, for instance).
std::map<std::string, at::Tensor> hugging_face_layout(const GPT2& model, bool gradients = false);

}  // namespace model
