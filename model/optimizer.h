// AdamW (Loshchilov and Hutter 2019, as torch.optim.AdamW computes it) three ways, and the clipping of the gradient's
// norm.
//
// Nothing here waits for the device. When the step is captured in a graph, learning rate and step count live on the
// device, because numbers from the host would be frozen into the graph.
#pragma once

#include "model/gpt2.h"
#include "model/recipe.h"

#include <ATen/ATen.h>

#include <vector>

namespace model {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  // on tensors with two or more dimensions only
  double max_norm = 1.0;
};

class AdamW {
 public:
  // capturable: the step will be captured in a CUDA graph.
  AdamW(const std::vector<Parameter>& parameters, Optimizer kind, bool capturable, const AdamWOptions& options = {});

  // For the next step. A captured step takes it from a tensor of one element on the device.
  void set_learning_rate(double learning_rate);
  void set_learning_rate(const at::Tensor& learning_rate);

  // Divides the gradients by `scale` and adds 1 to `found_inf` where one of them is not finite (gradient scaling).
  void unscale(const at::Tensor& inverse_scale, at::Tensor& found_inf);

  // The factor that brings the gradients' global norm to max_norm, at most 1: 0-dim, on the device.
  [[nodiscard]] at::Tensor clip_coefficient() const;

  // Multiplies the gradients by the coefficient and updates. The fused kind does both in one pass; the others write the
  // clipped gradients first. A nonzero found_inf, one element on the device, skips the update there: the host never
  // learns of it, and weights, moments and step count stay as they were.
  void step(const at::Tensor& clip_coefficient, const std::optional<at::Tensor>& found_inf = {});

  void drop_gradients();

  // Of the moments.
  [[nodiscard]] int64_t state_bytes() const;

 private:
  struct Group {
    std::vector<at::Tensor> parameters, first_moments, second_moments, steps;
    double weight_decay;
    [[nodiscard]] std::vector<at::Tensor> gradients() const;
  };

  // What the host knows when steps are eager and none can be skipped, as 0-dim tensors.
  struct DeviceFactors {
    at::Tensor beta1, beta2, kept, negative_step_size, root_correction;
  };
  [[nodiscard]] DeviceFactors device_factors(const Group& group, const std::optional<at::Tensor>& found_inf) const;

  void step_loop(const Group& group);
  void step_loop(const Group& group, const DeviceFactors& factors);
  void step_foreach(const Group& group);
  void step_foreach(const Group& group, const DeviceFactors& factors);
  void step_fused(Group& group, const at::Tensor& clip_coefficient, const std::optional<at::Tensor>& found_inf);

  Optimizer kind_;
  bool capturable_;
  AdamWOptions options_;
  std::vector<Group> groups_;  // decayed, not decayed
  double learning_rate_ = 0.0;
  int64_t step_count_ = 0;
  at::Tensor learning_rate_tensor_, step_tensor_;  // 0-dim float32 on the parameters' device
};

}  // namespace model
