// The tensors that c10d is given to reduce over all ranks (c10d::allreduce_), counted where its operations are
// dispatched.
#pragma once

#include <cstdint>

namespace harness {

class AllReduces {
 public:
  // Watches all threads' operations. One at a time: a second one throws std::logic_error.
  AllReduces();
  ~AllReduces();
  AllReduces(const AllReduces&) = delete;  // registered once
  AllReduces& operator=(const AllReduces&) = delete;

  // Since construction.
  [[nodiscard]] int64_t calls() const;
  [[nodiscard]] int64_t bytes() const;

 private:
  uint64_t handle_;
};

}  // namespace harness
