// Gradients in a buffer that stays where it is. The operations' backward passes write the gradients of weights there.
// Autograd gets none to accumulate, as with Megatron's and TransformerEngine's main_grad. Nothing is set to zero: a
// step's first gradient takes the place of what is there, and what follows is added.
//
// The buffer begins with the layers' matrices, from the last layer to the first. So a backward pass completes it from
// its beginning to its end, and several ranks may reduce its beginning while the pass goes on.
#pragma once

#include "model/gpt2.h"
#include "model/recipe.h"

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace model {

class Gradients {
 public:
  // Gives each parameter a part of the float32 buffer as its grad(), at a multiple of 16 bytes. From then on no
  // parameter requires gradients of autograd.
  // `finish`: adds up what backward passes leave (leave()); null where they leave nothing.
  explicit Gradients(const std::vector<Parameter>& parameters, void (*finish)(Gradients&) = nullptr);

  // Called before each step. `loss_factor`: what the step multiplies its losses by before their backward passes. The
  // fused head makes its gradients in the forward pass and must know it then.
  void begin_step(double loss_factor = 1);
  [[nodiscard]] double loss_factor() const { return loss_factor_; }
  [[nodiscard]] int64_t steps() const { return steps_; }  // that have begun

  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }

  struct Place {
    at::Tensor buffer;        // of the weight's shape
    bool accumulate = false;  // add to what is there; else take its place
  };
  // Where the next gradient of the weight goes. The host alone decides it. Each step asks in the same order and gets
  // the same answers, so a captured step may be replayed. Throws std::logic_error for what is no parameter.
  Place place_of(const at::Tensor& weight);
  [[nodiscard]] bool has(const at::Tensor& weight) const;  // whether it is a parameter

  // A gradient (C) as sums over parts of a step's rows, (parts, C) float32, which are still to be added up in its
  // place.
  struct Parts {
    at::Tensor sums;
    Place place;
  };
  // Leaves that to the next take_left(), at the end of backward() at last.
  void leave(Parts parts) {
    left_bytes_ += parts.sums.nbytes();
    left_.push_back(std::move(parts));
  }
  [[nodiscard]] size_t left_bytes() const { return left_bytes_; }
  // All that was left since the last call.
  [[nodiscard]] std::vector<Parts> take_left() {
    left_bytes_ = 0;
    return std::exchange(left_, {});
  }

  using Reduce = std::function<void(const at::Tensor& chunk)>;
  // loss.backward(), and what it left. With `reduce`, of a step's last micro-step: it gets each chunk of the buffer
  // once the work that completes it is enqueued: the matrices of each layer, at last all others and values(). Throws
  // std::logic_error for a pass that does not complete the layers from the last to the first.
  void backward(const at::Tensor& loss, const Reduce& reduce = nullptr);
  // (2) float32 at the buffer's end: what a step reduces beside gradients.
  [[nodiscard]] at::Tensor values() const;

 private:
  struct Own {
    size_t chunk;
    bool written = false;  // in this step
  };
  struct Chunk {
    int64_t begin;  // in the buffer
    size_t weights = 0;
  };
  void reduce_if_complete();
  void reduce_chunk();

  void (*finish_)(Gradients&);
  at::Tensor buffer_;
  std::unordered_map<const at::TensorImpl*, Own> places_;
  std::vector<Chunk> chunks_;
  const Reduce* reduce_ = nullptr;  // in a backward pass that reduces
  size_t chunk_ = 0, written_ = 0;  // of that pass: the first chunk that is not reduced, and its weights that are made
  double loss_factor_ = 1;
  int64_t steps_ = 0;
  std::vector<Parameter> parameters_;
  std::vector<Parts> left_;
  size_t left_bytes_ = 0;
};

// The same for a backward pass that may have no such buffers. Where `gradients` is null, it is a new float32 buffer to
// be written.
Gradients::Place place_for(Gradients* gradients, const at::Tensor& weight);

// Writes the gradient there, or adds it.
void put(const Gradients::Place& place, const at::Tensor& gradient);

// What a backward pass returns for a weight whose gradient it has made. That is the gradient itself where `gradients`
// is null. Else it is written or added to the weight's buffer, and undefined is returned.
at::Tensor deliver(Gradients* gradients, const at::Tensor& weight, const at::Tensor& gradient);

// For an autograd context's saved_data, which holds numbers and no pointers.
template <class T>
int64_t handle_of(T* pointer) {
  return reinterpret_cast<int64_t>(pointer);
}
template <class T>
T* from_handle(const c10::IValue& handle) {
  return reinterpret_cast<T*>(handle.toInt());  // NOLINT(performance-no-int-to-ptr): handle_of's
}

}  // namespace model
