// Which of cuBLASLt's algorithms makes a product, or what other way: by timing, when its shape is first seen.
//
// They are timed as they run in a step: captured in a graph, with nothing of theirs in L2, on a warm GPU. Another one
// than the first proposal, or than the other way of a product with GELU, is taken only if it is more than 3 % faster in
// the same round (fastest.h). So what a coin decides stays within 3 %. For the losses' sake it should not decide anew
// in each run: choices can be handed over (products.h: keep_product_timings()). While a graph is captured, and with
// deterministic algorithms, nothing is timed. Then the first proposal is taken, or the other way where something
// follows the epilogue.
#pragma once

#include "ablations/techniques/products/matmul.h"

#include <functional>
#include <optional>

namespace model::blas {

// Writes D, or adds to it, by other means than cuBLASLt. Null: there are none.
using OtherWay = std::function<void(const at::Tensor& d)>;

// No value: the other way.
std::optional<cublasLtMatmulAlgo_t> choose(const Product& product, Matmul& matmul, const OtherWay& other_way);

}  // namespace model::blas
