// Cross-entropy whose gradient takes the place of its log-probabilities.
//
// With p = softmax(logits), the loss is the mean of -log p[target]. Its gradient by the logits is (p - [v == target]) /
// N. These are as many numbers as log p, each made from the number in its place. PyTorch makes a matrix of zeros with
// one entry in each row first. Under CUDA autocast that is float32, with a conversion there and one back.
//
// ATen has no operation c * exp(x) with c on the device. The gradient of ELU is one where x <= 0, which holds for every
// log-probability. In a row that is not finite the result may be anything. But the target's entry is NaN there, and so
// is the row's product with the embedding.
#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/cross_entropy/head_loss.h"
#include "model/ops.h"

#include <torch/csrc/autograd/custom_function.h>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::AutogradContext;

struct InPlaceCrossEntropy : torch::autograd::Function<InPlaceCrossEntropy> {
  // logits (N, V), targets (N, 1) int64 -> 0-dim, float32 at least
  static Tensor forward(AutogradContext* context, const Tensor& logits, const Tensor& targets) {
    const Tensor log_p = at::_log_softmax(logits, /*dim=*/-1, /*half_to_float=*/false);
    const Tensor of_targets = log_p.gather(-1, targets).to(c10::promoteTypes(log_p.scalar_type(), at::kFloat));
    context->save_for_backward({log_p, targets, of_targets});
    return of_targets.mean().neg();
  }

  static torch::autograd::variable_list backward(AutogradContext* context, torch::autograd::variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const Tensor &targets = saved[1], &of_targets = saved[2];
    Tensor gradient = saved[0];
    const Tensor scale = upstream[0] / targets.size(0);
    at::elu_backward_out(gradient, scale.to(gradient.scalar_type()), /*alpha=*/1, /*scale=*/1, /*input_scale=*/1,
                         /*is_result=*/false, /*self_or_result=*/gradient);
    gradient.scatter_(-1, targets, (of_targets.expm1() * scale).to(gradient.scalar_type()));
    return {gradient, Tensor()};
  }
};

}  // namespace

decltype(Ops::cross_entropy) in_place_cross_entropy() {
  return [](const Tensor& logits, const Tensor& targets) {
    Tensor scores = logits.flatten(0, 1);  // (N, V)
    if (scores.is_cpu()) scores = scores.to(c10::promoteTypes(scores.scalar_type(), at::kFloat));
    const Tensor column = targets.flatten().unsqueeze(-1);
    const Node node("model::in_place_cross_entropy");
    return InPlaceCrossEntropy::apply(scores, column);
  };
}

}  // namespace model
