// What was observed of a run: a record's "observations".
#pragma once

#include "harness/machine/gpu_monitor.h"
#include "results/fields.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace results {

using Counts = std::map<std::string, int64_t>;

// 0 where it was not counted.
int64_t count(const Counts& counts, const std::string& name);

// The error of a matrix product against the CPU's in float64. It shows in which number type the product was made.
struct Fingerprint {
  std::optional<int64_t> size;           // of the square factors: 512 on a CPU, 2048 on a GPU; none: not known
  std::optional<double> relative_error;  // by Frobenius norms; none: not finite
  std::string precision;                 // of the error: "float32", "tf32 or float16", "bfloat16", "wrong"
  std::optional<std::string> kernel;     // the CPU library's call; none on a GPU

  LADDER_FIELDS(Fingerprint, size, relative_error, precision, kernel)
};

// Calls to CUDA in one step. There are no numbers where nothing was counted.
struct StepCalls {
  std::optional<std::string> unavailable = {};  // why nothing was counted
  std::optional<int64_t> kernel_launches = {}, graph_launches = {}, host_waits = {};
  std::optional<Counts> calls = {};  // all of them by name

  LADDER_FIELDS(StepCalls, (unavailable, absent), (kernel_launches, absent), (graph_launches, absent),
                (host_waits, absent), (calls, absent))
};

// What was timed to choose the faster way. On a GPU: a matrix product, when its shape was first seen
// (ablations/techniques/products/products.h). On a CPU, before the run: an operation of our own and PyTorch's, forward
// and backward (ablations/profile/own_operations.h).
struct ProductTiming {
  std::string product, type;      // "weight_gradient", "BFloat16"; on a CPU "head", "mlp"
  int64_t m = 0, n = 0, k = 0;    // the result has m columns and n rows
  int64_t algorithm = -1;         // what was taken: cuBLASLt's number of it, on a CPU 0: ours; -1: PyTorch's way
  double microseconds = 0;        // of what was taken
  double plain_microseconds = 0;  // of PyTorch's way: on a GPU the plain product and the kernels after it; 0: none
  int64_t tried = 0;              // how many ways were timed
  std::optional<double> own_microseconds = {};  // of ours, on a CPU
  // On a GPU: the algorithm as cuBLASLt stores it, and the matrices' alignment in bytes. Whether that was handed over
  // by an earlier run and not timed in this one.
  std::optional<std::string> bits = {};
  std::optional<int64_t> alignment = {};
  std::optional<bool> kept = {};

  LADDER_FIELDS(ProductTiming, product, type, m, n, k, algorithm, microseconds, plain_microseconds, tried,
                (own_microseconds, absent), (bits, absent), (alignment, absent), (kept, absent))
};

// Facts observed of a process, whatever the recipe asked for. None: nobody looked.
struct Observations {
  // Float32 matmul precision, read back: "highest", "high", "medium"; "ieee", "tf32", "bf16".
  struct MatmulPrecision {
    std::string aten, backend;

    LADDER_FIELDS(MatmulPrecision, aten, backend)
  };
  struct Fingerprints {
    Fingerprint float32, autocast;  // of a product of float32 tensors, without and under autocast

    LADDER_FIELDS(Fingerprints, float32, autocast)
  };
  // As the loss receives them.
  struct Logits {
    std::string dtype;  // "BFloat16"
    int64_t columns = 0;

    LADDER_FIELDS(Logits, dtype, columns)
  };
  // Page faults when so many bytes are freed and allocated again.
  struct Refault {
    int64_t bytes = 0, faults = 0;

    LADDER_FIELDS(Refault, bytes, faults)
  };
  // The model's parameters: how many have which type. How many have their gradient, which a step writes anew, in the
  // same memory as before that step.
  struct Weights {
    Counts types;  // "Float"
    int64_t gradients_in_place = 0;

    LADDER_FIELDS(Weights, types, gradients_in_place)
  };
  // In one step: what c10d was given to reduce over all ranks, and the size of all gradients.
  struct AllReduces {
    int64_t calls = 0, bytes = 0;
    int64_t gradient_bytes = 0;

    LADDER_FIELDS(AllReduces, calls, bytes, gradient_bytes)
  };
  // How batches are made, in one step. Only steps, by_a_thread and ready count since the process began.
  struct Batches {
    int64_t micro_steps = 0, sequences = 0, tokens = 0;  // of the step, in all its micro-steps
    Counts operations;                                   // dispatched while the step had its batch made, by name
    int64_t copies = 0;                                  // runs of tokens that were copied, each by itself
    int64_t tokenized = 0;                               // tokens that were made of text
    int64_t reads = 0, bytes_read = 0;                   // of a file by calls, as the loader counts them
    std::optional<int64_t> process_bytes_read;  // by calls of the process meanwhile; none: the kernel does not say
    std::optional<std::string> mapping;         // where the tokens' file lies in the process's memory; none: nowhere
    int64_t steps = 0;                          // batches so far, each of a whole step
    int64_t by_a_thread = 0;                    // of them, made by another thread than the step's
    int64_t ready = 0;                          // of those, there when the step asked

    LADDER_FIELDS(Batches, micro_steps, sequences, tokens, operations, copies, tokenized, reads, bytes_read,
                  process_bytes_read, mapping, steps, by_a_thread, ready)
  };
  struct Determinism {
    bool algorithms = false;  // ATen's deterministic ones are on
    bool refuses = false;     // an operation that has no deterministic way
    bool cudnn_deterministic = false, cudnn_benchmark = false;
    std::optional<std::string> cublas_workspace;  // the variable

    LADDER_FIELDS(Determinism, algorithms, refuses, cudnn_deterministic, cudnn_benchmark, cublas_workspace)
  };

  std::string parameters_device;  // "cpu", "cuda:0"
  MatmulPrecision matmul_precision;
  Fingerprints fingerprint;
  Logits logits;
  std::optional<Counts> residual;  // types of what embedding, LayerNorm and the additions return
  Counts operations;               // dispatched in a step: by phase, and "total"
  Counts update_operations;        // of the optimizer, by name
  Counts backward_nodes;           // of the autograd graph, by name
  std::optional<Weights> weights;
  std::optional<AllReduces> all_reduces;
  std::optional<Counts> matrix_products;  // of a step, by library and type, and packed ones of bfloat16; none on a GPU
  std::optional<Counts> fp8_products;     // of a step, by weight, direction and type: "c_fc forward e4m3"
  std::optional<StepCalls> cuda_calls;    // none on a CPU
  std::optional<Batches> batches;
  Refault refault;
  double loss_scale = 1;  // of the gradient scaler
  Determinism determinism;
  std::vector<ProductTiming> product_timings;  // of the whole process; on a CPU those that chose its recipe

  LADDER_FIELDS(Observations, parameters_device, matmul_precision, fingerprint, logits, residual, operations,
                update_operations, backward_nodes, weights, all_reduces, matrix_products, (fp8_products, absent),
                cuda_calls, batches, refault, loss_scale, determinism, (product_timings, absent))
};

LADDER_COMPILED_ONCE(Observations)

// What was seen of a run's GPU while its steps were timed: "monitor" of a record, made of what
// harness/machine/gpu_monitor.h watches.

// The range of a series of samples.
struct Range {
  double min = 0, median = 0, max = 0;

  LADDER_FIELDS(Range, min, median, max)
};

// Why clocks were not higher.
struct Throttle {
  std::string reason;  // NVML's name
  double share = 0;    // of the samples

  LADDER_FIELDS(Throttle, reason, (share, {.above = 0, .most = 1}))
};

struct Unwatched {
  std::optional<std::string> unavailable;  // why nobody looked

  [[nodiscard]] bool is_short() const { return unavailable.has_value(); }

  LADDER_FIELDS(Unwatched, (unavailable, absent))
};

// A reading without a value has a note that says why. If nobody looked, there is only the reason.
struct MonitorSummary : Unwatched {
  using Short = Unwatched;

  int64_t samples = 0;
  std::optional<Range> sm_clock_mhz, memory_clock_mhz, power_w, temperature_c, utilization_percent;
  std::optional<std::vector<Throttle>> throttle;
  std::optional<double> energy_j;          // of the whole GPU
  std::optional<double> joules_per_token;  // none where the window was too short for the counter
  std::optional<int64_t> other_processes;  // the most that were seen at once
  std::map<std::string, std::string> notes;

  LADDER_MORE_FIELDS(Unwatched, MonitorSummary, (samples, from_0), sm_clock_mhz, memory_clock_mhz, power_w,
                     temperature_c, utilization_percent, throttle, energy_j,
                     (joules_per_token, {.least = 0, .most = 1e30}), other_processes, notes)
};

// tokens: of the timed window.
MonitorSummary summary_of(const harness::GpuWatch& watch, int64_t tokens);

LADDER_COMPILED_ONCE(MonitorSummary)

}  // namespace results
