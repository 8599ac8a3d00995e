#include "model/checkpoint.h"

#include "model/safetensors.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>

namespace model {

using at::Tensor;

namespace {

const std::string prefix = "transformer.";

bool is_conv1d(const std::string& name) {
  for (const char* layer : {"c_attn.weight", "c_proj.weight", "c_fc.weight"}) {
    if (name.ends_with(layer)) return true;
  }
  return false;
}

// Causal-mask buffers of older files and the tied head add no weights.
bool is_redundant(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name == "lm_head.weight";
}

// GPT-2's head is its token embedding: a file in which they differ belongs to another model.
void check_tied(const std::map<std::string, Tensor>& tensors, const std::filesystem::path& file) {
  const auto head = tensors.find("lm_head.weight"), embedding = tensors.find("wte.weight");
  if (head == tensors.end() || embedding == tensors.end()) return;
  if (head->second.scalar_type() == embedding->second.scalar_type() && at::equal(head->second, embedding->second))
    return;
  throw std::invalid_argument(
      fmt::format("{}: \"lm_head.weight\" is not \"wte.weight\"; GPT-2 has one tensor for both", file.string()));
}

}  // namespace

std::string own_name(const std::string& stored) {
  for (const char* before : {"transformer.", "module.", "_orig_mod.", "model."}) {
    if (stored.starts_with(before)) return own_name(stored.substr(std::string_view(before).size()));
  }
  return stored;
}

void load_weights(GPT2& model, const std::filesystem::path& file) {
  std::map<std::string, Tensor> tensors = under_own_names(read_safetensors(file), file);
  check_tied(tensors, file);
  const at::NoGradGuard no_grad;
  for (const Parameter& parameter : model.parameters()) {
    const auto found = tensors.find(parameter.name);
    if (found == tensors.end()) {
      throw std::invalid_argument(fmt::format("{}: tensor \"{}\" is missing", file.string(), parameter.name));
    }
    if (!at::isFloatingType(found->second.scalar_type())) {
      throw std::invalid_argument(fmt::format("{}: tensor \"{}\" must hold floating point, got {}", file.string(),
                                              parameter.name, at::toString(found->second.scalar_type())));
    }
    Tensor source = found->second;
    if (is_conv1d(parameter.name) && source.dim() == 2) source = source.t();
    const Tensor weight = whole_weight(parameter);
    Tensor target = weight;
    if (parameter.name == "wte.weight" && source.dim() == 2) {
      const int64_t rows = std::min(std::max(source.size(0), model.config().vocabulary), target.size(0));
      target = target.narrow(0, 0, rows);
      source = source.narrow(0, 0, std::min(source.size(0), rows));
    }
    if (source.sizes() != target.sizes()) {
      const Tensor needed = is_conv1d(parameter.name) ? target.t() : target;
      throw std::invalid_argument(fmt::format("{}: tensor \"{}\" has shape ({}); {} needs ({})", file.string(),
                                              parameter.name, fmt::join(found->second.sizes(), ", "),
                                              model.config().name, fmt::join(needed.sizes(), ", ")));
    }
    target.copy_(source);
    if (parameter.remainder.defined()) split_weight(parameter, weight);
    tensors.erase(found);
  }
  for (const auto& [name, tensor] : tensors) {
    if (!is_redundant(name)) {
      throw std::invalid_argument(
          fmt::format("{}: tensor \"{}\" is not a weight of {}", file.string(), name, model.config().name));
    }
  }
}

std::map<std::string, Tensor> hugging_face_layout(const GPT2& model, bool gradients) {
  std::map<std::string, Tensor> tensors;
  for (const Parameter& parameter : model.parameters()) {
    Tensor tensor = (gradients ? parameter.tensor.grad() : whole_weight(parameter)).detach();
    if (parameter.name == "wte.weight") tensor = tensor.narrow(0, 0, model.config().vocabulary);
    tensors[prefix + parameter.name] = is_conv1d(parameter.name) ? tensor.t() : tensor;
  }
  return tensors;
}

std::string hugging_face_config(const Config& config) {
  const int64_t end_of_text = config.vocabulary - 1;
  const nlohmann::json fields{{"model_type", "gpt2"},
                              {"architectures", nlohmann::json::array({"GPT2LMHeadModel"})},
                              {"n_layer", config.n_layer},
                              {"n_head", config.n_head},
                              {"n_embd", config.n_embd},
                              {"n_positions", config.n_positions},
                              {"vocab_size", config.vocabulary},
                              {"activation_function", "gelu_new"},
                              {"layer_norm_epsilon", Config::layer_norm_eps},
                              {"initializer_range", Config::init_std},
                              {"embd_pdrop", 0.0},
                              {"attn_pdrop", 0.0},
                              {"resid_pdrop", 0.0},
                              {"tie_word_embeddings", true},
                              {"bos_token_id", end_of_text},
                              {"eos_token_id", end_of_text}};
  return fields.dump(1) + "\n";
}

void save_weights(const GPT2& model, const std::filesystem::path& file) {
  write_safetensors(file, hugging_face_layout(model), {{"format", "pt"}});
}

}  // namespace model
