// A matrix product of cuBLASLt's, in its own terms. It counts columns first: a matrix (R, S) that lies row by row is to
// it the transposed one, (S, R), column by column, with leading dimension S. So it is asked for D^T, and gives D row by
// row:
//
//     y = x W^T + b        y^T = W x^T          A = W transposed (it reads W^T), B = x as it lies (it reads x^T)
//     dx = dy W            dx^T = W^T dy^T      A = W as it lies, B = dy as it lies
//     gradient = a^T b     gradient^T = b^T a   A = b as it lies, B = a transposed
//
// Its bias has a number for each row of what it computes, D^T: a column of D, an output of the layer. The auxiliary
// matrix, what GELU reads, lies as D does.
#pragma once

#include <ATen/ATen.h>
#include <cublasLt.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace model::blas {

constexpr int64_t workspace_bytes = int64_t{32} << 20;

void check(cublasStatus_t status, const char* call);

// D = op(A) op(B), or D += op(A) op(B). Matrices are contiguous.
struct Product {
  std::string name;
  const at::Tensor &a, &b, &d;
  bool a_transposed = false, b_transposed = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  at::Tensor bias = {}, auxiliary = {};   // undefined where the epilogue has none
  std::function<void()> after = nullptr;  // what follows the epilogue, timed with it, and the other way includes
  bool accumulate = false;
  // Of fp8: what its numbers are multiplied by, float32. One for a matrix, or one for each row of what lies there.
  at::Tensor a_scale = {}, b_scale = {};

  [[nodiscard]] int64_t depth() const { return a.size(a_transposed ? 1 : 0); }
};

bool uses_tf32(const Product& product);

// Of A, B and D in memory, in bytes; 256 at most.
int64_t alignment_of(const Product& product);

class Matmul {
 public:
  explicit Matmul(const Product& product);

  // At most so many, the best by its heuristics first. Empty where it has none for these sizes; `status` then says
  // more.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> proposals(int most, int64_t most_workspace = workspace_bytes,
                                                            cublasStatus_t* status = nullptr);

  // Into `d`, the product's or another one like it. The workspace has workspace_bytes.
  [[nodiscard]] cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm, const at::Tensor& d,
                                   const at::Tensor& workspace);

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value);

  const Product& product_;
  cublasLtMatmulDescOpaque_t description_{};
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, c_{}, d_{};
};

}  // namespace model::blas
