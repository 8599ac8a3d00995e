// Process-wide and thread-wide switches of ATen, as scopes that restore the old setting. They set float32 matmul
// precision, autocast, the one implementation that scaled_dot_product_attention may use, and deterministic algorithms.
//
// The autocast cache holds low-precision copies of the weights. It is emptied when the outermost scope ends. Weights
// change at every step, and a stale copy would train on old weights without a sign.
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

// Enables exactly one implementation; SDPA then throws if it cannot run, instead of using another one.
// Attention::manual and Attention::packed do not use SDPA and change nothing.
class SdpaScope {
 public:
  explicit SdpaScope(Attention attention);
  ~SdpaScope();
  SdpaScope(const SdpaScope&) = delete;  // restores once
  SdpaScope& operator=(const SdpaScope&) = delete;

 private:
  bool flash_, efficient_, math_, cudnn_;
};

// ATen's deterministic algorithms: an operation that has none throws. ATen would also fill newly allocated memory with
// NaN. That is switched off, because a step reads only what it has written. With a workspace of fixed size cuBLAS adds
// in one fixed order. For this ATen reads CUBLAS_WORKSPACE_CONFIG once, at the first matrix product of the process. It
// is set here and stays set. If a product came before, the next one on CUDA throws.
class DeterminismScope {
 public:
  explicit DeterminismScope(bool deterministic);
  ~DeterminismScope();
  DeterminismScope(const DeterminismScope&) = delete;  // restores once
  DeterminismScope& operator=(const DeterminismScope&) = delete;

 private:
  bool algorithms_, warn_only_, fill_, cudnn_, cudnn_benchmark_;
};

at::ScalarType scalar_type(Autocast autocast);
at::DeviceType device_type(Device device);

}  // namespace model
