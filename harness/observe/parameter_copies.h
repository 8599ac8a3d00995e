// The 16-bit copies that autocast makes of a model's parameters, and how much memory they hold. They are seen when they
// are made, and counted as long as something keeps them. Autocast's cache releases them when its scope ends; those that
// autograd saved for the backward pass stay.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <vector>

namespace harness {

class ParameterCopies {
 public:
  // Watches this thread's operations. One at a time in a thread: a second one throws std::logic_error.
  ParameterCopies();
  ~ParameterCopies();
  ParameterCopies(const ParameterCopies&) = delete;  // registered by address
  ParameterCopies& operator=(const ParameterCopies&) = delete;

  // Bytes of the copies made since construction that something still holds.
  [[nodiscard]] int64_t live_bytes() const;

 private:
  friend struct ParameterCopiesCallbacks;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made_;  // weak: watching keeps nothing alive
  uint64_t handle_;
};

}  // namespace harness
