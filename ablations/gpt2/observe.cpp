#include "ablations/gpt2/observe.h"

#include "ablations/techniques/fp8/copies.h"
#include "ablations/techniques/observers.h"
#include "ablations/techniques/products/products.h"
#include "harness/gpu/cuda_calls.h"
#include "harness/machine/file_use.h"
#include "harness/observe/library_calls.h"
#include "harness/observe/operation_log.h"
#include "model/precision.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/StorageImpl.h>

#include <optional>
#include <vector>

namespace ablations {
namespace {

using at::Tensor;

// A step of its own, as a timed one: nothing else watches it.
StepCalls cuda_calls(model::Trainer& trainer) {
  trainer.synchronize();
  const harness::CudaCalls seen = harness::cuda_calls([&] { trainer.step(); });
  trainer.synchronize();
  if (!seen.unavailable.empty()) return {.unavailable = seen.unavailable};
  return {.unavailable = {},
          .kernel_launches = harness::sum(seen.kernel_launches()),
          .graph_launches = harness::sum(seen.graph_launches()),
          .host_waits = harness::sum(seen.host_waits()),
          .calls = seen.calls};
}

int64_t gradient_bytes(model::Trainer& trainer) {
  const int64_t alignment = trainer.recipe().weights == model::Weights::master ? 16 : 1;  // gradients.h
  int64_t bytes = 0;
  for (const model::Parameter& parameter : trainer.model().parameters()) {
    if (!parameter.tensor.grad().defined()) continue;
    const auto own = static_cast<int64_t>(parameter.tensor.grad().nbytes());
    bytes += (own + alignment - 1) / alignment * alignment;
  }
  return bytes;
}

// Where a parameter's gradient is, without keeping it there, and a number that tells it from another one. A sum would
// not: behind LayerNorm a bias's gradient adds up to 0, except for rounding.
struct Gradient {
  c10::weak_intrusive_ptr<c10::StorageImpl> memory;
  double norm;
};

std::vector<std::optional<Gradient>> gradients_of(const model::GPT2& gpt2) {
  std::vector<std::optional<Gradient>> gradients;
  for (const model::Parameter& parameter : gpt2.parameters()) {
    const Tensor& gradient = parameter.tensor.grad();
    gradients.push_back(gradient.defined() ? std::optional(Gradient{gradient.storage().getWeakStorageImpl(),
                                                                    gradient.norm().item<double>()})
                                           : std::nullopt);
  }
  return gradients;
}

// `before`: a step ago.
Observations::Weights weights_of(const model::GPT2& gpt2, const std::vector<std::optional<Gradient>>& before) {
  Observations::Weights seen;
  const std::vector<std::optional<Gradient>> now = gradients_of(gpt2);
  for (size_t i = 0; i < now.size(); ++i) {
    ++seen.types[at::toString(gpt2.parameters()[i].tensor.scalar_type())];
    if (!before[i] || !now[i]) continue;
    if (before[i]->memory == now[i]->memory && before[i]->norm != now[i]->norm) ++seen.gradients_in_place;
  }
  return seen;
}

// Restores the trainer after an observed step, however it ends. The replaced parts refer to objects of this scope.
class Callbacks {
 public:
  explicit Callbacks(model::Trainer& trainer) : ops(trainer.ops()), on_phase(trainer.on_phase), trainer_(trainer) {}
  ~Callbacks() {
    trainer_.ops() = ops;
    trainer_.on_phase = on_phase;
  }
  Callbacks(const Callbacks&) = delete;  // puts back once
  Callbacks& operator=(const Callbacks&) = delete;

  const model::Ops ops;
  const decltype(model::Trainer::on_phase) on_phase;

 private:
  model::Trainer& trainer_;
};

// How one step had its batch made. Between begin() and end() there is nothing else.
class BatchWatch {
 public:
  explicit BatchWatch(const model::Inputs& inputs) : inputs_(inputs) {}
  void begin() {
    before_ = inputs_.work().work;
    reads_ = harness::ReadCount::now();
  }
  void end() {
    const auto now = harness::ReadCount::now();
    if (reads_ && now) seen_.process_bytes_read = now->since(*reads_).bytes;
    const model::InputWork& after = inputs_.work();
    seen_.copies = after.work.copies - before_.copies;
    seen_.tokenized = after.work.tokenized - before_.tokenized;
    seen_.reads = after.work.reads - before_.reads;
    seen_.bytes_read = after.work.bytes_read - before_.bytes_read;
    seen_.steps = after.steps;
    seen_.by_a_thread = after.by_a_thread;
    seen_.ready = after.ready;
  }
  Observations::Batches seen(const Counts& operations) {
    const Tensor& batch = inputs_.batch();  // (micro_steps, 2, B, T)
    seen_.micro_steps = batch.size(0);
    seen_.sequences = batch.size(0) * batch.size(2);
    seen_.tokens = seen_.sequences * batch.size(3);
    seen_.operations = operations;
    if (const auto mapping = harness::mapping_of(inputs_.file())) seen_.mapping = mapping->address;
    return seen_;
  }

 private:
  const model::Inputs& inputs_;
  model::BatchWork before_;
  std::optional<harness::ReadCount> reads_;
  Observations::Batches seen_;
};

// One step, watched from within: what it is made of, where it dispatches its operations.
Observed watch_step(model::Trainer& trainer) {
  const std::vector<std::optional<Gradient>> gradients_before = gradients_of(trainer.model());
  const model::Recipe& recipe = trainer.recipe();
  Observed result;
  Observations& seen = result.observations;
  const Callbacks original(trainer);
  for (const Observer& observer : observers()) {
    if (observer.watch != nullptr) observer.watch(trainer.ops(), seen);
  }
  trainer.ops().head = [&](const Tensor& x, const Tensor& wte) {
    Tensor logits = original.ops.head(x, wte);
    seen.logits.dtype = at::toString(logits.scalar_type());
    seen.logits.columns = logits.size(-1);
    return logits;
  };
  // If the head is part of the loss, its logits cannot be seen. The head's own logits of one row stand for them.
  trainer.ops().head_loss = [&](const model::Ops& ops, const Tensor& x, const Tensor& wte, const Tensor& targets,
                                int64_t vocabulary) {
    Tensor loss = original.ops.head_loss(ops, x, wte, targets, vocabulary);
    if (seen.logits.columns == 0) {
      const at::NoGradGuard no_grad;
      (void)ops.head(x.flatten(0, 1).narrow(0, 0, 1), wte);
    }
    return loss;
  };
  harness::OperationLog log;
  const harness::MemoryLog memory(model::device_type(recipe.device));
  const harness::ParameterCopies copies;
  const harness::AllReduces all_reduces;
  BatchWatch batches(trainer.inputs());
  bool in_data = false;
  std::optional<int64_t> before_forward, after_forward;
  trainer.on_phase = [&](std::string_view phase) {
    if (in_data) batches.end();
    original.on_phase(phase);
    log.begin_phase(phase);
    in_data = phase == "data";
    if (in_data) batches.begin();
    if (phase == "forward" && !before_forward) before_forward = memory.live_bytes();
    if (phase == "backward" && !after_forward) {
      after_forward = memory.live_bytes();
      result.memory.weight_copies = copies.live_bytes();
    }
  };
  const Counts fp8_before = model::fp8::counts();
  if (recipe.device == model::Device::cpu) {
    const int64_t packed_before = model::packed_bf16_products();
    seen.matrix_products = harness::library_calls([&] { trainer.step(); });
    const int64_t packed = model::packed_bf16_products() - packed_before;
    if (packed > 0) (*seen.matrix_products)["packed bf16"] = packed;
  } else {
    trainer.step();
    trainer.synchronize();
  }
  for (const auto& [name, calls] : model::fp8::counts()) {
    if (const int64_t made = calls - count(fp8_before, name); made > 0) {
      if (!seen.fp8_products) seen.fp8_products.emplace();
      (*seen.fp8_products)[name] = made;
    }
  }
  for (const char* phase : {"data", "forward", "backward", "clip", "update"}) {
    seen.operations[phase] = harness::sum(log.operations(phase));
  }
  seen.operations["total"] = log.total();
  seen.batches = batches.seen(log.operations("data"));
  seen.all_reduces = {
      .calls = all_reduces.calls(), .bytes = all_reduces.bytes(), .gradient_bytes = gradient_bytes(trainer)};
  seen.update_operations = log.operations("update");
  seen.backward_nodes = log.backward_nodes();
  {
    const at::DisableRecordFunctionGuard unwatched;
    seen.weights = weights_of(trainer.model(), gradients_before);
  }
  if (before_forward && after_forward) {
    result.memory.activations = *after_forward - *before_forward - result.memory.weight_copies;
  }
  return result;
}

}  // namespace

Observed observe(model::Trainer& trainer) {
  const model::Recipe& recipe = trainer.recipe();
  std::optional<StepCalls> calls;
  if (recipe.device == model::Device::cuda) calls = cuda_calls(trainer);
  Observed result = watch_step(trainer);
  if (recipe.execution == model::Execution::graph) {
    const Counts replayed = result.observations.operations;
    trainer.recapture();
    result = watch_step(trainer);
    result.observations.operations = replayed;
  }
  result.observations.cuda_calls = calls;
  result.observations.product_timings = model::product_timings();
  for (const Observer& observer : observers()) {
    if (observer.observe != nullptr) observer.observe(trainer, result.observations);
  }
  result.memory.weights = trainer.weight_bytes();
  result.memory.gradients = gradient_bytes(trainer);
  result.memory.optimizer = trainer.optimizer_bytes();
  return result;
}

}  // namespace ablations
