// Children that end well, badly, too late, or not at all.
#include "harness/process.h"

#include "files/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace {

namespace fs = std::filesystem;
using harness::ChildResult;
using namespace std::chrono_literals;

class Process : public testing::Test {
 protected:
  const files::TemporaryFolder temporary_{"process-test"};
  const fs::path folder_ = temporary_.path();

  ChildResult shell(const std::string& script, double limit_s = 20) {
    return harness::run_child({.argv = {"/bin/sh", "-c", script},
                               .log = folder_ / "log",
                               .limit_s = limit_s,
                               .on_line = [this](std::string_view line) { lines_.emplace_back(line); }});
  }
  std::string log() const {
    std::ifstream stream(folder_ / "log");
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  std::vector<std::string> lines_;
};

TEST_F(Process, ReportsExitStatusOutputAndLines) {
  const ChildResult result = shell("echo out; echo err >&2; echo 'step 1' >&3; echo 'step 2' >&3; cat; exit 7");
  EXPECT_EQ(result.end, ChildResult::End::exited);
  EXPECT_EQ(result.code, 7);
  EXPECT_FALSE(result.succeeded());
  EXPECT_EQ(log(), "out\nerr\n");
  EXPECT_EQ(lines_, (std::vector<std::string>{"step 1", "step 2"}));
  EXPECT_TRUE(shell("true").succeeded());
}

TEST_F(Process, LosesNoneOfTheLinesThatTheChildLeavesInThePipe) {
  // The first lines are looked at so slowly that the child has ended by then.
  const ChildResult result = harness::run_child({.argv = {"/bin/sh", "-c", "seq 1 5000 >&3"},
                                                 .log = folder_ / "log",
                                                 .limit_s = 20,
                                                 .on_line = [this](std::string_view line) {
                                                   if (lines_.empty()) std::this_thread::sleep_for(300ms);
                                                   lines_.emplace_back(line);
                                                 }});
  EXPECT_TRUE(result.succeeded());
  ASSERT_EQ(lines_.size(), 5000U);
  EXPECT_EQ(lines_.back(), "5000");
}

TEST_F(Process, KeepsItsLogWhereTheCallerHasClosedStandardInput) {
  const int kept = ::dup(STDIN_FILENO);
  ::close(STDIN_FILENO);
  const ChildResult result = shell("echo out; echo err >&2; cat");
  if (kept >= 0) {
    ::dup2(kept, STDIN_FILENO);
    ::close(kept);
  }
  EXPECT_TRUE(result.succeeded());
  EXPECT_EQ(log(), "out\nerr\n");
}

TEST_F(Process, ReportsTheSignalThatKilledIt) {
  const ChildResult result = shell("kill -SEGV $$");
  EXPECT_EQ(result.end, ChildResult::End::signaled);
  EXPECT_EQ(result.code, SIGSEGV);
  EXPECT_NE(result.describe(1).find("signal 11"), std::string::npos);
}

TEST_F(Process, KillsAtTheLimitWithEverythingItStarted) {
  const ChildResult result = shell("sleep 300 & echo $! > " + (folder_ / "pid").string() + "; wait", 0.5);
  EXPECT_EQ(result.end, ChildResult::End::timed_out);
  std::ifstream stream(folder_ / "pid");
  pid_t grandchild = 0;
  ASSERT_TRUE(stream >> grandchild);
  bool gone = false;
  for (int i = 0; i < 100 && !gone; ++i) {
    std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
    std::string content;
    std::getline(stat, content);
    gone = content.empty() || content.find(") Z") != std::string::npos;  // an orphan may wait to be reaped
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(gone);
}

TEST_F(Process, KillsTheChildWhereALineCannotBeTaken) {
  pid_t child = 0;
  const auto refuse = [&](std::string_view line) {
    child = std::stoi(std::string(line));
    throw std::runtime_error("planted");
  };
  EXPECT_THROW(harness::run_child(
                   {.argv = {"/bin/sh", "-c", "echo $$ >&3; sleep 300"}, .log = folder_ / "log", .on_line = refuse}),
               std::runtime_error);
  ASSERT_GT(child, 0);
  EXPECT_TRUE(::kill(child, 0) == -1 && errno == ESRCH);  // gone, and waited for
}

TEST_F(Process, DoesNotWaitForADaemonThatHoldsThePipe) {
  const ChildResult result = shell("(sleep 300) & exit 0", 10);
  EXPECT_TRUE(result.succeeded());
  EXPECT_LT(result.seconds, 9);
}

TEST_F(Process, AddsToTheEnvironmentAndReplacesInIt) {
  ::setenv("LADDER_TEST_OLD", "old", 1);
  ::setenv("LADDER_TEST_KEPT", "kept", 1);
  const ChildResult result = harness::run_child(
      {.argv = {"/bin/sh", "-c",
                "echo $LADDER_TEST_OLD $LADDER_TEST_KEPT $LADDER_TEST_NEW; env | grep -c LADDER_TEST_OLD"},
       .log = folder_ / "log",
       .environment = {"LADDER_TEST_OLD=changed", "LADDER_TEST_NEW=new=1"}});
  EXPECT_TRUE(result.succeeded());
  EXPECT_EQ(log(), "changed kept new=1\n1\n");
}

TEST_F(Process, SaysThatAProgramCannotBeStarted) {
  const ChildResult result = harness::run_child({.argv = {"/no/such/program"}, .log = folder_ / "log"});
  EXPECT_EQ(result.end, ChildResult::End::not_started);
  EXPECT_NE(result.describe(1).find("No such file"), std::string::npos);
}

TEST_F(Process, PassesArgumentsAsTheyAre) {
  const ChildResult result =
      harness::run_child({.argv = {"/bin/echo", "a b", "$HOME", "';rm'"}, .log = folder_ / "log"});
  EXPECT_TRUE(result.succeeded());
  EXPECT_EQ(log(), "a b $HOME ';rm'\n");
}

}  // namespace
