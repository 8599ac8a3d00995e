// What callers of our kernels need of CUDA: its stream, and the name of its 16-bit float. A tensor's BFloat16 has the
// same bits, so its pointer is cast.
#pragma once

#include <cuda_runtime_api.h>

struct __nv_bfloat16;  // NOLINT(bugprone-reserved-identifier): cuda_bf16.h's

namespace kernels {

using bf16 = __nv_bfloat16;

}  // namespace kernels
