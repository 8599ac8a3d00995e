// An embedding whose backward pass writes into static gradients (kernels/embedding.cu): that of wte has the head's
// already, and gets the rows of the tokens added, in an order that depends on nothing but the tokens.
#include "model/kernels/embedding.h"

#include "model/cuda/call.h"
#include "model/fused.h"
#include "model/gradients.h"
#include "model/ops.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <utility>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::variable_list;

// The first node of a step's graph: it has nowhere to send a gradient, because no weight requires one.
struct CudaEmbedBackward : torch::autograd::Node {
  CudaEmbedBackward(Gradients& to, Tensor t, Tensor of_tokens, Tensor of_positions)
      : gradients(to), tokens(std::move(t)), wte(std::move(of_tokens)), wpe(std::move(of_positions)) {}

  variable_list apply(variable_list&& upstream) override {
    const model::Node node("model::embed_backward");
    const Tensor dx = upstream[0].contiguous();  // (B, T, C)
    const int64_t T = dx.size(1), C = dx.size(2), N = tokens.numel();
    const auto [sorted, order] = at::sort(tokens.flatten(), /*stable=*/true, /*dim=*/0, /*descending=*/false);
    const Gradients::Place d_wte = gradients.place_of(wte), d_wpe = gradients.place_of(wpe);
    if (!d_wte.accumulate) d_wte.buffer.zero_();
    const Tensor workspace = at::empty({kernels::embedding_backward_workspace(N, C)}, dx.options().dtype(at::kFloat));
    const auto* sorted_tokens = pointer<const int64_t>(sorted);
    const auto* rows = pointer<const int64_t>(order);
    with_type(dx.scalar_type(), [&]<class S>() {
      kernels::embedding_backward<S>({.upstream = pointer<const S>(dx),
                                      .sorted_tokens = sorted_tokens,
                                      .order = rows,
                                      .wte_gradient = pointer<float>(d_wte.buffer),
                                      .wpe_gradient = pointer<float>(d_wpe.buffer),
                                      .accumulate_wpe = d_wpe.accumulate,
                                      .workspace = pointer<float>(workspace),
                                      .N = N,
                                      .context = T,
                                      .C = C,
                                      .V = wte.size(0),
                                      .P = wpe.size(0)},
                                     stream_for(dx));
    });
    return {};
  }

  Gradients& gradients;
  Tensor tokens, wte, wpe;
};

}  // namespace

decltype(Ops::embed) cuda_embed_into(Gradients& gradients, const decltype(Ops::embed)& embed) {
  return [&gradients, embed](const Tensor& tokens, const Tensor& wte, const Tensor& wpe) {
    const Node node("model::embed");
    Tensor x = embed(tokens, wte, wpe);
    if (at::GradMode::is_enabled()) {
      const std::shared_ptr<torch::autograd::Node> backward(new CudaEmbedBackward(gradients, tokens, wte, wpe),
                                                            torch::autograd::deleteNode);
      torch::autograd::create_gradient_edge(x, backward);
    }
    return x;
  };
}

}  // namespace model
