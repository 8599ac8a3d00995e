// AdamW (Loshchilov and Hutter 2019, as torch.optim.AdamW computes it) in three forms, and the clipping of the
// gradient's norm. The caller brings the update of master weights.
//
// Nothing here waits for the device. When the step is captured in a graph, learning rate and step count live on the
// device. Numbers from the host would be frozen into the graph.
#pragma once

#include "model/gpt2.h"
#include "model/recipe.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace model {

struct AdamWOptions {
  double weight_decay = 0.1;  // on tensors with two or more dimensions only
  double max_norm = 1.0;      // of all gradients together; infinity: they are never clipped
  int64_t first_step = 0;     // steps that were taken before, whose moments will be loaded (state())
};

// Of a step, each 0-dim float32 on the device.
struct Clip {
  at::Tensor norm;         // of all gradients together
  at::Tensor coefficient;  // min(1, max_norm / (norm + 1e-6)), NaN where the norm is
};

// p <- (1 - learning_rate decay) p - step_size m / (sqrt(v) / root_correction + eps), numbers of the host.
struct AdamWFactors {
  double learning_rate, step_size, root_correction;
};
// `count`: how many steps, this one counted.
AdamWFactors adamw_factors(double learning_rate, int64_t count);

struct MasterWeight {
  at::Tensor weight;                                 // float32, or bf16 beside a remainder
  at::Tensor remainder;                              // int16; undefined of a float32 weight
  at::Tensor gradient, first_moment, second_moment;  // float32
  double weight_decay;
};

// Clipping and AdamW in one pass over all master weights, which stay where they are.
class MasterUpdate {
 public:
  virtual ~MasterUpdate() = default;
  // The same as AdamW::clip.
  [[nodiscard]] virtual Clip clip(double max_norm) const = 0;

  struct Step {
    std::variant<std::monostate, double, at::Tensor> learning_rate;  // a tensor: 0-dim float32 on the device
    int64_t count;                                                   // of steps, this one counted
    at::Tensor count_on_device;                                      // 0-dim float32
  };
  virtual void step(const Step& step, const at::Tensor& clip_coefficient) const = 0;
};
using MakeMasterUpdate = std::unique_ptr<const MasterUpdate>(std::vector<MasterWeight> weights);

class AdamW {
 public:
  static constexpr double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;

  // With `master` the parameters are master weights, and it makes their update. They need the fused kind, and have
  // their gradients (gradients.h).
  AdamW(const std::vector<Parameter>& parameters, Optimizer kind, const AdamWOptions& options = {},
        MakeMasterUpdate* master = nullptr);

  // A captured step takes it from a tensor of one element on the device, valid for one step. An optimizer must take it
  // always from the host or always from the device.
  void set_learning_rate(double learning_rate);
  void set_learning_rate(const at::Tensor& learning_rate);

  // Gradient scaling: multiplies the gradients by `inverse_scale`. Sets `found_inf` to 1 where one of them is not
  // finite.
  void unscale(const at::Tensor& inverse_scale, at::Tensor& found_inf);

  // The gradients' global norm, and the factor that brings it to max_norm.
  [[nodiscard]] Clip clip() const;

  // Multiplies the gradients by the coefficient and updates. The fused kind does both in one pass; the others write the
  // clipped gradients first. A found_inf of 1 (one element on the device) skips the update there. Weights, moments and
  // step count stay unchanged, and the host does not learn of it. Master weights skip no step.
  void step(const at::Tensor& clip_coefficient, const std::optional<at::Tensor>& found_inf = {});

  // Master weights keep theirs.
  void drop_gradients();

  // How many bytes the moments take.
  [[nodiscard]] int64_t state_bytes() const;

  // What steps change beside the weights, by name: "first_moment.wte.weight", "second_moment.wte.weight", ... "step" is
  // how many steps counted (0-dim float32; only some kinds need it). The tensors are the optimizer's own: what is
  // copied into them is loaded.
  [[nodiscard]] std::map<std::string, at::Tensor> state() const;

 private:
  struct Group {
    std::vector<std::string> names;
    std::vector<at::Tensor> parameters, remainders, first_moments, second_moments, steps;
    double weight_decay;
    [[nodiscard]] std::vector<at::Tensor> gradients() const;
  };

  // AdamWFactors as 0-dim tensors: p <- (1 - learning_rate decay) p + negative_step_size m / (sqrt(v) + eps). Numerator
  // and denominator are multiplied by root_correction. This takes no more operations, and nothing is divided by a
  // learning rate of 0.
  struct DeviceFactors {
    at::Tensor learning_rate, negative_step_size, eps;
    at::Tensor beta1, beta2;  // 1 in a step that is skipped; undefined where none can be
    [[nodiscard]] bool may_be_skipped() const { return beta1.defined(); }
  };
  [[nodiscard]] DeviceFactors device_factors(const std::optional<at::Tensor>& found_inf) const;
  [[nodiscard]] std::vector<at::Tensor> gradients() const;

  void step_loop(const Group& group, const AdamWFactors& factors) const;
  void step_loop(const Group& group, const DeviceFactors& factors) const;
  void step_foreach(const Group& group, const AdamWFactors& factors) const;
  void step_foreach(const Group& group, const DeviceFactors& factors) const;
  void step_fused(const at::Tensor& inverse_clip, const std::optional<at::Tensor>& found_inf);
  [[nodiscard]] at::Tensor learning_rate_on_device() const;

  Optimizer kind_;
  double max_norm_;
  std::vector<Group> groups_;                                       // decayed, not decayed
  std::variant<std::monostate, double, at::Tensor> learning_rate_;  // a tensor: 0-dim float32 on the device
  std::optional<bool> from_host_;                                   // what factors are made of, from the first step on
  int64_t step_count_;
  at::Tensor step_tensor_;                      // 0-dim float32 on the parameters' device
  std::unique_ptr<const MasterUpdate> master_;  // of master weights; else null
};

}  // namespace model
