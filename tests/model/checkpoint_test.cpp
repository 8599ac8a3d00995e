// Weights in and out, under Hugging Face's names.
#include "model/checkpoint.h"

#include "files/files.h"
#include "model/config_of_weights.h"
#include "model/gpt2.h"
#include "model/safetensors.h"
#include "tests/model/parameter.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

namespace checkpoint_test {

using at::Tensor;
using namespace model;

class Checkpoint : public testing::Test {
 protected:
  const files::TemporaryFolder temporary_{"checkpoint-test"};
  const std::filesystem::path file_ = temporary_.path() / "weights.safetensors";

  std::string refusal(GPT2& gpt2) const {
    try {
      load_weights(gpt2, file_);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
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
  tensors[wte] = parameter(source, "wte.weight") * 2;
  write_safetensors(file_, tensors);
  GPT2 target(preset("tiny"), 50257, 2, at::kCPU);
  EXPECT_NE(refusal(target).find("\"lm_head.weight\" is not \"wte.weight\""), std::string::npos);
}

TEST_F(Checkpoint, NamesWhatDoesNotFit) {
  GPT2 gpt2(preset("tiny"), 50257, 1, at::kCPU);
  auto tensors = hugging_face_layout(gpt2);
  auto without = tensors;
  without.erase("transformer.ln_f.bias");
  write_safetensors(file_, without);
  EXPECT_NE(refusal(gpt2).find("\"ln_f.bias\" is missing"), std::string::npos);
  auto other_shape = tensors;
  other_shape["transformer.ln_f.bias"] = at::zeros({33});
  write_safetensors(file_, other_shape);
  EXPECT_NE(refusal(gpt2).find("has shape (33); tiny needs (32)"), std::string::npos);
  auto not_transposed = tensors;
  not_transposed["transformer.h.0.attn.c_attn.weight"] = at::zeros({96, 32});
  write_safetensors(file_, not_transposed);
  EXPECT_NE(refusal(gpt2).find("has shape (96, 32); tiny needs (32, 96)"), std::string::npos);
  auto other_type = tensors;
  other_type["transformer.ln_f.bias"] = at::zeros({32}, at::kLong);
  write_safetensors(file_, other_type);
  EXPECT_NE(refusal(gpt2).find("must hold floating point"), std::string::npos);
  auto unknown = tensors;
  unknown["transformer.h.9.ln_1.bias"] = at::zeros({32});
  write_safetensors(file_, unknown);
  EXPECT_NE(refusal(gpt2).find("is not a weight of tiny"), std::string::npos);
  auto with_buffers = tensors;
  with_buffers["transformer.h.0.attn.bias"] = at::ones({1, 1, 64, 64}, at::kBool);
  with_buffers["lm_head.weight"] = tensors["transformer.wte.weight"];
  write_safetensors(file_, with_buffers);
  EXPECT_EQ(refusal(gpt2), "accepted");
  auto other_head = tensors;
  other_head["lm_head.weight"] = tensors["transformer.wte.weight"] * 2;
  write_safetensors(file_, other_head);
  EXPECT_NE(refusal(gpt2).find("\"lm_head.weight\" is not \"wte.weight\""), std::string::npos);
  auto twice = tensors;
  twice["ln_f.bias"] = at::ones({32});
  write_safetensors(file_, twice);
  EXPECT_NE(refusal(gpt2).find("\"ln_f.bias\" is there twice"), std::string::npos);
}

}  // namespace checkpoint_test
