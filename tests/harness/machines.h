// The two machines that the tests plan for: one without a GPU, and one with a Hopper GPU.
#pragma once

#include "harness/machine/machine.h"

namespace machines {

inline const harness::Machine cpu{.cpu = {.model = "test", .logical_cores = 2, .features = {"avx512f", "avx512_bf16"}},
                                  .gpu = {},
                                  .no_gpu_reason = "no CUDA device"};
inline const harness::Machine hopper{.cpu = cpu.cpu,
                                     .gpu = harness::Gpu{.name = "H200", .compute_capability = 90, .memory_bytes = 1},
                                     .no_gpu_reason = ""};

}  // namespace machines
