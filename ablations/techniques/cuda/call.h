// What calls of our own CUDA kernels share. They use a tensor's device only to find its stream and to put other
// tensors beside it. So the same functions run on CPU tensors, where the tests compile the kernels for the CPU
// (tests/ablations/techniques/cuda/cpu_device.h).
#pragma once

#include "ablations/techniques/cuda/types.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace model {

// The current stream of the tensor's device; null on a CPU.
inline cudaStream_t stream_for(const at::Tensor& x) {
  return x.is_cuda() ? c10::cuda::getCurrentCUDAStream(x.get_device()).stream() : nullptr;
}

// The type of a tensor whose numbers a kernel takes as T; tables of structs are tensors of bytes.
template <class T>
constexpr at::ScalarType type_of() {
  if constexpr (std::is_same_v<T, float>) return at::kFloat;
  if constexpr (std::is_same_v<T, kernels::bf16>) return at::kBFloat16;
  if constexpr (std::is_same_v<T, int32_t>) return at::kInt;
  if constexpr (std::is_same_v<T, int64_t>) return at::kLong;
  return at::kByte;
}

// The tensor's numbers as a kernel takes them; null where it is undefined. Throws c10::Error for another type, or where
// the numbers do not lie side by side.
template <class T>
T* pointer(const at::Tensor& x) {
  if (!x.defined()) return nullptr;
  constexpr at::ScalarType type = type_of<std::remove_const_t<T>>();
  TORCH_CHECK(x.scalar_type() == type && x.is_contiguous(), "a CUDA kernel takes a contiguous tensor of ", type,
              ", not one of ", x.scalar_type(), " with sizes ", x.sizes(), " and strides ", x.strides());
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

// Rows of a table that a kernel reads, on the device, as bytes.
template <class Row>
at::Tensor on_device(const std::vector<Row>& rows, at::Device device) {
  const at::Tensor bytes = at::empty({static_cast<int64_t>(rows.size() * sizeof(Row))}, at::kByte);
  std::copy_n(reinterpret_cast<const uint8_t*>(rows.data()), bytes.numel(), bytes.mutable_data_ptr<uint8_t>());
  return bytes.to(device);
}

}  // namespace model
