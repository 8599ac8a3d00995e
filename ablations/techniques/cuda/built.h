// Whether this program has the techniques' CUDA kernels (CMake's LADDER_CUDA_KERNELS). Where it is false, nothing may
// call the functions that are named cuda_*.
#pragma once

namespace model {

inline constexpr bool has_cuda_kernels = LADDER_CUDA_KERNELS;

}  // namespace model
