#include "ablations/techniques/fp8/bytes.h"
#include "ablations/techniques/fp8/weight_copies.h"
#include "ablations/techniques/fp8/weights.h"

#include <memory>

namespace model {

using at::Tensor;

std::function<void()> cuda_weight_copies(const std::vector<Fp8Parameter>& parameters) {
  std::vector<kernels::WeightCopies> weights;
  std::vector<kernels::NormScale> norms;
  const at::Device device = parameters.front().weight.tensor.device();
  const auto floats = at::TensorOptions(device).dtype(at::kFloat);
  for (const Fp8Parameter& one : parameters) {
    const Tensor& weight = one.weight.tensor;
    const int64_t out = weight.size(0), in = weight.size(1);
    const Fp8Weight copy{one.name,
                         {fp8_bytes({out, in}, device), at::empty({out}, floats)},
                         {fp8_bytes({in, out}, device), at::empty({in}, floats)}};
    fp8::put_weight(weight, copy);
    weights.push_back({.weight = pointer<const kernels::bf16>(weight),
                       .rows = fp8_pointer(copy.rows.values),
                       .columns = fp8_pointer(copy.columns.values),
                       .row_scales = pointer<float>(copy.rows.scales),
                       .column_scales = pointer<float>(copy.columns.scales),
                       .out = out,
                       .in = in});
    if (one.bias.defined()) fp8::put_copied_gradient(one.bias);
    if (!one.norm_weight.defined()) continue;
    const Tensor scale = at::empty({1}, floats);
    fp8::put_norm_scale(one.norm_weight, scale);
    norms.push_back({.weight = pointer<const float>(one.norm_weight),
                     .bias = pointer<const float>(one.norm_bias),
                     .scale = pointer<float>(scale),
                     .C = one.norm_weight.numel()});
  }
  const std::vector<kernels::WeightTile> tiles = kernels::weight_tiles(weights);
  const Tensor weight_table = on_device(weights, device), norm_table = on_device(norms, device),
               tile_table = on_device(tiles, device), workspace = at::empty({std::ssize(tiles)}, floats);
  const kernels::AllWeightCopies call{.weights = pointer<const kernels::WeightCopies>(weight_table),
                                      .norms = pointer<const kernels::NormScale>(norm_table),
                                      .tiles = pointer<const kernels::WeightTile>(tile_table),
                                      .weight_count = std::ssize(weights),
                                      .norm_count = std::ssize(norms),
                                      .tile_count = std::ssize(tiles),
                                      .workspace = pointer<float>(workspace)};
  return [=] {  // the tables' tensors live as long as it does
    (void)weight_table, (void)norm_table, (void)tile_table;
    kernels::copy_weights(call, stream_for(workspace));
  };
}

}  // namespace model
