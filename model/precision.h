// Process-wide and thread-wide switches of ATen as scopes that put back what they found: float32 matmul precision,
// autocast, and the one implementation that scaled_dot_product_attention may use.
//
// The autocast cache holds low-precision copies of the weights; it is emptied when the outermost scope ends, because
// weights change at every step and a stale copy would train on old weights without a sign.
#pragma once

#include "model/recipe.h"

#include <ATen/ATen.h>

#include <string>

namespace model {

class MatmulPrecisionScope {
 public:
  explicit MatmulPrecisionScope(MatmulPrecision precision);
  ~MatmulPrecisionScope();
  MatmulPrecisionScope(const MatmulPrecisionScope&) = delete;  // restores once
  MatmulPrecisionScope& operator=(const MatmulPrecisionScope&) = delete;

 private:
  std::string before_;
};

class AutocastScope {
 public:
  AutocastScope(at::DeviceType device, Autocast autocast);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;  // restores once
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  at::DeviceType device_;
  bool enabled_before_;
  at::ScalarType dtype_before_;
};

// Enables exactly one implementation; SDPA then throws where it cannot run, instead of taking another one.
// Attention::manual does not use SDPA and changes nothing.
class SdpaScope {
 public:
  explicit SdpaScope(Attention attention);
  ~SdpaScope();
  SdpaScope(const SdpaScope&) = delete;  // restores once
  SdpaScope& operator=(const SdpaScope&) = delete;

 private:
  bool flash_, efficient_, math_, cudnn_;
};

at::ScalarType scalar_type(Autocast autocast);
at::DeviceType device_type(Device device);

}  // namespace model
