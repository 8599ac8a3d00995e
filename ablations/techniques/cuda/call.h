// What calls of our own CUDA kernels share. Nothing here or in this folder asks on which device a tensor lies, except
// for its stream: so the same functions run on CPU tensors, where the tests compile the kernels for the CPU
// (tests/ablations/techniques/cuda/cpu_device.h).
#pragma once

#include "ablations/techniques/cuda/types.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <type_traits>

namespace model {

// The current stream of the tensor's device; null on a CPU.
inline cudaStream_t stream_for(const at::Tensor& x) {
  return x.is_cuda() ? c10::cuda::getCurrentCUDAStream(x.get_device()).stream() : nullptr;
}

// Its numbers as a kernel takes them. Null where it is undefined.
template <class T>
T* pointer(const at::Tensor& x) {
  if (!x.defined()) return nullptr;
  if constexpr (std::is_const_v<T>) {
    return static_cast<T*>(x.const_data_ptr());
  } else {
    return static_cast<T*>(x.mutable_data_ptr());
  }
}

// f.operator()<T>() with the kernels' T for the type.
template <class F>
void with_type(at::ScalarType type, const F& f) {
  TORCH_CHECK(type == at::kFloat || type == at::kBFloat16, "the CUDA kernels know float32 and bfloat16, not ",
              at::toString(type));
  if (type == at::kFloat) {
    f.template operator()<float>();
  } else {
    f.template operator()<kernels::bf16>();
  }
}

}  // namespace model
