// The clock on a workload of known length: never too short, and every step has its own time.
#include "harness/clock/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace clock_test {

class Sleeper : public harness::Workload {
 public:
  void step() override {
    const int length = ++steps_ % 3 == 0 ? 12 : 4;
    lengths.push_back(length);
    std::this_thread::sleep_for(std::chrono::milliseconds(length));
  }
  void synchronize() override { ++synchronizations; }
  [[nodiscard]] bool on_cuda() const override { return false; }

  std::vector<int> lengths;
  int synchronizations = 0;

 private:
  int steps_ = 0;
};

TEST(Clock, TimesEveryStepAndSynchronizesOnlyAtTheWindowsEnds) {
  Sleeper sleeper;
  std::vector<int64_t> reported;
  std::vector<std::string> order;  // of the window's ends: what was done before, steps and synchronizations
  const auto done = [&](const char* what) {
    order.push_back(what + std::to_string(sleeper.lengths.size()) + "/" + std::to_string(sleeper.synchronizations));
  };
  const harness::Timing timing = harness::measure(
      sleeper, 2, 5, [&](int64_t step) { reported.push_back(step); }, [&] { done("begin "); }, [&] { done("end "); });
  EXPECT_EQ(order, (std::vector<std::string>{"begin 2/1", "end 7/2"}));
  EXPECT_EQ(timing.warmup_steps, 2);
  ASSERT_EQ(timing.step_ms.size(), 7U);
  EXPECT_EQ(timing.page_faults.size(), 7U);
  EXPECT_EQ(sleeper.synchronizations, 2);
  EXPECT_EQ(reported, (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7}));
  for (size_t i = 0; i < 7; ++i) EXPECT_GE(timing.step_ms[i], sleeper.lengths[i]);
  EXPECT_GE(timing.window_ms, std::accumulate(timing.step_ms.begin() + 2, timing.step_ms.end(), 0.0));
  EXPECT_FALSE(timing.device_ms);
}

// An H200's last rung: 30 steps of 29 ms are too short a window for its energy counter.
TEST(Clock, AWindowMayTakeMoreStepsToLastLongEnough) {
  const std::vector<double> warmup{900, 400, 31, 29, 29.5, 30};
  EXPECT_EQ(harness::steps_to_last(1500, warmup, 20), 52);
  EXPECT_EQ(harness::steps_to_last(1500, warmup, 60), 60) << "never fewer";
  EXPECT_EQ(harness::steps_to_last(1500, std::vector<double>{0.1, 0.1}, 20), 160) << "eight times as many at most";
  EXPECT_EQ(harness::steps_to_last(1500, {}, 20), 20);
  EXPECT_EQ(harness::steps_to_last(1500, std::vector<double>{0}, 20), 20);
}

TEST(PhaseClock, TimesOnePhaseOfEachStep) {
  harness::PhaseClock clock("data", 2);
  for (const int length : {12, 4}) {
    clock.begin_phase("data");
    std::this_thread::sleep_for(std::chrono::milliseconds(length));
    clock.begin_phase("forward");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    clock.begin_phase("backward");
    clock.begin_phase("");
  }
  clock.begin_phase("data");  // and has not ended
  ASSERT_EQ(clock.ms().size(), 2U);
  EXPECT_GE(clock.ms()[0], 12);
  EXPECT_GE(clock.ms()[1], 4);
}

}  // namespace clock_test
