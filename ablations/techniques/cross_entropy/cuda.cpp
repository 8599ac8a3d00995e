// By the kernels of cross_entropy.cu and scale.cu. Nothing waits for the device.
#include "ablations/techniques/cross_entropy/cross_entropy.h"
#include "ablations/techniques/cross_entropy/head_loss.h"
#include "ablations/techniques/cross_entropy/scale.h"
#include "ablations/techniques/fp8/bytes.h"

namespace model {

using at::Tensor;

namespace {

void loss(const Tensor& logits, const Tensor& targets, const Tensor& losses, int64_t vocabulary, float scale,
          bool /*differentiated*/, bool fp8) {
  const Tensor copy = fp8 ? fp8_bytes(logits.sizes(), logits.device(), at::kFloat8_e5m2) : Tensor();
  const Tensor copy_scale = fp8 ? at::empty({1}, losses.options()) : Tensor();
  with_type(logits.scalar_type(), [&]<class T>() {
    kernels::cross_entropy<T>({.logits = pointer<T>(logits),
                               .targets = pointer<const int64_t>(targets),
                               .losses = pointer<float>(losses),
                               .N = logits.size(0),
                               .V = vocabulary,
                               .stride = logits.size(1),
                               .scale = scale,
                               .copy = fp8_pointer(copy),
                               .copy_scale = pointer<float>(copy_scale)},
                              stream_for(logits));
  });
  if (fp8) fp8::put(logits, {copy, copy_scale});
}

Tensor mean(const Tensor& losses) {
  const Tensor mean = at::empty({}, losses.options());
  kernels::mean_loss(pointer<const float>(losses), losses.numel(), pointer<float>(mean), stream_for(losses));
  return mean;
}

void scale(const Tensor& gradient, const Tensor& factor) {
  with_type(gradient.scalar_type(), [&]<class T>() {
    kernels::scale<T>(pointer<T>(gradient), gradient.numel(), pointer<const float>(factor), stream_for(gradient));
  });
}

}  // namespace

const HeadLossKernels head_loss_on_cuda{loss, mean, scale, /*check_factor=*/nullptr};

}  // namespace model
