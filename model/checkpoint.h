// Weights in and out as safetensors under Hugging Face's GPT-2 names.
//
// Their Conv1D layers hold (in, out) where torch's linear layers hold (out, in): c_attn, c_proj and c_fc are transposed
// on the way. Padding rows of the vocabulary are never written, and are left as they were when reading.
#pragma once

#include "model/gpt2.h"

#include <filesystem>
#include <map>
#include <string>

namespace model {

// Names with or without the leading "transformer." are accepted, and so are the buffers and the tied lm_head.weight
// that some files carry. Throws std::invalid_argument naming the file and the tensor that is missing, unknown, or of
// another shape or type than the model's (float16, bfloat16, float32 and float64 are read).
void load_weights(GPT2& model, const std::filesystem::path& file);

// float32, with the leading "transformer.". Throws std::system_error where the file cannot be written.
void save_weights(const GPT2& model, const std::filesystem::path& file);

// The config.json that stands beside such a file for Hugging Face's from_pretrained().
std::string hugging_face_config(const Config& config);

// What save_weights writes, for any tensors that belong to the parameters (their gradients, for instance).
std::map<std::string, at::Tensor> hugging_face_layout(const GPT2& model, bool gradients = false);

}  // namespace model
