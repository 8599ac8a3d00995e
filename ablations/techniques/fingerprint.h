// Determines from the error of a matrix product in which number type it was made.
#pragma once

#include "model/recipe.h"
#include "results/observations.h"

#include <string>

namespace ablations {

// The error of a product of two normal matrices on the recipe's device, against the CPU's in float64. The matrices are
// 512 x 512 on a CPU, 2048 x 2048 on a GPU. With the recipe's autocast, or without.
Fingerprint fingerprint(const model::Recipe& recipe, bool with_autocast);

// By mantissa bits: "float32", "tf32 or float16", "bfloat16", "wrong", from the relative error (Frobenius norms) of a
// product of normal matrices. Rounding the factors gives the same error at any size; float32's own grows with the terms
// that are added up. Computed for 512 and 2048 terms (tests/ablations/techniques/fingerprint_test.cpp repeats it):
//   float32            2.4e-7 in blocks, at most 4.1e-7 (512 terms) and 8.1e-7 (2048) in one chain
//   TF32, float16      2.9e-4 rounded, 3.6e-4 with the result rounded, too, 7.7e-4 cut off to TF32, as tensor cores may
//   bfloat16           2.4e-3 rounded, 2.9e-3 with the result rounded, too, 6.2e-3 cut off
//   8 bits (e4m3)      3.7e-2 rounded: no number type of any recipe, so "wrong"
std::string precision_of(double relative_error);

// "error 2.9e-03, bfloat16, by onednn matmul bf16"
std::string in_words(const Fingerprint& fingerprint);

}  // namespace ablations
