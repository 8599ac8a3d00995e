// Which CPU library multiplied the matrices: MKL's and oneDNN's own verbose logs of a piece of work, counted.
//
// The libraries print to standard output, which is redirected while the work runs. So the work must not be timed and
// must not print anything itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace harness {

// Removes the variables that make MKL and oneDNN log every call (MKL_VERBOSE, ONEDNN_VERBOSE, ...) from this process's
// environment. Children do not get them either. The logs would mix with the results on standard output. Returns the
// variables' names. Call it before either library is used.
std::vector<std::string> silence_libraries();

// "mkl sgemm": 37, "onednn matmul bf16 (brg_matmul:avx512_core_bf16)": 120. oneDNN's name ends with the kernel that
// ran; its type is the source's. Throws std::system_error where standard output cannot be turned away.
std::map<std::string, int64_t> library_calls(const std::function<void()>& work);

// The same from the text of a log.
std::map<std::string, int64_t> count_library_calls(const std::string& log);

// The tensors that c10d is given to reduce over all ranks (c10d::allreduce_), counted where its operations are
// dispatched.

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
