#include "harness/observe/parameter_copies.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <stdexcept>

namespace harness {
namespace {

// Callbacks are plain functions, so they find their object through a thread-local pointer.
thread_local ParameterCopies* watching = nullptr;

}  // namespace

struct ParameterCopiesCallbacks {
  // An operation's inputs are there only when it begins, its outputs only when it ends. This hands on from begin to end
  // that the input is a parameter.
  struct OfParameter : at::ObserverContext {};

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    if (std::string_view(function.name()) != "aten::_to_copy") return nullptr;
    const auto inputs = function.inputs();
    if (inputs.empty() || !inputs[0].isTensor()) return nullptr;
    const at::Tensor& from = inputs[0].toTensor();
    if (!from.defined() || !from.is_leaf() || !from.requires_grad()) return nullptr;
    return std::make_unique<OfParameter>();
  }

  static void end(const at::RecordFunction& function, at::ObserverContext* of_parameter) {
    if (of_parameter == nullptr || watching == nullptr) return;
    for (const c10::IValue& output : function.outputs()) {
      if (output.isTensor()) watching->made_.push_back(output.toTensor().storage().getWeakStorageImpl());
    }
  }
};

ParameterCopies::ParameterCopies() {
  if (watching != nullptr) throw std::logic_error("ParameterCopies: one is already watching this thread");
  watching = this;
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(ParameterCopiesCallbacks::begin, ParameterCopiesCallbacks::end)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
}

ParameterCopies::~ParameterCopies() {
  at::removeCallback(handle_);
  watching = nullptr;
}

int64_t ParameterCopies::live_bytes() const {
  int64_t bytes = 0;
  for (const auto& copy : made_) {
    if (const auto storage = copy.lock()) bytes += static_cast<int64_t>(storage->nbytes());
  }
  return bytes;
}

}  // namespace harness
