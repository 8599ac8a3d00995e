// The sizes of a model by its file, and every reason why they cannot be told.
#include "model/config_of_weights.h"

#include "files/files.h"
#include "model/checkpoint.h"
#include "model/gpt2.h"
#include "model/safetensors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>

namespace config_of_weights_test {

using namespace model;
using Tensors = std::map<std::string, at::Tensor>;

class ConfigOfWeights : public testing::Test {
 protected:
  // What the file of a model of those sizes has.
  static Tensors tensors_of(const Config& config) {
    return hugging_face_layout(GPT2(config, config.vocabulary, 1, at::kCPU));
  }

  void write_json(const std::string& text) const { files::write_file(temporary_.path() / "config.json", text); }

  std::string refusal(const std::string& named = "") const {
    try {
      (void)config_of_weights(file_, named);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  }

  void expect_refused(const std::string& why, const std::string& named = "") const {
    const std::string said = refusal(named);
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_TRUE(said.starts_with(temporary_.path().string())) << said;
  }

  const files::TemporaryFolder temporary_{"config-of-weights-test"};
  const std::filesystem::path file_ = temporary_.path() / "weights.safetensors";
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
  write_json(R"({"name": "of something else"})");
  expect_refused("no config.json beside the file says its n_head");
  write_json(R"({"n_head": 4, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "n_embd": 24})");
  EXPECT_EQ(config_of_weights(file_).n_head, 4);
  write_json(R"({"n_head": 5})");
  expect_refused("config.json: \"n_head\" must divide the width 24, got 5");
  for (const std::string heads : {"0", "-4", "9223372036854775807", "\"4\"", "2.0"}) {
    write_json("{\"n_head\": " + heads + "}");
    expect_refused("config.json: \"n_head\" must divide the width 24, got " + heads);
  }
  write_json(R"({"n_head": 4, "activation_function": "relu"})");
  expect_refused(R"(config.json: "activation_function" must be "gelu_new", got "relu")");
  write_json(R"({"n_head": 4, "n_layer": 12})");
  expect_refused(R"(config.json: "n_layer" must be 3, got 12)");
  write_json(R"({"n_head": 4, "scale_attn_by_inverse_layer_idx": true})");
  expect_refused(R"("scale_attn_by_inverse_layer_idx" must be false, got true)");
  write_json(R"({"num_attention_heads": 4, "hidden_size": 24})");
  EXPECT_EQ(config_of_weights(file_).n_head, 4);
  write_json("{");
  expect_refused("config.json: not valid JSON");

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
  refuse("tensor \"wte.weight\" is missing", [](Tensors& t) { t.erase("transformer.wte.weight"); });
  refuse("tensor \"wpe.weight\" is missing", [](Tensors& t) { t.erase("transformer.wpe.weight"); });
  refuse("tensor \"h.0.ln_1.weight\" is missing", [](Tensors& t) { t.erase("transformer.h.0.ln_1.weight"); });
  refuse("tensor \"wpe.weight\" must be a matrix, got shape (64, 32, 1)", [](Tensors& t) {
    t["transformer.wpe.weight"] = at::zeros({64, 32, 1});
  });
  refuse("tensor \"wpe.weight\" must be a matrix, got shape (0, 32)", [](Tensors& t) {
    t["transformer.wpe.weight"] = at::zeros({0, 32});
  });
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
  EXPECT_NE(refusal().find("weights.safetensors"), std::string::npos);
}

}  // namespace config_of_weights_test
