// Weights in and out, under Hugging Face's names; and what a file of them is.
#include "model/checkpoint.h"

#include "files/files.h"
#include "model/config_of_weights.h"
#include "model/gpt2.h"
#include "model/safetensors.h"
#include "tests/model/parameter.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace checkpoint_test {

using at::Tensor;
using namespace model;

class Checkpoint : public testing::Test {
 protected:
  const files::TemporaryFolder temporary_{"checkpoint-test"};
  const std::filesystem::path file_ = temporary_.path() / "weights.safetensors";

  std::string refusal(GPT2& gpt2) const {
    return refusal_of([&] { load_weights(gpt2, file_); });
  }
};

TEST_F(Checkpoint, RoundTripsAndLeavesPaddingOut) {
  const GPT2 source(preset("tiny"), 50304, 1, at::kCPU);
  save_weights(source, file_);
  const auto tensors = read_safetensors(file_);
  EXPECT_EQ(tensors.at("transformer.wte.weight").size(0), 50257);
  EXPECT_EQ(tensors.at("transformer.h.0.mlp.c_fc.weight").sizes(), (at::IntArrayRef{32, 128}));  // Conv1D: (in, out)
  GPT2 target(preset("tiny"), 50304, 2, at::kCPU);
  const Tensor padding = parameter(target, "wte.weight").narrow(0, 50257, 47).clone();
  load_weights(target, file_);
  for (const Parameter& p : source.parameters()) {
    const int64_t rows = std::min<int64_t>(p.tensor.size(0), 50257);
    EXPECT_TRUE(at::equal(p.tensor.narrow(0, 0, rows), parameter(target, p.name).narrow(0, 0, rows))) << p.name;
  }
  EXPECT_TRUE(at::equal(parameter(target, "wte.weight").narrow(0, 50257, 47), padding));
}

// The file has all of each weight, and a model with split weights takes all of it.
TEST_F(Checkpoint, SplitWeightsRoundTrip) {
  const GPT2 source(preset("tiny"), 50304, 1, at::kCPU);
  save_weights(source, file_);
  GPT2 target(preset("tiny"), 50304, 2, at::kCPU);
  target.split_weights(/*biases=*/true);
  load_weights(target, file_);
  const auto whole = hugging_face_layout(target);
  for (const auto& [name, tensor] : hugging_face_layout(source)) EXPECT_TRUE(at::equal(whole.at(name), tensor)) << name;
  EXPECT_EQ(parameter(target, "wte.weight").scalar_type(), at::kBFloat16);
  EXPECT_EQ(parameter(target, "h.1.mlp.c_fc.bias").scalar_type(), at::kBFloat16);
  for (const char* name : {"wpe.weight", "h.1.ln_2.bias", "ln_f.weight"})
    EXPECT_EQ(parameter(target, name).scalar_type(), at::kFloat) << name;
  EXPECT_TRUE(at::allclose(parameter(target, "wte.weight").narrow(0, 0, 50257).to(at::kFloat),
                           parameter(source, "wte.weight").narrow(0, 0, 50257), 1.0 / 256, 0));
  save_weights(target, file_);
  for (const auto& [name, tensor] : read_safetensors(file_)) EXPECT_TRUE(at::equal(whole.at(name), tensor)) << name;
}

// As transformers and torch.compile leave them: other names before, the tied tensor under its other name, more rows.
TEST_F(Checkpoint, ReadsOtherNamesAndPaddedTables) {
  const GPT2 source(preset("tiny"), 50304, 1, at::kCPU);
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, tensor] : hugging_face_layout(source)) tensors["model._orig_mod." + name] = tensor;
  const std::string wte = "model._orig_mod.transformer.wte.weight";
  tensors["_orig_mod.lm_head.weight"] = parameter(source, "wte.weight");
  tensors.erase(wte);
  write_safetensors(file_, tensors);
  const StoredConfig stored = config_of_weights(file_);
  EXPECT_EQ(stored.name, "tiny");
  EXPECT_EQ(stored.vocabulary_rows, 50304);
  for (const int64_t rows : {50257, 50304, 50432}) {
    GPT2 target(preset("tiny"), rows, 2, at::kCPU);
    const Tensor before = parameter(target, "wte.weight").clone();
    load_weights(target, file_);
    const int64_t read = std::min<int64_t>(rows, 50304);
    for (const Parameter& p : source.parameters()) {
      const int64_t some = std::min<int64_t>(p.tensor.size(0), read);
      EXPECT_TRUE(at::equal(p.tensor.narrow(0, 0, some), parameter(target, p.name).narrow(0, 0, some))) << p.name;
    }
    EXPECT_TRUE(
        at::equal(parameter(target, "wte.weight").narrow(0, read, rows - read), before.narrow(0, read, rows - read)));
    EXPECT_EQ(rows_left_out(file_, stored, rows).empty(), rows >= 50304);
  }
}

TEST_F(Checkpoint, NamesWhatDoesNotFit) {
  GPT2 gpt2(preset("tiny"), 50257, 1, at::kCPU);
  const auto tensors = hugging_face_layout(gpt2);
  const Tensor wte = tensors.at("transformer.wte.weight");
  const std::tuple<const char*, Tensor, std::string> others[] = {
      {"transformer.ln_f.bias", Tensor(), "\"ln_f.bias\" is missing"},
      {"transformer.ln_f.bias", at::zeros({33}), "has shape (33); tiny needs (32)"},
      {"transformer.h.0.attn.c_attn.weight", at::zeros({96, 32}), "has shape (96, 32); tiny needs (32, 96)"},
      {"transformer.ln_f.bias", at::zeros({32}, at::kLong), "must hold floating point"},
      {"transformer.h.9.ln_1.bias", at::zeros({32}), "is not a weight of tiny"},
      {"transformer.h.0.attn.bias", at::ones({1, 1, 64, 64}, at::kBool), "accepted"},  // a buffer
      {"lm_head.weight", wte, "accepted"},
      {"lm_head.weight", wte * 2, "\"lm_head.weight\" is not \"wte.weight\""},
      {"ln_f.bias", at::ones({32}), "\"ln_f.bias\" is there twice"}};
  for (const auto& [name, tensor, why] : others) {
    auto changed = tensors;
    changed[name] = tensor;
    if (!tensor.defined()) changed.erase(name);
    write_safetensors(file_, changed);
    EXPECT_NE(refusal(gpt2).find(why), std::string::npos) << name << ": " << refusal(gpt2);
  }
}

// ---- The sizes of a model by its file, and every reason why they cannot be told

using Tensors = std::map<std::string, Tensor>;

class ConfigOfWeights : public Checkpoint {
 protected:
  // What the file of a model of those sizes has.
  static Tensors tensors_of(const Config& config) {
    return hugging_face_layout(GPT2(config, config.vocabulary, 1, at::kCPU));
  }

  void write_json(const std::string& text) const { files::write_file(temporary_.path() / "config.json", text); }

  void expect_refused(const std::string& why, const std::string& named = "") const {
    const std::string said = refusal_of([&] { return config_of_weights(file_, named); });
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_TRUE(said.starts_with(temporary_.path().string())) << said;
  }

  const Config tiny_ = preset("tiny");
  // Of no preset: three layers of width 24.
  const Config other_{.name = "other", .n_layer = 3, .n_head = 4, .n_embd = 24, .n_positions = 16};
};

TEST_F(ConfigOfWeights, KnowsAPresetByItsSizes) {
  for (const bool prefixed : {true, false}) {
    Tensors tensors;
    for (const auto& [name, tensor] : tensors_of(with_positions(tiny_, 200))) {
      tensors[prefixed ? name : name.substr(std::string("transformer.").size())] = tensor;
    }
    tensors["h.0.attn.bias"] = at::ones({1, 1, 64, 64});
    write_safetensors(file_, tensors);
    for (const std::string named : {"", "tiny"}) {
      const Config config = config_of_weights(file_, named);
      EXPECT_EQ(config.name, "tiny");
      EXPECT_EQ(config.n_layer, 2);
      EXPECT_EQ(config.n_head, 2);
      EXPECT_EQ(config.n_embd, 32);
      EXPECT_EQ(config.n_positions, 200);
    }
    expect_refused("has 2 layers of width 32; gpt2-124m has 12 of width 768", "gpt2-124m");
  }
  GPT2 read(config_of_weights(file_), 50257, 2, at::kCPU);
  EXPECT_NO_THROW(load_weights(read, file_));
}

TEST_F(ConfigOfWeights, ReadsTheHeadsOfOthersFromConfigJson) {
  write_safetensors(file_, tensors_of(other_));
  expect_refused("3 layers of width 24 are none of gpt2-124m, ");
  const std::pair<std::string, std::string> refused[] = {
      {R"({"name": "of something else"})", "no config.json beside the file says its n_head"},
      {R"({"n_head": 4, "activation_function": "relu"})", R"("activation_function" must be "gelu_new", got "relu")"},
      {R"({"n_head": 4, "n_layer": 12})", R"("n_layer" must be 3, got 12)"},
      {R"({"n_head": 4, "scale_attn_by_inverse_layer_idx": true})",
       R"("scale_attn_by_inverse_layer_idx" must be false, got true)"},
      {"{", "not valid JSON"}};
  for (const auto& [json, why] : refused) {
    write_json(json);
    expect_refused(why);
  }
  for (const std::string heads : {"5", "0", "-4", "9223372036854775807", "\"4\"", "2.0"}) {
    write_json("{\"n_head\": " + heads + "}");
    expect_refused("config.json: \"n_head\" must divide the width 24, got " + heads);
  }
  for (const char* json :
       {R"({"n_head": 4, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "n_embd": 24})",
        R"({"num_attention_heads": 4, "hidden_size": 24})"}) {
    write_json(json);
    EXPECT_EQ(config_of_weights(file_).n_head, 4);
  }

  write_safetensors(file_, tensors_of(tiny_));  // a preset's sizes, and other heads
  write_json(R"({"n_head": 8})");
  EXPECT_EQ(config_of_weights(file_).n_head, 8);
  expect_refused("config.json: \"n_head\" must be 2, got 8", "tiny");
}

// Whatever it says, also where the heads are not asked for.
TEST_F(ConfigOfWeights, FollowsOrRefusesConfigJson) {
  write_safetensors(file_, tensors_of(tiny_));
  const std::pair<std::string, std::string> refused[] = {
      {R"("model_type": "gpt_neo")", R"("model_type" must be "gpt2", got "gpt_neo")"},
      {R"("n_inner": 100)", R"("n_inner" must be 128, got 100)"},
      {R"("layer_norm_epsilon": 0.001)", R"("layer_norm_epsilon" must be 1e-05, got 0.001)"},
      {R"("activation_function": "gelu")", R"("activation_function" must be "gelu_new", got "gelu")"},
      {R"("scale_attn_weights": false)", R"("scale_attn_weights" must be true, got false)"},
      {R"("tie_word_embeddings": false)", R"("tie_word_embeddings" must be true, got false)"},
      {R"("n_positions": 32)", R"("n_positions" must be 64, got 32)"},
      {R"("vocab_size": 50304)", R"("vocab_size" must be 50257, got 50304)"},
      {R"("n_layer": 3)", R"("n_layer" must be 2, got 3)"},
  };
  for (const auto& [field, why] : refused) {
    for (const std::string named : {"", "tiny"}) {
      write_json("{" + field + "}");
      expect_refused("config.json: " + why, named);
    }
  }
  write_json(R"({"activation_function": "gelu_pytorch_tanh", "attn_pdrop": 0.1, "resid_pdrop": 0, "n_inner": null})");
  const StoredConfig stored = config_of_weights(file_, "tiny");
  EXPECT_EQ(stored.name, "tiny");
  EXPECT_EQ(stored.dropout, 0.1);
  EXPECT_EQ(rows_left_out(file_, stored, 50257), "");
}

TEST_F(ConfigOfWeights, FindsTheWeightsOfAFolder) {
  const std::filesystem::path folder = temporary_.path() / "gpt2";
  std::filesystem::create_directory(folder);
  EXPECT_THROW((void)weights_file(folder), std::invalid_argument);
  files::write_file(folder / "model.safetensors.index.json", R"({"weight_map": {}})");
  EXPECT_EQ(weights_file(folder), folder / "model.safetensors.index.json");  // which is refused with its remedy
  EXPECT_THROW((void)config_of_weights(weights_file(folder)), std::invalid_argument);
  for (const char* file : {"latest/model.safetensors", "best/model.safetensors", "model.safetensors"}) {
    std::filesystem::create_directories((folder / file).parent_path());
    write_safetensors(folder / file, tensors_of(tiny_));
    EXPECT_EQ(weights_file(folder), folder / file);
  }
  EXPECT_EQ(config_of_weights(weights_file(folder)).name, "tiny");
}

TEST_F(ConfigOfWeights, RefusesWhatIsNoModel) {
  const Tensors good = tensors_of(tiny_);
  const auto refuse = [&](const std::string& why, const std::function<void(Tensors&)>& edit) {
    Tensors tensors = good;
    edit(tensors);
    write_safetensors(file_, tensors);
    expect_refused(why);
  };
  for (const std::string name : {"wte.weight", "wpe.weight", "h.0.ln_1.weight"}) {
    refuse("tensor \"" + name + "\" is missing", [&](Tensors& t) { t.erase("transformer." + name); });
  }
  for (const auto& [sizes, shape] : {std::pair{std::vector<int64_t>{64, 32, 1}, "(64, 32, 1)"}, {{0, 32}, "(0, 32)"}}) {
    refuse(std::string("tensor \"wpe.weight\" must be a matrix, got shape ") + shape,
           [&, &sizes = sizes](Tensors& t) { t["transformer.wpe.weight"] = at::zeros(sizes); });
  }
  refuse("must have a row for each of GPT-2's 50257 tokens, got 50256", [](Tensors& t) {
    t["transformer.wte.weight"] = at::zeros({50256, 32});
  });
  // Names of many layers, and nothing in them.
  refuse("9 layers of width 32 are 1", [](Tensors& t) {
    for (int layer = 2; layer < 9; ++layer) t["h." + std::to_string(layer) + ".ln_1.weight"] = at::zeros({32});
  });
  write_safetensors(file_, good);
  files::write_file(file_, files::read_file(file_).substr(0, 100000));
  expect_refused("data_offsets");
  files::write_file(file_, "not weights, but a text");
  expect_refused("not a safetensors file");
  std::filesystem::remove(file_);
  expect_refused("weights.safetensors");
}

}  // namespace checkpoint_test
