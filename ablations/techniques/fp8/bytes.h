// fp8 matrices as kernels write them.
#pragma once

#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/fp8/copies.h"
#include "ablations/techniques/fp8/row_copies.h"

namespace model {

inline at::Tensor fp8_bytes(at::IntArrayRef sizes, at::Device device, at::ScalarType type = at::kFloat8_e4m3fn) {
  return at::empty(sizes, at::TensorOptions(device).dtype(at::kByte)).view(type);
}

// Null where it is undefined.
inline uint8_t* fp8_pointer(const at::Tensor& x) { return x.defined() ? pointer<uint8_t>(x.view(at::kByte)) : nullptr; }

// A copy with a scale for each row, for a kernel to make beside `of` (N, C). The product that reads `of` takes it.
inline kernels::RowCopies copies_beside(const at::Tensor& of) {
  const Fp8Matrix copy{fp8_bytes(of.sizes(), of.device()),
                       at::empty({of.size(0)}, of.options().dtype(at::kFloat).requires_grad(false))};
  fp8::put(of, copy);
  return {.values = fp8_pointer(copy.values), .scales = pointer<float>(copy.scales)};
}

}  // namespace model
