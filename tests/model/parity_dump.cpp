// Runs GPT-2 under a recipe and writes down what test_parity.py compares with transformers: `parity_dump REQUEST`.
//
// REQUEST is a JSON object: model (a preset), weights, tokens, B, T, accumulation, steps, recipe, out, save (the
// weights after the last step); optionally warmup_steps and decay_steps of the schedule. The tensors of `out` are named
// where they are made. Training starts at the first token. float32 recipes only. With a seed in place of weights, these
// are drawn, and written to `drawn` before the first step.
#include "ablations/techniques/operations.h"
#include "model/checkpoint.h"
#include "model/data.h"
#include "model/safetensors.h"
#include "model/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>

namespace {

using Tensors = std::map<std::string, at::Tensor>;

// Before the first step: logits (B, T, vocabulary_rows) and loss of the first batch, every parameter's gradient, and
// the rows of the embedding that no weight file holds.
void add_first_batch(Tensors& out, model::Trainer& trainer, const at::Tensor& inputs, const at::Tensor& targets) {
  const model::GPT2& gpt2 = trainer.model();
  const at::Tensor& wte = gpt2.parameters().front().tensor;
  const at::Tensor loss = gpt2.loss(trainer.ops(), inputs.to(wte.device()), targets.to(wte.device()));
  loss.backward();
  out["logits"] = trainer.forward_logits(inputs).detach();
  out["loss"] = loss.detach();
  for (const auto& [name, gradient] : model::hugging_face_layout(gpt2, /*gradients=*/true)) {
    out["gradient." + name] = gradient;
  }
  out["padding"] = wte.detach().slice(0, gpt2.config().vocabulary).clone();
}

void run(const nlohmann::json& request) {
  const auto path = [&](const char* name) { return std::filesystem::path(request.at(name).get<std::string>()); };
  const model::Config config = model::preset(request.at("model"));
  const model::Recipe recipe = model::recipe_from_json(request.at("recipe"), "parity_dump");
  const int64_t steps = request.at("steps");
  model::TrainerOptions options{.B = request.at("B"),
                                .T = request.at("T"),
                                .accumulation = request.at("accumulation"),
                                .max_steps = steps,
                                .seed = request.value("seed", uint64_t{0})};
  options.schedule.warmup_steps = request.value("warmup_steps", options.schedule.warmup_steps);
  options.schedule.decay_steps = request.value("decay_steps", options.schedule.decay_steps);

  const model::TokenStream tokens = model::load_tokens(path("tokens"), config.vocabulary);
  model::Trainer trainer(config, recipe, options, tokens, model::step_parts());
  if (request.contains("weights")) {
    model::load_weights(trainer.model(), path("weights"));
  } else {
    model::save_weights(trainer.model(), path("drawn"));
  }

  Tensors out;
  model::BatchLoader loader(tokens, options.B, options.T, options.seed);
  const auto [inputs, targets] = loader.next();
  add_first_batch(out, trainer, inputs, targets);

  for (int64_t step = 0; step < steps; ++step) trainer.step();
  out["losses"] = at::tensor(trainer.losses(), at::kDouble);      // (steps)
  out["final_logits"] = trainer.forward_logits(inputs).detach();  // of the first batch again
  model::write_safetensors(path("out"), out);
  model::save_weights(trainer.model(), path("save"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: parity_dump REQUEST\n";
    return 2;
  }
  try {
    at::set_num_threads(2);
    run(nlohmann::json::parse(argv[1]));
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
