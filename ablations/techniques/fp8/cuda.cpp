#include "ablations/techniques/fp8/bytes.h"
#include "ablations/techniques/fp8/weight_copies.h"
#include "ablations/techniques/fp8/weights.h"
#include "ablations/techniques/weights/tensors.h"

#include <ATen/ceil_div.h>

#include <cmath>
#include <memory>

namespace model {

using at::Tensor;

namespace {

// Fp8Update::find_maxima
std::function<void()> maxima_of(const std::vector<Tensor>& weights) {
  return [weights, seen = std::make_shared<int64_t>(-1)] {
    bool are_kept = true;
    int64_t version = 0;  // grows when an operation of PyTorch's writes to a weight; AdamW's kernel is none
    for (const Tensor& weight : weights) {
      are_kept = are_kept && fp8::weight_of(weight)->are_maxima_kept;
      version += weight._version();
    }
    if (are_kept && version == *seen) return;
    for (const Tensor& weight : weights) {  // NaN counts for nothing, as in AdamW's kernel
      fp8::weight_of(weight)->maxima.copy_(at::nan_to_num(weight, 0, INFINITY, -INFINITY).abs_().amax());
    }
    *seen = version;
  };
}

}  // namespace

Fp8Update cuda_weight_copies(const std::vector<Fp8Parameter>& parameters) {
  std::vector<kernels::WeightCopies> weights;
  std::vector<kernels::NormScale> norms;
  std::vector<Tensor> copied;
  const at::Device device = parameters.front().weight.tensor.device();
  const auto floats = at::TensorOptions(device).dtype(at::kFloat);
  for (const Fp8Parameter& one : parameters) {
    const Tensor& weight = one.weight.tensor;
    const int64_t out = weight.size(0), in = weight.size(1);
    const Fp8Weight copy{one.name,
                         {fp8_bytes({out, in}, device), at::empty({out}, floats)},
                         {fp8_bytes({in, out}, device), at::empty({in}, floats)},
                         at::empty({at::ceil_div(weight.numel(), kernels::chunk_elements)}, floats)};
    fp8::put_weight(weight, copy);
    copied.push_back(weight);
    weights.push_back({.weight = pointer<const kernels::bf16>(weight),
                       .maxima = pointer<const float>(copy.maxima),
                       .rows = fp8_pointer(copy.rows.values),
                       .columns = fp8_pointer(copy.columns.values),
                       .row_scales = pointer<float>(copy.rows.scales),
                       .column_scales = pointer<float>(copy.columns.scales),
                       .out = out,
                       .in = in,
                       .maxima_count = copy.maxima.numel()});
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
               tile_table = on_device(tiles, device);
  const kernels::AllWeightCopies call{.weights = pointer<const kernels::WeightCopies>(weight_table),
                                      .norms = pointer<const kernels::NormScale>(norm_table),
                                      .tiles = pointer<const kernels::WeightTile>(tile_table),
                                      .weight_count = std::ssize(weights),
                                      .norm_count = std::ssize(norms),
                                      .tile_count = std::ssize(tiles)};
  const std::function<void()> find_maxima = maxima_of(copied);
  return {.find_maxima = find_maxima, .copy = [=] {  // the tables' tensors live as long as it does
            (void)norm_table, (void)tile_table;
            find_maxima();
            kernels::copy_weights(call, stream_for(weight_table));
          }};
}

}  // namespace model
