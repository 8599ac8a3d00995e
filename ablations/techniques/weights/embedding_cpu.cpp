// An embedding whose backward pass writes into static gradients. The gradient of wte has the head's part already, and
// the tokens' rows are added to it. PyTorch makes a matrix of all rows, most of them 0, and adds two such matrices.
#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/weights/embedding_gradient.h"
#include "model/precision.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/version.h>

#include <memory>
#include <utility>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::variable_list;

// Columns that one thread does at least.
constexpr int64_t columns_at_once = 64;

// The first node of a step's graph: it has nowhere to send a gradient, because no weight requires one.
struct EmbedBackward : torch::autograd::Node {
  EmbedBackward(Gradients& to, EmbeddingGradient* by, Tensor t, Tensor of_tokens, Tensor of_positions)
      : gradients(to), write(by), tokens(std::move(t)), wte(std::move(of_tokens)), wpe(std::move(of_positions)) {}

  variable_list apply(variable_list&& upstream) override {
    const model::Node node("model::embed_backward");
    write(gradients, upstream[0].contiguous(), tokens, wte, wpe);
    return {};
  }

  Gradients& gradients;
  EmbeddingGradient* write;
  Tensor tokens, wte, wpe;
};

}  // namespace

void embedding_gradient(Gradients& gradients, const Tensor& upstream, const Tensor& tokens, const Tensor& wte,
                        const Tensor& wpe) {
  const Tensor dx = upstream.to(at::kFloat);
  const int64_t T = dx.size(1), C = dx.size(2);
  const Gradients::Place d_wte = gradients.place_of(wte);
  if (!d_wte.accumulate) d_wte.buffer.zero_();
  const Tensor rows = tokens.contiguous();
  const cpu::AddRows call{.rows = dx.const_data_ptr<float>(),
                          .tokens = rows.const_data_ptr<int64_t>(),
                          .sum = d_wte.buffer.mutable_data_ptr<float>(),
                          .count = rows.numel(),
                          .C = C};
  at::parallel_for(0, C, columns_at_once,
                   [&](int64_t begin, int64_t end) { cpu::kernels().add_rows(call, begin, end); });
  const Gradients::Place d_wpe = gradients.place_of(wpe);
  if (!d_wpe.accumulate) d_wpe.buffer.zero_();  // positions from T on have no gradient
  d_wpe.buffer.narrow(0, 0, T).add_(dx.sum(0));
}

decltype(Ops::embed) embed_into(Gradients& gradients, EmbeddingGradient* write, const decltype(Ops::embed)& embed) {
  return [&gradients, write, embed](const Tensor& tokens, const Tensor& wte, const Tensor& wpe) {
    const Node node("model::embed");
    Tensor x = embed(tokens, wte, wpe);
    if (at::GradMode::is_enabled()) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
      const std::shared_ptr<torch::autograd::Node> backward(new EmbedBackward(gradients, write, tokens, wte, wpe),
                                                            torch::autograd::deleteNode);
#else  // nodes count their own references; tried with 2.15
      const auto backward = c10::make_intrusive<EmbedBackward>(gradients, write, tokens, wte, wpe);
#endif
      torch::autograd::create_gradient_edge(x, backward);
    }
    return x;
  };
}

void install_weights(const Recipe& recipe, Gradients* gradients, Ops& ops) {
  if (gradients == nullptr) return;
  if (recipe.device == Device::cpu) {
    ops.embed = embed_into(*gradients, embedding_gradient, ops.embed);
  } else if constexpr (has_cuda_kernels) {
    const bool low = recipe.residual == Residual::autocast;
    ops.embed = embed_into(*gradients, cuda_embedding_gradient,
                           cuda_embedding(low ? scalar_type(recipe.autocast) : at::kFloat));
  }
}

}  // namespace model
