// The scheduler's own count, with a real competitor on the same core.
#include "harness/machine/processor_time.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

namespace processor_time_test {

using harness::ProcessorTime;
using harness::share_lost;

TEST(ProcessorTime, AShareIsLostToOtherWorkOnly) {
  const ProcessorTime begin{.ran_s = 10, .waited_s = 5};
  EXPECT_DOUBLE_EQ(share_lost(begin, {12, 5}, 1, 2, 2), 0);
  EXPECT_DOUBLE_EQ(share_lost(begin, {11, 6}, 1, 2, 2), 0.5);   // half of both cores went elsewhere
  EXPECT_DOUBLE_EQ(share_lost(begin, {12, 11}, 1, 8, 2), 0);    // eight threads waited, for each other
  EXPECT_DOUBLE_EQ(share_lost(begin, {11, 12}, 1, 8, 2), 0.5);  // and for something else
  EXPECT_DOUBLE_EQ(share_lost(begin, {10.75, 5.25}, 1, 1, 16), 0.25);
  EXPECT_DOUBLE_EQ(share_lost(begin, {10.2, 5}, 1, 1, 2), 0);  // it slept
  EXPECT_DOUBLE_EQ(share_lost(begin, {13, 5.1}, 1, 2, 2), 0);  // more than there was: rounding of the clocks
  ProcessorTime later{.ran_s = 12, .waited_s = 5, .machine_ran_s = 2, .machine_stolen_s = 0.5};
  EXPECT_DOUBLE_EQ(share_lost(begin, later, 1, 2, 2), 0.25);  // a hypervisor ran something else
  later = {.ran_s = 11, .waited_s = 5, .machine_ran_s = 32, .machine_stolen_s = 0.5};
  EXPECT_DOUBLE_EQ(share_lost(begin, later, 1, 1, 64), 0.5 / 32);  // of others, most of it
  later = {.ran_s = 10.5, .waited_s = 5.5, .throttled_s = 0.4};
  EXPECT_NEAR(share_lost(begin, later, 1, 1, 2), 0.1, 1e-12);  // its own quota stopped it
}

TEST(ProcessorTime, TheFlagSaysHowMuch) {
  EXPECT_EQ(harness::flag(0.1), "");
  EXPECT_EQ(harness::flag(0.234), "shared: the processor was busy with something else for 23 % of the time");
}

TEST(ProcessorTime, IsNotKnownOfAProcessThatIsNotThere) { EXPECT_FALSE(harness::processor_time(0)); }

void spin_for(std::chrono::milliseconds time);

TEST(ProcessorTime, OfSeveralProcessesIsTheirSum) {
  const auto own = harness::processor_time(::getpid());
  if (!own) GTEST_SKIP() << "this kernel does not count how long threads wait";
  const pid_t child = ::fork();
  while (child == 0) spin_for(std::chrono::seconds(1));  // on a busy machine it gets a part of the time
  double ran_s = 0;
  while (ran_s < 0.2) {
    const auto of_child = harness::processor_time(child);
    if (of_child) ran_s = of_child->ran_s;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const std::vector<pid_t> both{::getpid(), child, 999999999};
  const auto sum = harness::processor_time(both);
  ASSERT_TRUE(sum);
  EXPECT_GE(sum->ran_s, own->ran_s + 0.2);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(harness::processor_time(std::vector<pid_t>{child, 999999999}));
  EXPECT_FALSE(harness::processor_time(std::vector<pid_t>{}));
}

void spin_for(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(ProcessorTime, WhatRunsNowIsInUse) {
  std::thread other([] { spin_for(std::chrono::milliseconds(400)); });
  const double share = harness::share_in_use(0.3);
  other.join();
  EXPECT_GT(share, 0);
  EXPECT_LE(share, 1);
}

// On a thread of its own, so that the test's stays where it is.
TEST(ProcessorTime, ACompetitorOnTheSameCoreIsSeen) {
  const auto start = harness::processor_time();
  if (!start) GTEST_SKIP() << "this kernel does not count how long threads wait";
  double lost = 0;
  std::thread([&] {
    cpu_set_t allowed, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
      if (CPU_ISSET(core, &allowed)) CPU_SET(core, &one);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    const pid_t competitor = ::fork();  // which inherits the core
    if (competitor == 0) {
      ::alarm(10);
      for (volatile int forever = 1; forever != 0;) {
      }
    }
    ASSERT_GT(competitor, 0);
    const auto begin = harness::processor_time();
    const auto window_start = std::chrono::steady_clock::now();
    spin_for(std::chrono::milliseconds(400));
    const std::chrono::duration<double> window = std::chrono::steady_clock::now() - window_start;
    lost = share_lost(*begin, *harness::processor_time(), window.count(), 1, 1);
    ::kill(competitor, SIGKILL);
    ::waitpid(competitor, nullptr, 0);
  }).join();
  EXPECT_GT(lost, 0.25);
  EXPECT_NE(harness::flag(lost), "");
}

TEST(FlagOfPause, NamesAStepThatTookMuchLongerThanTheOthers) {
  std::vector<double> steps(19, 20);
  EXPECT_EQ(harness::flag_of_pause(steps), "");
  steps.push_back(10'000);
  EXPECT_EQ(harness::flag_of_pause(steps), "paused: a step took 10 s among steps of 0.02 s");
  steps.back() = 400;  // a stall of the system's
  EXPECT_EQ(harness::flag_of_pause(steps), "");
  EXPECT_EQ(harness::flag_of_pause(std::vector<double>{2000, 2000, 9000}), "");
  EXPECT_EQ(harness::flag_of_pause({}), "");
}

}  // namespace processor_time_test
