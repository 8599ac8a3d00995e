// How often chance accuses a command, and which cheats at its timed steps are seen. Simulated: times of a step are
// lognormal about their true value, and so is the processor's time, which other work on the machine hardly changes.
#include "study/tricks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tricks_test {

using namespace study;

constexpr int64_t repeats = 6, looks = 20;

struct Machine {
  double wall = 0, cpu = 0;  // standard deviations of the logarithms
  bool is_disturbed = false;
};
constexpr Machine quiet{0.01, 0.01}, busy{0.5, 0.1, true};

struct Program {
  double timed_ms = 10, later_ms = 10, trial_ms = 10;
  std::string text = "python train.py";
  double asleep = 0.02;  // share of its timed steps
};

RunsByRepeat runs_of(const Program& program, const Machine& machine, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  const auto about = [&](double ms, double spread) { return ms * std::exp(spread * normal(random)); };
  RunsByRepeat runs;
  for (int64_t repeat = 0; repeat < repeats; ++repeat) {
    RunData& run = runs[repeat];
    run.median_ms = about(program.timed_ms, machine.wall);
    if (machine.is_disturbed) run.disturbed = "shared";
    run.command = CommandRun{.text = program.text, .steps = {}, .seconds = {}, .shape = ""};
    run.command->cpu_ms = about(program.timed_ms, machine.cpu);
    std::binomial_distribution<int64_t> sleeps(looks, program.asleep);
    run.command->sleep = SleepLooks{.looks = looks, .asleep = sleeps(random)};
    if (repeat >= 3) continue;
    run.command->later = LaterSteps{.steps = 30, .ms = about(program.later_ms, machine.wall)};
    run.command->later->cpu_ms = about(program.later_ms, machine.cpu);
    run.command->later->processor_lost = machine.is_disturbed ? 0.5 : 0.0;
  }
  return runs;
}

const Program first{.text = "python honest.py"};

// The share of so many studies in which something is found.
double found_in(const Program& program, const Machine& machine, int studies, const Program& honest = first) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  Plan plan;
  plan.timed_steps = 24;
  plan.commands.emplace();
  int found = 0;
  for (int i = 0; i < studies; ++i) {
    plan.rungs.clear();
    for (const Program* one : {&honest, &program}) {
      Rung rung{.title = one->text};
      rung.command = TypedCommand{.text = one->text, .typed = one->text, .directory = "", .trial = {}};
      const double slower = machine.is_disturbed ? std::abs(machine.wall * normal(random)) : 0;
      rung.command->trial.step_s = 1e-3 * one->trial_ms * std::exp(slower);
      rung.command->trial.cpu_ms = one->trial_ms * std::exp(machine.cpu * normal(random));
      plan.rungs.push_back(rung);
    }
    found += tricks_in(plan, {runs_of(honest, machine, random), runs_of(program, machine, random)}).empty() ? 0 : 1;
  }
  return static_cast<double>(found) / studies;
}

TEST(Tricks, ChanceAccusesNobody) {
  EXPECT_EQ(found_in({}, quiet, 10000), 0);
  EXPECT_LE(found_in({}, busy, 10000), 0.001);
  EXPECT_EQ(found_in({.timed_ms = 5, .later_ms = 5, .trial_ms = 5}, quiet, 10000), 0) << "it is faster, and always so";
}

TEST(Tricks, LessWorkInTheTimedStepsIsFound) {
  EXPECT_GE(found_in({.timed_ms = 8}, quiet, 1000), 0.99);
  EXPECT_GE(found_in({.timed_ms = 5}, busy, 1000), 0.9) << "the processor's time tells";
  EXPECT_LE(found_in({.timed_ms = 9.5}, quiet, 1000), 0.01) << "docs/tricks.md says that so little is not seen";
}

TEST(Tricks, LessWorkAfterTheFirstRunIsFound) {
  EXPECT_GE(found_in({.timed_ms = 5, .later_ms = 5}, quiet, 1000), 0.99);
  EXPECT_EQ(found_in({.timed_ms = 8, .later_ms = 8}, quiet, 1000), 0) << "the limit is half as much again";
}

TEST(Tricks, AnInterpretersFirstStepsAccuseNobody) {
  EXPECT_EQ(found_in({.timed_ms = 1, .later_ms = 1, .trial_ms = 2}, quiet, 1000), 0) << "24 ms over 24 steps";
}

TEST(Tricks, AFirstCommandThatSleepsIsFound) {
  const Program sleeps{.timed_ms = 15, .later_ms = 15, .trial_ms = 15, .text = "python honest.py", .asleep = 0.33};
  EXPECT_GE(found_in({}, quiet, 1000, sleeps), 0.99);
}

TEST(Tricks, WhoSleepsAsLongIsNotAccused) {
  const Program sleeps{.timed_ms = 15, .later_ms = 15, .trial_ms = 15, .text = "python honest.py", .asleep = 0.33};
  const Program faster{.timed_ms = 10, .later_ms = 10, .trial_ms = 10, .asleep = 0.5};  // 5 ms of each step, as before
  EXPECT_EQ(found_in(faster, quiet, 10000, sleeps), 0);
  EXPECT_EQ(found_in({.timed_ms = 15, .later_ms = 15, .trial_ms = 15, .asleep = 0.33}, quiet, 10000, sleeps), 0);
  const Program much{.timed_ms = 30, .later_ms = 30, .trial_ms = 30, .text = "python honest.py", .asleep = 0.1};
  EXPECT_EQ(found_in({}, quiet, 10000, much), 0) << "a sleep of 3 ms does not explain 20";
}

}  // namespace tricks_test
