// What was observed of a run: a record's "observations".
#pragma once

#include "results/fields.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

using Counts = std::map<std::string, int64_t>;

// 0 where it was not counted.
int64_t count(const Counts& counts, const std::string& name);

// The error of a matrix product against the CPU's in float64. It shows in which number type the product was made.
struct Fingerprint {
  std::optional<int64_t> size;           // of the square factors: 512 on a CPU, 2048 on a GPU; none in older records
  std::optional<double> relative_error;  // by Frobenius norms; none: not finite
  std::string precision;                 // of the error: "float32", "tf32 or float16", "bfloat16", "wrong"
  std::optional<std::string> kernel;     // the CPU library's call; none on a GPU

  static void fields(auto&& field) {
    field("size", &Fingerprint::size, None::absent);
    field("relative_error", &Fingerprint::relative_error);
    field("precision", &Fingerprint::precision, None::defaulted);
    field("kernel", &Fingerprint::kernel);
  }
};

// Calls to CUDA in one step; none of the numbers where nothing was counted.
struct StepCalls {
  std::optional<std::string> unavailable = {};  // why nothing was counted
  std::optional<int64_t> kernel_launches = {}, graph_launches = {}, host_waits = {};
  std::optional<Counts> calls = {};  // all of them by name; none in older records

  static void fields(auto&& field) {
    field("unavailable", &StepCalls::unavailable, None::absent);
    field("kernel_launches", &StepCalls::kernel_launches, None::absent);
    field("graph_launches", &StepCalls::graph_launches, None::absent);
    field("host_waits", &StepCalls::host_waits, None::absent);
    field("calls", &StepCalls::calls, None::absent);
  }
};

// A matrix product of a GPU's that was timed when its shape was first seen (ablations/techniques/products/products.h),
// or an operation of our own on a CPU and PyTorch's, forward and backward, that were timed before the run
// (profile/own_operations.h).
struct ProductTiming {
  std::string product, type;      // "weight_gradient", "BFloat16"; on a CPU "head", "mlp"
  int64_t m = 0, n = 0, k = 0;    // the result has m columns and n rows
  int64_t algorithm = -1;         // what was taken: cuBLASLt's number of it, on a CPU 0: ours; -1: PyTorch's way
  double microseconds = 0;        // of what was taken
  double plain_microseconds = 0;  // of PyTorch's way: on a GPU the plain product and the kernels after it
  int64_t tried = 0;              // how many ways were timed
  std::optional<double> own_microseconds = {};  // of ours, on a CPU

  static void fields(auto&& field) {
    field("product", &ProductTiming::product);
    field("type", &ProductTiming::type);
    field("m", &ProductTiming::m);
    field("n", &ProductTiming::n);
    field("k", &ProductTiming::k);
    field("algorithm", &ProductTiming::algorithm);
    field("microseconds", &ProductTiming::microseconds);
    field("plain_microseconds", &ProductTiming::plain_microseconds);
    field("tried", &ProductTiming::tried);
    field("own_microseconds", &ProductTiming::own_microseconds, None::absent);
  }
};

// Facts observed of a process, without what the recipe asked for. A fact that a record lacks has its default: older
// records, and those of PyTorch, lack some.
struct Observations {
  // Float32 matmul precision, read back: "highest", "high", "medium"; "ieee", "tf32", "bf16".
  struct MatmulPrecision {
    std::string aten, backend;

    static void fields(auto&& field) {
      field("aten", &MatmulPrecision::aten, None::defaulted);
      field("backend", &MatmulPrecision::backend, None::defaulted);
    }
  };
  struct Fingerprints {
    Fingerprint float32, autocast;  // of a product of float32 tensors, without and under autocast

    static void fields(auto&& field) {
      field("float32", &Fingerprints::float32, None::defaulted);
      field("autocast", &Fingerprints::autocast, None::defaulted);
    }
  };
  // As the loss receives them.
  struct Logits {
    std::string dtype;  // "BFloat16"
    int64_t columns = 0;

    static void fields(auto&& field) {
      field("dtype", &Logits::dtype, None::defaulted);
      field("columns", &Logits::columns, None::defaulted);
    }
  };
  // Page faults when so many bytes are freed and allocated again.
  struct Refault {
    int64_t bytes = 0, faults = 0;

    static void fields(auto&& field) {
      field("bytes", &Refault::bytes, None::defaulted);
      field("faults", &Refault::faults, None::defaulted);
    }
  };
  // Of the model's parameters: how many have which type, and how many have their gradient, written anew by a step, in
  // the same memory as before that step.
  struct Weights {
    Counts types;  // "Float"
    int64_t gradients_in_place = 0;

    static void fields(auto&& field) {
      field("types", &Weights::types, None::defaulted);
      field("gradients_in_place", &Weights::gradients_in_place, None::defaulted);
    }
  };
  // Of one step: what c10d was given to reduce over all ranks, and the size of all gradients.
  struct AllReduces {
    int64_t calls = 0, bytes = 0;
    int64_t gradient_bytes = 0;

    static void fields(auto&& field) {
      field("calls", &AllReduces::calls, None::defaulted);
      field("bytes", &AllReduces::bytes, None::defaulted);
      field("gradient_bytes", &AllReduces::gradient_bytes, None::defaulted);
    }
  };
  // How the batches came to be. Of one step; steps, by_a_thread and ready count since the process began.
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

    static void fields(auto&& field) {
      field("micro_steps", &Batches::micro_steps, None::defaulted);
      field("sequences", &Batches::sequences, None::defaulted);
      field("tokens", &Batches::tokens, None::defaulted);
      field("operations", &Batches::operations, None::defaulted);
      field("copies", &Batches::copies, None::defaulted);
      field("tokenized", &Batches::tokenized, None::defaulted);
      field("reads", &Batches::reads, None::defaulted);
      field("bytes_read", &Batches::bytes_read, None::defaulted);
      field("process_bytes_read", &Batches::process_bytes_read);
      field("mapping", &Batches::mapping);
      field("steps", &Batches::steps, None::defaulted);
      field("by_a_thread", &Batches::by_a_thread, None::defaulted);
      field("ready", &Batches::ready, None::defaulted);
    }
  };
  struct Determinism {
    bool algorithms = false;  // ATen's deterministic ones are on
    bool refuses = false;     // an operation that has no deterministic way
    bool cudnn_deterministic = false, cudnn_benchmark = false;
    std::optional<std::string> cublas_workspace;  // the variable

    static void fields(auto&& field) {
      field("algorithms", &Determinism::algorithms, None::defaulted);
      field("refuses", &Determinism::refuses, None::defaulted);
      field("cudnn_deterministic", &Determinism::cudnn_deterministic, None::defaulted);
      field("cudnn_benchmark", &Determinism::cudnn_benchmark, None::defaulted);
      field("cublas_workspace", &Determinism::cublas_workspace);
    }
  };

  std::string parameters_device;  // "cpu", "cuda:0"
  MatmulPrecision matmul_precision;
  Fingerprints fingerprint;
  Logits logits;
  std::optional<Counts> residual;         // types of what embedding, LayerNorm and the additions return
  Counts operations;                      // dispatched in a step: by phase, and "total"
  Counts update_operations;               // of the optimizer, by name
  Counts backward_nodes;                  // of the autograd graph, by name
  std::optional<Weights> weights;         // none in older records
  std::optional<AllReduces> all_reduces;  // none in older records
  std::optional<Counts> matrix_products;  // of a step, by library and type, and packed ones of bfloat16; none on a GPU
  std::optional<StepCalls> cuda_calls;    // none on a CPU
  std::optional<Batches> batches;         // none in older records
  Refault refault;
  double loss_scale = 1;  // of the gradient scaler
  Determinism determinism;
  std::vector<ProductTiming> product_timings;  // of the whole process; on a CPU those that chose its recipe

  static void fields(auto&& field) {
    field("parameters_device", &Observations::parameters_device, None::defaulted);
    field("matmul_precision", &Observations::matmul_precision, None::defaulted);
    field("fingerprint", &Observations::fingerprint, None::defaulted);
    field("logits", &Observations::logits, None::defaulted);
    field("residual", &Observations::residual, None::absent);
    field("operations", &Observations::operations, None::defaulted);
    field("update_operations", &Observations::update_operations, None::defaulted);
    field("backward_nodes", &Observations::backward_nodes, None::defaulted);
    field("weights", &Observations::weights, None::absent);
    field("all_reduces", &Observations::all_reduces, None::absent);
    field("matrix_products", &Observations::matrix_products);
    field("cuda_calls", &Observations::cuda_calls);
    field("batches", &Observations::batches, None::absent);
    field("refault", &Observations::refault, None::defaulted);
    field("loss_scale", &Observations::loss_scale, None::defaulted);
    field("determinism", &Observations::determinism, None::defaulted);
    field("product_timings", &Observations::product_timings, None::default_absent);
  }
};

// Compiled once, in the source beside this.
extern template files::Json json_of(const Observations&);
extern template Observations value_from(const files::Json&, const std::string&);

}  // namespace ablations
