// fp8 copies of what a step multiplies, beside the bfloat16 originals. Who makes a matrix hands its copy over here; the
// product that reads the matrix takes it. A product whose matrices both have copies is made in fp8.
//
// Scales: a number of the original is the copy's times the scale. A matrix has one scale where a bound is known: the
// weights' largest, or what a LayerNorm with its weights can come to. Else each row has its own. So nothing is
// saturated, and no scale comes from an earlier step. On an H200 scales by row cost 18 % of a product's time where 768
// numbers are added up, and nothing where 2,304 or more are (results/evidence/nvidia-h200-products-*).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace model {

// values (rows, depth) e4m3 or e5m2; scales float32: one, or one for each row.
struct Fp8Matrix {
  at::Tensor values, scales;
};

// Of a weight (out, in): `rows` (out, in) and `columns`, its transpose (in, out), each with as many equal scales as it
// has rows. Hopper adds up what lies side by side, so the gradient's product reads the transpose.
struct Fp8Weight {
  std::string name;  // "c_fc"
  Fp8Matrix rows, columns;
  at::Tensor maxima = {};        // float32, of each chunk of the weight (weights/tensors.h) the greatest magnitude
  bool are_maxima_kept = false;  // keep_maxima() was called
};

namespace fp8 {

// All of them may be called from any thread. A copy is forgotten with its original's memory.

void put_weight(const at::Tensor& weight, const Fp8Weight& copy);
// Of the weight, or of its transposed view.
std::optional<Fp8Weight> weight_of(const at::Tensor& weight);
// Its maxima, which the caller writes from now on whenever it updates the weight. Undefined: it has no copies.
at::Tensor keep_maxima(const at::Tensor& weight);

// Of what the LayerNorm with this weight makes; undefined: no copy of it is wanted.
void put_norm_scale(const at::Tensor& weight, const at::Tensor& scale);
at::Tensor norm_scale_of(const at::Tensor& weight);

// Who makes the gradient of a result to which this bias was added makes a copy of it, too.
void put_copied_gradient(const at::Tensor& bias);
bool is_gradient_copied(const at::Tensor& bias);  // it may be undefined

// `of` (rows, depth), contiguous.
void put(const at::Tensor& of, const Fp8Matrix& copy);
// Some of its rows, or all. Who takes the last row takes the copy away. None: nobody made one.
std::optional<Fp8Matrix> take(const at::Tensor& rows);

// Products so far, of this process: by weight, direction and type, "c_fc forward e4m3". Where a weight has copies and
// the product was made in bfloat16 all the same: "c_fc forward bf16".
void count(const std::string& product);
std::map<std::string, int64_t> counts();

}  // namespace fp8

}  // namespace model
