#include "model/prefetcher.h"

#include <ATen/record_function.h>

#include <stdexcept>
#include <utility>

namespace model {

Prefetcher::Prefetcher(std::function<void(const at::Tensor&)> fill)
    : fill_(std::move(fill)), thread_([this] { run(); }) {}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Prefetcher::begin(const at::Tensor& tensor) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::idle) throw std::logic_error("Prefetcher: begun twice");
    tensor_ = tensor;
    state_ = State::begun;
  }
  changed_.notify_all();
}

void Prefetcher::take() {
  std::unique_lock lock(mutex_);
  if (state_ == State::idle) throw std::logic_error("Prefetcher: nothing was begun");
  changed_.wait(lock, [this] { return state_ == State::full; });
  state_ = State::idle;
  tensor_.reset();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Prefetcher::run() {
  const at::DisableRecordFunctionGuard unseen;  // its operations are of no phase of a step
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return state_ == State::begun || ends_; });
    if (state_ != State::begun) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      fill_(tensor_);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    state_ = State::full;
    changed_.notify_all();
  }
}

}  // namespace model
