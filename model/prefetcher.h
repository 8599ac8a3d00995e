// A thread that fills a tensor while its owner does something else.
#pragma once

#include <ATen/ATen.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace model {

class Prefetcher {
 public:
  // `fill` is called on the thread. What it uses must outlive this, and belongs to the thread from begin() to take().
  explicit Prefetcher(std::function<void(const at::Tensor&)> fill);
  // Waits until the thread has filled what it was given.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;  // owns a thread
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Gives the thread a tensor to fill. The one before must have been taken.
  void begin(const at::Tensor& tensor);

  // Returns when the tensor is full. Throws what `fill` threw.
  void take();

 private:
  enum class State { idle, begun, full };

  void run();

  std::function<void(const at::Tensor&)> fill_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  State state_ = State::idle;
  bool ends_ = false;
  at::Tensor tensor_;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace model
