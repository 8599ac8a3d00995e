#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/fp8/copies.h"
#include "ablations/techniques/weights/adamw.h"
#include "ablations/techniques/weights/gradient_norm.h"
#include "ablations/techniques/weights/master_adamw.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace model {

using at::Tensor;

namespace {

class CudaMasterAdamW : public MasterUpdate {
 public:
  explicit CudaMasterAdamW(std::vector<MasterWeight> weights) : weights_(std::move(weights)) {
    std::vector<MasterWeight> float32, split;
    std::ranges::partition_copy(weights_, std::back_inserter(float32), std::back_inserter(split),
                                [](const MasterWeight& one) { return one.weight.scalar_type() == at::kFloat; });
    all_ = table_of(weights_);
    float32_ = table_of(float32);
    split_ = table_of(split);
  }

  [[nodiscard]] Clip clip(double max_norm) const override;

  void step(const Step& step, const Tensor& coefficient) const override {
    const Node node("model::adamw");
    const auto* on_device = std::get_if<Tensor>(&step.learning_rate);
    const Tensor learning_rate =
        on_device != nullptr ? *on_device : at::full_like(step.count_on_device, std::get<double>(step.learning_rate));
    update<float>(float32_, learning_rate, step.count_on_device, coefficient);
    update<kernels::bf16>(split_, learning_rate, step.count_on_device, coefficient);
  }

 private:
  // On the device, as bytes: the tables of tensors.h.
  struct Table {
    Tensor tensors, chunks;
    int64_t chunk_count = 0;
    std::vector<Tensor> maxima;  // that the table points to
  };
  [[nodiscard]] Table table_of(const std::vector<MasterWeight>& weights) const;
  template <class T>
  void update(const Table& table, const Tensor& learning_rate, const Tensor& number, const Tensor& coefficient) const;

  std::vector<MasterWeight> weights_;  // the tables point into them
  Table all_, float32_, split_;
};

CudaMasterAdamW::Table CudaMasterAdamW::table_of(const std::vector<MasterWeight>& weights) const {
  std::vector<kernels::ParameterTensor> tensors;
  std::vector<Tensor> maxima;
  for (const MasterWeight& one : weights) {
    const bool is_split = one.weight.scalar_type() == at::kBFloat16;
    for (const Tensor* t : {&one.weight, &one.gradient, &one.first_moment, &one.second_moment}) {
      TORCH_CHECK(t->defined() && t->is_contiguous(), "CudaMasterAdamW: a tensor is missing or not contiguous");
    }
    TORCH_CHECK(is_split == one.remainder.defined(), "CudaMasterAdamW: a bf16 weight needs its remainder");
    maxima.push_back(fp8::keep_maxima(one.weight));
    tensors.push_back({.weight = one.weight.mutable_data_ptr(),
                       .remainder = is_split ? one.remainder.mutable_data_ptr<int16_t>() : nullptr,
                       .gradient = one.gradient.const_data_ptr<float>(),
                       .first_moment = one.first_moment.mutable_data_ptr<float>(),
                       .second_moment = one.second_moment.mutable_data_ptr<float>(),
                       .size = one.weight.numel(),
                       .weight_decay = static_cast<float>(one.weight_decay),
                       .maxima = pointer<float>(maxima.back())});
  }
  const std::vector<kernels::Chunk> chunks = kernels::chunks_of(tensors);
  const at::Device device = weights_.front().weight.device();
  return {.tensors = on_device(tensors, device),
          .chunks = on_device(chunks, device),
          .chunk_count = std::ssize(chunks),
          .maxima = std::move(maxima)};
}

Clip CudaMasterAdamW::clip(double max_norm) const {
  const Node node("model::gradient_norm");
  const at::TensorOptions options = weights_.front().gradient.options();
  const Tensor sums = at::empty({all_.chunk_count}, options), norm = at::empty({}, options),
               coefficient = at::empty({}, options);
  kernels::gradient_norm({.tensors = pointer<const kernels::ParameterTensor>(all_.tensors),
                          .chunks = pointer<const kernels::Chunk>(all_.chunks),
                          .chunk_count = all_.chunk_count,
                          .max_norm = static_cast<float>(max_norm),
                          .workspace = pointer<float>(sums),
                          .norm = pointer<float>(norm),
                          .coefficient = pointer<float>(coefficient)},
                         stream_for(norm));
  return {norm, coefficient};
}

template <class T>
void CudaMasterAdamW::update(const Table& table, const Tensor& learning_rate, const Tensor& number,
                             const Tensor& coefficient) const {
  kernels::adamw<T>({.tensors = pointer<const kernels::ParameterTensor>(table.tensors),
                     .chunks = pointer<const kernels::Chunk>(table.chunks),
                     .chunk_count = table.chunk_count,
                     .learning_rate = pointer<const float>(learning_rate),
                     .step = pointer<const float>(number),
                     .coefficient = pointer<const float>(coefficient),
                     .beta1 = AdamW::beta1,
                     .beta2 = AdamW::beta2,
                     .eps = AdamW::eps},
                    stream_for(coefficient));
}

}  // namespace

std::unique_ptr<const MasterUpdate> cuda_master_adamw(std::vector<MasterWeight> weights) {
  return std::make_unique<CudaMasterAdamW>(std::move(weights));
}

}  // namespace model
