#include "ablations/micro/costs.h"

#include <algorithm>

namespace micro {

using at::Tensor;

namespace {

// 2 M N K for x (..., K) and a weight (N, K). Attention: q k^T and the product with v, 2 T^2 HS each for every head,
// of which the causal half is counted, as in 6 N + 6 L C T.
double matrix_flops(const std::string& call, const std::vector<Tensor>& inputs) {
  if (call.starts_with("linear") || call == "head") {
    return 2.0 * static_cast<double>(inputs[0].numel()) * static_cast<double>(inputs[1].size(0));
  }
  if (call == "attention") return 2.0 * static_cast<double>(inputs[0].numel()) * static_cast<double>(inputs[0].size(2));
  return 0;
}

double bytes_of(const Tensor& x) { return static_cast<double>(x.nbytes()); }

// An embedding reads one row of each table for every token, the positions' once for all sequences.
double bytes_read(const std::string& call, const std::vector<Tensor>& inputs) {
  if (call == "embed") {
    const Tensor &tokens = inputs[0], &wte = inputs[1];
    const double row = static_cast<double>(wte.size(1)) * static_cast<double>(wte.element_size());
    return bytes_of(tokens) + row * static_cast<double>(tokens.numel() + tokens.size(1));
  }
  double bytes = 0;
  for (const Tensor& input : inputs) bytes += bytes_of(input);
  return bytes;
}

}  // namespace

Cost cost_of_forward(const std::string& call, const std::vector<Tensor>& inputs, const Tensor& output) {
  return {matrix_flops(call, inputs), bytes_read(call, inputs) + bytes_of(output)};
}

// Twice the products: one for each operand's gradient. Read are the output's gradient and what the derivative needs: an
// embedding its tokens, attention its output as well, nothing its bias, a sum nothing at all. Written is the gradient
// of each input, but a sum hands on the one it gets, unless another type is wanted.
Cost cost_of_backward(const std::string& call, const std::vector<Tensor>& inputs, const Tensor& output) {
  const bool is_sum = call == "residual";
  const size_t needed = is_sum ? 0 : call == "embed" ? 1 : call == "attention" ? 3 : std::min<size_t>(inputs.size(), 2);
  double bytes = call == "attention" ? bytes_of(output) : 0;
  for (size_t i = 0; i < needed; ++i) bytes += bytes_of(inputs[i]);
  for (const Tensor& input : inputs) {
    const bool handed_on = is_sum && input.scalar_type() == output.scalar_type();
    if (input.requires_grad() && !handed_on) bytes += bytes_of(input);
  }
  return {2 * matrix_flops(call, inputs), bytes == 0 ? 0 : bytes + bytes_of(output)};
}

}  // namespace micro
