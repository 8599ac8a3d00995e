// Batches that a thread makes: the same ones, one step ahead, and its errors are told.
#include "model/inputs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

namespace inputs_test {

using namespace model;
using at::Tensor;

TokenStream counting(size_t count) {
  TokenStream stream{std::vector<uint16_t>(count), "test", ""};
  for (size_t i = 0; i < count; ++i) stream.tokens[i] = static_cast<uint16_t>(i);
  return stream;
}

TEST(Inputs, PrefetchedBatchesAreThoseOfTheLoader) {
  const TokenStream stream = counting(100);
  for (const int64_t micro_steps : {1, 3}) {
    for (const uint64_t seed : {0, 5}) {
      Inputs plain(stream, 2, 3, micro_steps, 40, seed, at::kCPU);
      Inputs ahead(stream, 2, 3, micro_steps, 40, seed, at::kCPU, Batches::prefetched);
      BatchLoader loader(stream, 2, 3, seed);
      for (int step = 0; step < 40; ++step) {  // around the end of the text, more than once
        plain.advance();
        ahead.advance();
        const Tensor batch = ahead.batch().clone();
        ASSERT_TRUE(batch.equal(plain.batch())) << "step " << step;
        for (int64_t i = 0; i < micro_steps; ++i) {
          const auto [inputs, targets] = loader.next();
          ASSERT_TRUE(batch[i][0].equal(inputs) && batch[i][1].equal(targets)) << "step " << step;
        }
        // A step works on its batch while the next one is made.
        std::this_thread::sleep_for(std::chrono::microseconds(step % 3 * 50));
        ASSERT_TRUE(ahead.batch().equal(batch)) << "step " << step;
      }
      EXPECT_EQ(ahead.work().steps, 40);
      EXPECT_EQ(ahead.work().by_a_thread, 40);
      EXPECT_EQ(ahead.work().ready, 40);
      EXPECT_EQ(ahead.work().work.copies, 2 * micro_steps * 40);
      EXPECT_EQ(plain.work().by_a_thread, 0);
      EXPECT_EQ(plain.work().ready, 0);
    }
  }
}

int64_t threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

// A thread that has been joined stays in the kernel's list for a moment, so look until `is_so` or for two seconds.
bool soon(const std::function<bool()>& is_so) {
  for (int i = 0; i < 200 && !is_so(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return is_so();
}

TEST(Inputs, OfATrainingThatEndsEarlyLeaveNoThread) {
  const TokenStream stream = counting(100);
  int64_t before = threads();
  ASSERT_TRUE(soon([&] { return std::exchange(before, threads()) == before; }));
  for (int i = 0; i < 20; ++i) {
    std::optional<Inputs> inputs;
    inputs.emplace(stream, 2, 3, 1, 10, 0, at::kCPU, Batches::prefetched);
    EXPECT_GT(threads(), before);
    if (i % 2 == 0) inputs->advance();
  }
  EXPECT_TRUE(soon([&] { return threads() <= before; }));
}

TEST(Prefetcher, TellsAnErrorWhenItsTensorIsAskedFor) {
  int calls = 0;
  Prefetcher prefetcher([&](const Tensor& tensor) {
    if (++calls == 2) throw std::invalid_argument("the file ended early");
    tensor.fill_(calls);
  });
  const Tensor tensor = at::zeros({2}, at::kLong);
  prefetcher.begin(tensor);
  (void)prefetcher.take();
  EXPECT_EQ(tensor[0].item<int64_t>(), 1);
  prefetcher.begin(tensor);
  EXPECT_THROW((void)prefetcher.take(), std::invalid_argument);
  prefetcher.begin(tensor);  // and goes on
  EXPECT_NO_THROW((void)prefetcher.take());
  EXPECT_EQ(tensor[0].item<int64_t>(), 3);
}

TEST(Prefetcher, WaitsForItsThreadEvenIfNobodyTakesWhatItMakes) {
  std::atomic<bool> filled = false;
  {
    Prefetcher prefetcher([&](const Tensor&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      filled = true;
      throw std::runtime_error("that nobody asks for");
    });
    prefetcher.begin(at::zeros({1}));
  }
  EXPECT_TRUE(filled);
}

TEST(Prefetcher, RefusesToBeAskedInAnotherOrder) {
  Prefetcher prefetcher([](const Tensor&) {});
  EXPECT_THROW((void)prefetcher.take(), std::logic_error);
  prefetcher.begin(at::zeros({1}));
  EXPECT_THROW(prefetcher.begin(at::zeros({1})), std::logic_error);
}

}  // namespace inputs_test
