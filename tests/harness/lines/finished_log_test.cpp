// The clocks of logs, in the forms that public programs print them. Each text here is our own.
#include "harness/lines/finished_log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace finished_log_test {

using harness::finished_log;
using harness::FinishedLog;

// A log of 40 steps of 20 ms; `line` makes the line of a step from its number and the seconds since the start.
std::string log_of(const std::function<std::string(int step, double seconds)>& line, const std::string& before = "",
                   const std::string& after = "") {
  std::string text = before;
  for (int step = 1; step <= 40; ++step) text += line(step, 0.02 * step) + "\n";
  return text + after;
}

double step_ms(const FinishedLog& log) {
  const auto &first = log.steps.at(9), &last = log.steps.back();
  return 1000 * (last.seconds - first.seconds) / static_cast<double>(last.step - first.step);
}

// A speedrun's: a clock without the evaluations, and the last line is a validation's.
TEST(FinishedLog, TakesATimeThatGoesUp) {
  const FinishedLog log = finished_log(log_of(
      [](int step, double seconds) {
        return fmt::format("step:{}/40 train_time:{:.0f}ms step_avg:{:.2f}ms", step, 1000 * seconds + 5 * step, 99.0);
      },
      "import torch\nloss_scale = 0.5\nfor step in range(10): loss = 3\n",
      "step:40/40 val_loss:3.2812 train_time:1013ms\n"));
  EXPECT_EQ(log.clock, "train time");
  EXPECT_NEAR(step_ms(log), 25, 0.1);
  EXPECT_DOUBLE_EQ(log.seconds.value(), 1.013);
  EXPECT_EQ(log.last.at("val loss"), 3.2812);
  EXPECT_FALSE(log.last.contains("loss")) << "of its source";
  EXPECT_DOUBLE_EQ(log.resolution_s, 0.001);
}

TEST(FinishedLog, TakesWhatEachStepTook) {
  const FinishedLog log = finished_log(log_of([](int step, double) {
    return fmt::format("iter {}: loss {:.4f}, time {:.2f}ms, mfu 1.00%", step, 10 - 0.1 * step,
                       step == 1 ? 900.0 : 20.0);
  }));
  EXPECT_EQ(log.clock, "what its steps say that they took");
  EXPECT_NEAR(step_ms(log), 20, 1e-9);
  EXPECT_FALSE(log.seconds) << "evaluations are not among its steps";
  EXPECT_NEAR(log.last.at("loss"), 6, 1e-9);
}

TEST(FinishedLog, TakesTheStampsOfLines) {
  for (const char* form :
       {"[2026-07-17 23:59:59,{:03}] step {} loss {:.3f}", "I0717 23:59:59.{:03} 77 train.py:3] step {} loss {:.3f}"}) {
    const FinishedLog log = finished_log(log_of([&](int step, double seconds) {
      return fmt::format(fmt::runtime(form), static_cast<int>(1000 * seconds), step, 4.0 - 0.01 * step);
    }));
    EXPECT_EQ(log.clock, "time stamps") << form;
    EXPECT_NEAR(step_ms(log), 20, 1e-3) << form;
    EXPECT_NEAR(log.seconds.value(), 0.78, 1e-6);
  }
  // Past midnight, without a day.
  const FinishedLog log = finished_log(log_of([](int step, double) {
    const int second = 86380 + step;
    return fmt::format("{:02}:{:02}:{:02} step {} loss {:.3f}", second / 3600 % 24, second / 60 % 60, second % 60, step,
                       4.0 - 0.01 * step);
  }));
  EXPECT_NEAR(step_ms(log), 1000, 1e-6);
  EXPECT_DOUBLE_EQ(log.resolution_s, 1);
}

TEST(FinishedLog, TakesRowsWithATimeSince1970AndAClockOfABar) {
  FinishedLog log = finished_log(log_of([](int step, double seconds) {
    return fmt::format("_step={}, _timestamp={:.3f}, train/loss={:.3f}", step, 1784290000 + seconds, 4.0 - 0.01 * step);
  }));
  EXPECT_NEAR(step_ms(log), 20, 0.1);
  EXPECT_NEAR(log.seconds.value(), 0.78, 0.002);
  std::string bar;
  for (int step = 1; step <= 40; ++step)
    bar += fmt::format(" {}%|####      | {}/40 [01:{:02}<00:30,  1.0s/it, loss={:.3f}]\r", 100 * step / 40, step, step,
                       5.0 - 0.01 * step);
  log = finished_log(bar + "\n");
  EXPECT_EQ(log.clock, "its bar");
  EXPECT_NEAR(step_ms(log), 1000, 1e-6);
}

TEST(FinishedLog, TakesTheWholeTimeAtTheEnd) {
  const FinishedLog log = finished_log(log_of(
      [](int step, double) {
        return fmt::format("loss={:.3f}, learning_rate=1e-05, epoch=0.1, step={}", 4.0 - 0.01 * step, 10 * step);
      },
      "", "train_runtime=48.5, train_samples_per_second=10.1, train_loss=3.7, step=400\n"));
  EXPECT_EQ(log.seconds, 48.5);
  EXPECT_FALSE(log.has_step_times);
}

// What must not be taken for a clock.
TEST(FinishedLog, KnowsNoTimeWhereNoneIsSaid) {
  const auto loss = [](int step) { return 4.0 - 0.01 * step; };
  EXPECT_EQ(finished_log(log_of([&](int step, double) {
              return fmt::format("step {} loss {:.3f}", step, loss(step));
            })).clock,
            "");
  // A clock that was set back: a restart. A time without a unit. What is left. A rate.
  for (const std::function<std::string(int)>& other : std::initializer_list<std::function<std::string(int)>>{
           [](int step) { return fmt::format("elapsed {} s", step < 20 ? step : step - 19); },
           [](int step) { return fmt::format("elapsed {}", step); },
           [](int step) { return fmt::format("eta {} s", 10 + step); },
           [](int step) { return fmt::format("data time {} s", step); },
           [](int step) { return fmt::format("tokens/s {}", 100 + step); }}) {
    const FinishedLog log = finished_log(
        log_of([&](int step, double) { return fmt::format("step {} loss {:.3f} {}", step, loss(step), other(step)); }));
    EXPECT_EQ(log.clock, "") << other(30);
    EXPECT_FALSE(log.seconds) << other(30);
    EXPECT_EQ(log.steps.size(), 40U);
  }
  EXPECT_EQ(finished_log("").steps.size(), 0U);
}

TEST(FinishedLog, TakesTheUsersPatterns) {
  const std::string text = log_of([](int step, double seconds) {
    return fmt::format("{} units of work; score {:.3f}; at {:.0f}", step, 4.0 - 0.01 * step, 1000 * seconds);
  });
  const FinishedLog log = finished_log(text, harness::StepPattern("^(?P<step>\\d+) units.*score (?P<loss>[\\d.]+)"),
                                       harness::LinePattern("at (?P<ms>\\d+)"));
  EXPECT_NEAR(step_ms(log), 20, 0.1);
  EXPECT_EQ(log.seconds, 0.8);
  EXPECT_EQ(log.steps.front().loss, 3.99);
}

}  // namespace finished_log_test
