#include "model/data.h"
#include "model/token_source.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

namespace model {
namespace {

// Vigna's generator, https://prng.di.unimi.it/splitmix64.c: number n, from 0, for this seed.
uint64_t splitmix64(uint64_t seed, uint64_t n = 0) {
  uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

}  // namespace

BatchLoader::BatchLoader(const TokenStream& stream, int64_t B, int64_t T, uint64_t seed, Batches batches,
                         const Share& share, Windows windows)
    : tokens_(stream.tokens), B_(B), T_(T), seed_(seed), kind_(windows), size_(stream.size()) {
  if (B < 1 || T < 1) {
    throw std::invalid_argument(fmt::format("batch and context must be at least 1, got {} x {}", B, T));
  }
  const int64_t sequences = B * share.ranks;
  const bool overflows = __builtin_mul_overflow(static_cast<size_t>(sequences), static_cast<size_t>(T), &window_);
  if (overflows || size_ <= window_) {
    throw std::invalid_argument(fmt::format("{}: {} tokens; a batch of {} x {} needs {} x {} + 1", stream.source, size_,
                                            sequences, T, sequences, T));
  }
  first_ = static_cast<size_t>(share.rank * B);
  const bool gathers = batches == Batches::gather || batches == Batches::prefetched;
  if (!gathers) source_ = source_of(batches, stream);
  if (gathers && tokens_.empty()) {
    throw std::invalid_argument(fmt::format("{}: no tokens are in memory", stream.source));
  }
}

BatchLoader::~BatchLoader() = default;

size_t BatchLoader::begin_of(size_t sequence) const {
  const auto T = static_cast<size_t>(T_);
  if (kind_ == Windows::random) return splitmix64(seed_, made_ * (window_ / T) + sequence) % (size_ - T);
  const auto count = static_cast<size_t>(windows());
  const size_t first = seed_ == 0 ? 0 : splitmix64(seed_) % count;
  return (first + made_) % count * window_ + sequence * T;
}

void BatchLoader::gather(const at::Tensor& inputs, const at::Tensor& targets) {
  const bool is_one_run = kind_ == Windows::consecutive;
  const auto runs = is_one_run ? size_t{1} : static_cast<size_t>(B_);
  const auto length = static_cast<size_t>(is_one_run ? B_ * T_ : T_);
  auto *input = inputs.mutable_data_ptr<int64_t>(), *target = targets.mutable_data_ptr<int64_t>();
  for (size_t i = 0; i < runs; ++i) {
    const size_t begin = begin_of(first_ + i);
    input = std::ranges::copy(tokens_.subspan(begin, length), input).out;
    target = std::ranges::copy(tokens_.subspan(begin + 1, length), target).out;
  }
  copies_ += 2;
}

// As programs in PyTorch do it: a tensor of each sequence, and all of them stacked.
void BatchLoader::stack(const at::Tensor& inputs, const at::Tensor& targets) {
  std::vector<at::Tensor> x, y;
  for (int64_t b = 0; b < B_; ++b) {
    const std::span<const uint16_t> tokens =
        source_->at(begin_of(first_ + static_cast<size_t>(b)), static_cast<size_t>(T_ + 1));
    const at::Tensor sequence =
        at::from_blob(const_cast<uint16_t*>(tokens.data()), {T_ + 1}, at::ScalarType::UInt16).to(at::kLong);
    x.push_back(sequence.narrow(0, 0, T_));
    y.push_back(sequence.narrow(0, 1, T_));
    ++copies_;
  }
  at::Tensor into_inputs = inputs, into_targets = targets;
  at::stack_out(into_inputs, x);
  at::stack_out(into_targets, y);
}

void BatchLoader::next(const at::Tensor& inputs, const at::Tensor& targets) {
  if (source_) {
    stack(inputs, targets);
  } else {
    gather(inputs, targets);
  }
  made_by_ = ::gettid();
  ++made_;
}

std::pair<at::Tensor, at::Tensor> BatchLoader::next() {
  auto batch = std::pair(at::empty({B_, T_}, at::kLong), at::empty({B_, T_}, at::kLong));
  next(batch.first, batch.second);
  return batch;
}

BatchWork BatchLoader::work() const {
  BatchWork work = source_ ? source_->work() : BatchWork{};
  work.copies = copies_;
  return work;
}

}  // namespace model
