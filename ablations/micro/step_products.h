// micro products: the matrix products of a GPT-2 124M step, each in all the ways that cuBLASLt offers. It shows what a
// choice among proposals, fp8, scales by rows and epilogues bring at the power limit, before a step uses them.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

namespace ablations::micro {

// d (n, m) <- left (n, k) right (m, k)^T, as it lies in a step (TimedMatmul).
struct Product {
  std::string name;  // "c_fc_forward"
  int64_t n, m, k;
  bool left_transposed, right_transposed;
  at::ScalarType type;  // of d
  bool adds;            // the head's weight gradient, which all chunks of rows but the first add to
  bool of_gradient;     // left is one
};

// Forward, dgrad and wgrad of the head, c_fc, mlp_proj, c_attn and attn_proj.
std::vector<Product> products_of_a_step(int64_t B, int64_t T, int64_t head_rows);

// The program's arguments from "products" on. The exit status.
int run_products(int argc, char** argv);

}  // namespace ablations::micro
