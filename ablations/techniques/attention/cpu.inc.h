// Causal attention, one head of one sequence at a time. Part of kernels.inc.h.
//
// The scores of a block of queries with all keys up to them fit in the second cache. So each row's softmax is made at
// once. They are kept transposed, a row for each key. So the loops over queries are vectors, and every product below
// reads its matrices as they are. Blocks of keys that the causal mask hides are left out.
#pragma once

#include "ablations/techniques/attention/loops.h"
#include "ablations/techniques/cpu/vectors.inc.h"
#include "ablations/techniques/products/cpu.inc.h"

namespace model::cpu {
namespace {

constexpr int64_t block = 32;            // queries
constexpr int64_t key_row = block + NR;  // numbers from one key's scores to the next; a tile of MR queries fits in it
constexpr int64_t vectors = block / Vector::size();
static_assert(block % NR == 0 && NR >= MR);

int64_t rounded_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// c (rows, columns) = a b, or c += a b, in whole tiles: what is beyond `rows` and `columns` is computed, too.
void multiply(int64_t rows, int64_t columns, int64_t depth, const float* a, int64_t a_row, int64_t a_column,
              const float* b, int64_t b_row, float* c, int64_t c_row, bool accumulate) {
  const float zeros[NR] = {};
  for (int64_t j = 0; j < columns; j += NR) {
    for (int64_t i = 0; i < rows; i += MR) {
      tile(MakeRows<MR>::type(), depth, a + i * a_row, a_row, a_column, b + j, b_row, c + i * c_row + j, c_row,
           accumulate ? nullptr : zeros);
    }
  }
}

// Rows of one head, HS numbers each, as floats. Rows and columns up to whole tiles are there, and zero.
class HeadRows {
 public:
  HeadRows(int64_t rows, int64_t HS)
      : HS_(HS), row_(rounded_up(HS, NR)), numbers_((rounded_up(rows, block) + MR) * row_) {
    for (int64_t i = 0; i < (rounded_up(rows, block) + MR) * row_; ++i) data()[i] = 0;
  }
  float* data() { return numbers_.data(); }
  float* at(int64_t i) { return data() + i * row_; }
  [[nodiscard]] int64_t row() const { return row_; }

  template <class T>
  void read(const T* from, int64_t from_row, int64_t rows, float factor = 1) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t p = 0; p < HS_; ++p) at(i)[p] = static_cast<float>(from[i * from_row + p]) * factor;
    }
  }
  template <class T>
  void write(T* to, int64_t to_row, int64_t rows, float factor = 1) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t p = 0; p < HS_; ++p) to[i * to_row + p] = static_cast<T>(at(i)[p] * factor);
    }
  }
  // (HS, block): the rows of a block as columns.
  void transpose(int64_t first, float* to) {
    for (int64_t i = 0; i < block; ++i) {
      for (int64_t p = 0; p < HS_; ++p) to[p * block + i] = at(first + i)[p];
    }
  }

 private:
  int64_t HS_, row_;
  Row numbers_;
};

// (keys, key_row) scores of a block of queries.
class Scores {
 public:
  explicit Scores(int64_t T) : numbers_((T + MR) * key_row) {
    for (int64_t i = 0; i < (T + MR) * key_row; ++i) data()[i] = 0;
  }
  float* data() { return numbers_.data(); }
  float* of_key(int64_t j) { return data() + j * key_row; }

  // The queries from `first` on see no key after their own.
  void mask(int64_t first, int64_t keys, float value) {
    for (int64_t j = first; j < keys; ++j) {
      for (int64_t i = 0; i < j - first; ++i) of_key(j)[i] = value;
    }
  }

 private:
  Row numbers_;
};

float scale_of(int64_t HS) { return 1.0F / __builtin_sqrtf(static_cast<float>(HS)); }

template <class T>
void attention_heads(const Attention& a, int64_t begin, int64_t end) {
  const int64_t C = a.NH * a.HS;
  HeadRows q(a.T, a.HS), k(a.T, a.HS), v(a.T, a.HS), out(block, a.HS);
  Scores scores(a.T);
  Row q_columns(a.HS * block);
  for (int64_t head = begin; head < end; ++head) {
    const int64_t b = head / a.NH, h = head % a.NH;
    const T* qkv = static_cast<const T*>(a.qkv) + b * a.T * 3 * C + h * a.HS;
    q.read(qkv, 3 * C, a.T, scale_of(a.HS));
    k.read(qkv + C, 3 * C, a.T);
    v.read(qkv + 2 * C, 3 * C, a.T);
    for (int64_t first = 0; first < a.T; first += block) {
      const int64_t queries = least(block, a.T - first), keys = first + queries;
      q.transpose(first, q_columns.data());
      multiply(keys, block, a.HS, k.data(), k.row(), 1, q_columns.data(), block, scores.data(), key_row, false);
      scores.mask(first, keys, -__builtin_inff());
      Vector most[vectors], sum[vectors];
      for (int64_t i = 0; i < vectors; ++i) most[i] = Vector(-__builtin_inff()), sum[i] = Vector(0.0F);
      for (int64_t j = 0; j < keys; ++j) {
        for (int64_t i = 0; i < vectors; ++i) {
          most[i] = at::vec::maximum(most[i], Vector::loadu(scores.of_key(j) + i * Vector::size()));
        }
      }
      for (int64_t j = 0; j < keys; ++j) {
        for (int64_t i = 0; i < vectors; ++i) {
          float* at = scores.of_key(j) + i * Vector::size();
          const Vector e = (Vector::loadu(at) - most[i]).exp();
          e.store(at);
          sum[i] = sum[i] + e;
        }
      }
      multiply(block, a.HS, keys, scores.data(), 1, key_row, v.data(), v.row(), out.data(), out.row(), false);
      float greatest[block], sums[block];
      for (int64_t i = 0; i < vectors; ++i) {
        most[i].store(greatest + i * Vector::size());
        sum[i].store(sums + i * Vector::size());
      }
      for (int64_t i = 0; i < queries; ++i) {
        a.logsumexp[head * a.T + first + i] = greatest[i] + __builtin_logf(sums[i]);
        for (int64_t p = 0; p < a.HS; ++p) out.at(i)[p] /= sums[i];
      }
      out.write(static_cast<T*>(a.out) + (b * a.T + first) * C + h * a.HS, C, queries);
    }
  }
}

template <class T>
void attention_backward_heads(const AttentionBackward& a, int64_t begin, int64_t end) {
  const int64_t C = a.NH * a.HS;
  HeadRows q(a.T, a.HS), k(a.T, a.HS), v(a.T, a.HS), d_out(a.T, a.HS), out(a.T, a.HS), d_q(block, a.HS);
  Scores p(a.T), d_p(a.T);
  Row q_columns(a.HS * block), d_out_columns(a.HS * block);
  for (int64_t head = begin; head < end; ++head) {
    const int64_t b = head / a.NH, h = head % a.NH;
    const T* qkv = static_cast<const T*>(a.qkv) + b * a.T * 3 * C + h * a.HS;
    T* d_qkv = static_cast<T*>(a.d_qkv) + b * a.T * 3 * C + h * a.HS;
    const int64_t of_out = b * a.T * C + h * a.HS;
    q.read(qkv, 3 * C, a.T, scale_of(a.HS));
    k.read(qkv + C, 3 * C, a.T);
    v.read(qkv + 2 * C, 3 * C, a.T);
    out.read(static_cast<const T*>(a.out) + of_out, C, a.T);
    d_out.read(static_cast<const T*>(a.d_out) + of_out, C, a.T);
    HeadRows d_k(a.T, a.HS), d_v(a.T, a.HS);
    for (int64_t first = 0; first < a.T; first += block) {
      const int64_t queries = least(block, a.T - first), keys = first + queries;
      float of_rows[block] = {}, logsumexp[block] = {};
      for (int64_t i = 0; i < queries; ++i) {
        logsumexp[i] = a.logsumexp[head * a.T + first + i];
        for (int64_t c = 0; c < a.HS; ++c) of_rows[i] += d_out.at(first + i)[c] * out.at(first + i)[c];
      }
      q.transpose(first, q_columns.data());
      d_out.transpose(first, d_out_columns.data());
      multiply(keys, block, a.HS, k.data(), k.row(), 1, q_columns.data(), block, p.data(), key_row, false);
      multiply(keys, block, a.HS, v.data(), v.row(), 1, d_out_columns.data(), block, d_p.data(), key_row, false);
      for (int64_t j = 0; j < keys; ++j) {
        for (int64_t i = 0; i < block; i += Vector::size()) {
          (Vector::loadu(p.of_key(j) + i) - Vector::loadu(logsumexp + i)).exp().store(p.of_key(j) + i);
        }
      }
      p.mask(first, keys, 0);
      // The products below reach to whole tiles of keys.
      for (int64_t j = keys; j < rounded_up(keys, MR); ++j) {
        for (int64_t i = 0; i < block; ++i) p.of_key(j)[i] = d_p.of_key(j)[i] = 0;
      }
      for (int64_t j = 0; j < keys; ++j) {
        for (int64_t i = 0; i < block; i += Vector::size()) {
          float* at = d_p.of_key(j) + i;
          (Vector::loadu(p.of_key(j) + i) * (Vector::loadu(at) - Vector::loadu(of_rows + i))).store(at);
        }
      }
      multiply(keys, a.HS, block, p.data(), key_row, 1, d_out.at(first), d_out.row(), d_v.data(), d_v.row(), true);
      multiply(keys, a.HS, block, d_p.data(), key_row, 1, q.at(first), q.row(), d_k.data(), d_k.row(), true);
      multiply(block, a.HS, keys, d_p.data(), 1, key_row, k.data(), k.row(), d_q.data(), d_q.row(), false);
      d_q.write(d_qkv + first * 3 * C, 3 * C, queries, scale_of(a.HS));
    }
    d_k.write(d_qkv + C, 3 * C, a.T);
    d_v.write(d_qkv + 2 * C, 3 * C, a.T);
  }
}

void attention(const Attention& a, int64_t begin, int64_t end) {
  a.type == Number::bf16 ? attention_heads<BFloat16>(a, begin, end) : attention_heads<float>(a, begin, end);
}

void attention_backward(const AttentionBackward& a, int64_t begin, int64_t end) {
  a.type == Number::bf16 ? attention_backward_heads<BFloat16>(a, begin, end)
                         : attention_backward_heads<float>(a, begin, end);
}

}  // namespace
}  // namespace model::cpu
