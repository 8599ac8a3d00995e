#include "harness/observe/all_reduces.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <atomic>
#include <stdexcept>
#include <string_view>

namespace harness {
namespace {

// Callbacks are plain functions, so they write to global data.
std::atomic<bool> active = false;
std::atomic<int64_t> calls_seen = 0, bytes_seen = 0;

std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& function) {
  if (std::string_view(function.name()) != "c10d::allreduce_") return nullptr;
  ++calls_seen;
  const auto inputs = function.inputs();
  if (inputs.empty() || !inputs[0].isTensorList()) return nullptr;
  for (const at::Tensor& tensor : inputs[0].toTensorVector()) bytes_seen += static_cast<int64_t>(tensor.nbytes());
  return nullptr;
}

}  // namespace

AllReduces::AllReduces() {
  if (active.exchange(true)) throw std::logic_error("AllReduces: one is already counting");
  calls_seen = bytes_seen = 0;
  handle_ =
      at::addGlobalCallback(at::RecordFunctionCallback(see).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

AllReduces::~AllReduces() {
  at::removeCallback(handle_);
  active = false;
}

int64_t AllReduces::calls() const { return calls_seen; }
int64_t AllReduces::bytes() const { return bytes_seen; }

}  // namespace harness
