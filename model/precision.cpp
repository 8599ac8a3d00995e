#include "model/precision.h"

#include <ATen/autocast_mode.h>

#include <cstdlib>

namespace model {

MatmulPrecisionScope::MatmulPrecisionScope(MatmulPrecision precision) {
  auto& context = at::globalContext();
  const auto name = [](at::Float32MatmulPrecision value) {
    switch (value) {
      case at::Float32MatmulPrecision::HIGHEST:
        return "highest";
      case at::Float32MatmulPrecision::HIGH:
        return "high";
      case at::Float32MatmulPrecision::MEDIUM:
        return "medium";
    }
    return "highest";
  };
  before_ = name(context.float32MatmulPrecision());
  context.setFloat32MatmulPrecision(precision == MatmulPrecision::highest ? "highest"
                                    : precision == MatmulPrecision::high  ? "high"
                                                                          : "medium");
}

MatmulPrecisionScope::~MatmulPrecisionScope() { at::globalContext().setFloat32MatmulPrecision(before_); }

AutocastScope::AutocastScope(at::DeviceType device, Autocast autocast)
    : device_(device),
      enabled_before_(at::autocast::is_autocast_enabled(device)),
      dtype_before_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::increment_nesting();
  at::autocast::set_autocast_enabled(device, autocast != Autocast::off);
  if (autocast != Autocast::off) at::autocast::set_autocast_dtype(device, scalar_type(autocast));
}

AutocastScope::~AutocastScope() {
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

SdpaScope::SdpaScope(Attention attention) {
  auto& context = at::globalContext();
  flash_ = context.userEnabledFlashSDP();
  efficient_ = context.userEnabledMemEfficientSDP();
  math_ = context.userEnabledMathSDP();
  cudnn_ = context.userEnabledCuDNNSDP();
  if (attention == Attention::manual || attention == Attention::packed) return;
  context.setSDPUseFlash(attention == Attention::flash);
  context.setSDPUseMemEfficient(attention == Attention::efficient);
  context.setSDPUseMath(attention == Attention::math);
  context.setSDPUseCuDNN(attention == Attention::cudnn);
}

SdpaScope::~SdpaScope() {
  auto& context = at::globalContext();
  context.setSDPUseFlash(flash_);
  context.setSDPUseMemEfficient(efficient_);
  context.setSDPUseMath(math_);
  context.setSDPUseCuDNN(cudnn_);
}

DeterminismScope::DeterminismScope(bool deterministic) {
  auto& context = at::globalContext();
  algorithms_ = context.deterministicAlgorithms();
  warn_only_ = context.deterministicAlgorithmsWarnOnly();
  fill_ = context.deterministicFillUninitializedMemory();
  cudnn_ = context.deterministicCuDNN();
  cudnn_benchmark_ = context.benchmarkCuDNN();
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  if (!deterministic) return;
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  const char* workspace = std::getenv("CUBLAS_WORKSPACE_CONFIG");
  if (workspace == nullptr || !is_deterministic_workspace(workspace)) {
    ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/1);
  }
}

DeterminismScope::~DeterminismScope() {
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(algorithms_, warn_only_);
  context.setDeterministicFillUninitializedMemory(fill_);
  context.setDeterministicCuDNN(cudnn_);
  context.setBenchmarkCuDNN(cudnn_benchmark_);
}

at::ScalarType scalar_type(Autocast autocast) {
  switch (autocast) {
    case Autocast::bf16:
      return at::kBFloat16;
    case Autocast::fp16:
      return at::kHalf;
    case Autocast::off:
      break;
  }
  return at::kFloat;
}

at::DeviceType device_type(Device device) { return device == Device::cuda ? at::kCUDA : at::kCPU; }

}  // namespace model
