#include "ablations/micro/call_costs.h"

#include "ablations/techniques/step_costs.h"
#include "model/config.h"

#include <algorithm>
#include <map>

namespace ablations::micro {

using at::Tensor;

namespace {

double matrix_flops(const std::string& call, const std::vector<Tensor>& inputs) {
  const auto size = [&](size_t input, int64_t dim) { return static_cast<double>(inputs[input].size(dim)); };
  if (call.starts_with("linear") || call == "qkv" || call == "head") {  // x (..., K), weight (N, K)
    const double M = static_cast<double>(inputs[0].numel()) / size(0, -1);
    return product_flops(M, size(1, 0), size(1, 1));
  }
  if (call == "attention") {  // q (B, NH, T, HS)
    return attention_flops(size(0, 0), size(0, 2), size(0, 1) * size(0, 3));
  }
  return 0;
}

double bytes_of(const Tensor& x) { return static_cast<double>(x.nbytes()); }

double bytes_of(const std::vector<Tensor>& list) {
  double bytes = 0;
  for (const Tensor& x : list) bytes += bytes_of(x);
  return bytes;
}

// An embedding reads one row of wte for every token, and each position's row of wpe once for all sequences.
double bytes_read(const std::string& call, const std::vector<Tensor>& inputs) {
  if (call == "embed") {
    const Tensor &tokens = inputs[0], &wte = inputs[1];
    const double row = static_cast<double>(wte.size(1)) * static_cast<double>(wte.element_size());
    return bytes_of(tokens) + row * static_cast<double>(tokens.numel() + tokens.size(1));
  }
  return bytes_of(inputs);
}

}  // namespace

Cost cost_of_forward(const std::string& call, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  return {matrix_flops(call, inputs), bytes_read(call, inputs) + bytes_of(outputs)};
}

// Reads the outputs' gradients and what the derivative needs. An embedding needs its tokens, attention also its output,
// nothing its bias, a sum nothing at all. Writes the gradient of each input. A sum hands on the one it gets, unless
// another type is wanted.
Cost cost_of_backward(const std::string& call, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  const bool is_sum = call == "residual";
  const size_t needed = is_sum ? 0 : call == "embed" ? 1 : call == "attention" ? 3 : std::min<size_t>(inputs.size(), 2);
  double bytes = call == "attention" ? bytes_of(outputs) : 0;
  for (size_t i = 0; i < needed; ++i) bytes += bytes_of(inputs[i]);
  for (const Tensor& input : inputs) {
    const bool handed_on = is_sum && input.scalar_type() == outputs[0].scalar_type();
    if (input.requires_grad() && !handed_on) bytes += bytes_of(input);
  }
  return {backward_flops(matrix_flops(call, inputs)), bytes == 0 ? 0 : bytes + bytes_of(outputs)};
}

std::optional<Cost> cost_in_a_step(const std::string& call, const std::string& phase, const model::Recipe& recipe,
                                   int64_t B, int64_t T) {
  // The parts of a step that each is, or is made of.
  static const std::map<std::string, std::vector<std::string>> parts{
      {"add_norm", {"residual", "ln_2"}},
      {"self_attention", {"c_attn", "attention"}},
      {"mlp", {"mlp", "c_fc", "gelu", "mlp_proj"}},
      {"head_loss", {"head_loss", "head", "cross_entropy"}}};
  const auto found = parts.find(call);
  if (found == parts.end()) return std::nullopt;
  Cost sum;
  for (const ablations::Cost& cost : step_costs(model::preset("gpt2-124m"), recipe, B, T, /*accumulation=*/1)) {
    if (cost.phase != phase || std::ranges::find(found->second, cost.part) == found->second.end()) continue;
    sum.flops += cost.flops / static_cast<double>(cost.calls);
    sum.bytes += cost.bytes / static_cast<double>(cost.calls);
  }
  return sum;
}

}  // namespace ablations::micro
