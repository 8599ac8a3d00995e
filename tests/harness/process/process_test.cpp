// Children that end well, badly, too late, or not at all.
#include "harness/process/process.h"

#include "files/files.h"
#include "harness/process/descendants.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <thread>

namespace process_test {

namespace fs = std::filesystem;
using harness::ChildResult;
using namespace std::chrono_literals;

// What a child leaves behind can be found then. Linux always can; qemu-user 7.2 cannot.
bool adopts_orphans() {
  int was = 0;
  return ::prctl(PR_GET_CHILD_SUBREAPER, &was) == 0;
}

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

// Whether a process ends within twenty seconds; one that waits to be reaped has ended.
bool ends(pid_t pid) {
  for (int i = 0; i < 1000; ++i) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string content;
    std::getline(stat, content);
    if (content.empty() || content.find(") Z") != std::string::npos) return true;
    std::this_thread::sleep_for(20ms);
  }
  return false;
}

TEST_F(Process, KillsAtTheLimitWithEverythingItStarted) {
  const ChildResult result = shell("sleep 300 & echo $! > " + (folder_ / "pid").string() + "; wait", 2);
  EXPECT_EQ(result.end, ChildResult::End::timed_out);
  std::ifstream stream(folder_ / "pid");
  pid_t grandchild = 0;
  ASSERT_TRUE(stream >> grandchild);
  EXPECT_TRUE(ends(grandchild));
}

TEST_F(Process, AsksNoTerminal) { EXPECT_EQ(shell("read answer < /dev/tty || exit 5", 60).code, 5); }

TEST_F(Process, ProgramsOfOthersEndWithAKilledParent) {
  const fs::path file = folder_ / "pid", watched = folder_ / "watched";
  const pid_t parent = ::fork();
  if (parent == 0) {
    const auto tell = [&](const std::vector<pid_t>& processes) {
      std::ofstream(watched) << processes.front();
      return true;
    };
    (void)harness::run_child({.argv = {"/bin/sh", "-c", "sleep 300 & echo $! > " + file.string() + "; wait"},
                              .log = folder_ / "log",
                              .of_others = true,
                              .on_look = tell});
    ::_exit(0);
  }
  // The child runs before it is watched. Killed in between, the parent would leave it behind.
  pid_t grandchild = 0;
  while (grandchild == 0 || !fs::exists(watched)) {
    std::ifstream stream(file);
    if (!(stream >> grandchild)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(ends(grandchild));
}

TEST_F(Process, CountsNoTimeOfALimitWhileTheChildIsStopped) {
  const ChildResult result = shell("(sleep 6; kill -CONT $$) & kill -STOP $$; exit 3", 4);
  EXPECT_EQ(result.end, ChildResult::End::exited);
  EXPECT_EQ(result.code, 3);
}

TEST_F(Process, CountsNoTimeOfALimitWhileItIsStoppedItself) {
  const pid_t child = ::fork();
  if (child == 0) {
    const ChildResult result = shell("sleep 1; kill -STOP $PPID; sleep 6; kill -CONT $PPID; sleep 0.2; exit 3", 5);
    ::_exit(result.end == ChildResult::End::exited && result.code == 3 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Process, EndsWhatHasLeftTheChildsGroupAndSession) {
  if (!adopts_orphans()) GTEST_SKIP() << "this system has no subreaper";
  const pid_t ours = ::fork();  // a child that this process has already
  if (ours == 0) {
    ::pause();
    ::_exit(0);
  }
  const std::string pid_file = (folder_ / "pid").string();
  const std::string leave = "setsid sh -c 'echo $$ > " + pid_file + ".new; mv " + pid_file + ".new " + pid_file +
                            "; exec sleep 300' & until [ -e " + pid_file + " ]; do sleep 0.01; done; ";
  const auto has_ended = [&] {
    pid_t left = 0;
    std::ifstream(pid_file) >> left;
    fs::remove(pid_file);
    return left > 0 && ends(left);
  };
  EXPECT_EQ(shell(leave + "exit 0").end, ChildResult::End::exited);
  EXPECT_TRUE(has_ended());
  EXPECT_EQ(shell(leave + "kill -SEGV $$").end, ChildResult::End::signaled);
  EXPECT_TRUE(has_ended());
  const auto stop = [](std::string_view) { throw std::runtime_error("planted"); };
  EXPECT_THROW(harness::run_child(
                   {.argv = {"/bin/sh", "-c", leave + "echo >&3; sleep 300"}, .log = folder_ / "log", .on_line = stop}),
               std::runtime_error);
  EXPECT_TRUE(has_ended());
  EXPECT_EQ(::kill(ours, 0), 0);
  ::kill(ours, SIGKILL);
  ::waitpid(ours, nullptr, 0);
}

TEST_F(Process, KeepsTheBeginningAndTheEndOfALongLog) {
  EXPECT_TRUE(shell("echo begin; head -c 30000000 /dev/zero; echo; echo 'the end'").succeeded());
  EXPECT_LT(fs::file_size(folder_ / "log"), size_t{5} << 20);
  const std::string kept = log();
  EXPECT_TRUE(kept.starts_with("begin\n"));
  EXPECT_TRUE(kept.ends_with("\nthe end\n"));
  EXPECT_NE(kept.find("bytes of this log are left out here"), std::string::npos);
  // What is just longer than the beginning is whole.
  EXPECT_TRUE(shell("head -c 4250000 /dev/zero; echo 'the end'").succeeded());
  EXPECT_EQ(fs::file_size(folder_ / "log"), 4250008U);
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

// A program of others: its output is read, and it is ended when that is enough.
class Output : public Process {
 protected:
  ChildResult make(const std::string& script, harness::ChildOptions options) {
    options.argv = {"/bin/sh", "-c", script};
    options.log = folder_ / "log";
    if (options.directory.empty()) options.directory = folder_;
    options.limit_s = std::min(options.limit_s, 20.0);
    return harness::run_child(options);
  }
  // Enough as soon as it has printed that.
  std::function<bool(int, std::string_view)> until(const std::string& word) {
    return [this, word](int stream, std::string_view bytes) {
      printed_[stream] += bytes;
      return printed_[0].find(word) == std::string::npos;
    };
  }
  // The number that the script has written into that file.
  pid_t pid_in(const char* name) const {
    pid_t pid = 0;
    std::ifstream(folder_ / name) >> pid;
    return pid;
  }
  std::array<std::string, 2> printed_;
};

TEST_F(Output, TellsTheStreamsApart) {
  const ChildResult result = make("echo out; echo err >&2; printf 'no end'", {.on_output = until("never")});
  EXPECT_TRUE(result.succeeded());
  EXPECT_EQ(printed_[0], "out\nno end");
  EXPECT_EQ(printed_[1], "err\n");
  std::string sorted = log();
  EXPECT_EQ(sorted.size(), printed_[0].size() + printed_[1].size());
}

TEST_F(Output, OfATerminalIsOneStream) {
  const std::string asks = "test -t 1 && test -t 2 && ! test -t 0 && stty size <&1; echo err >&2";
  EXPECT_TRUE(make(asks, {.terminal = true, .on_output = until("never")}).succeeded());
  EXPECT_EQ(printed_[0], "50 250\r\nerr\r\n");
  EXPECT_EQ(printed_[1], "");
}

TEST_F(Output, OfATerminalComesThoughTheProgramDoesNotFlush) {
  const std::string holds_back = "import time\nprint(\"now\")\ntime.sleep(300)";
  for (const bool terminal : {true, false}) {
    printed_ = {};
    const ChildResult result =
        make("unset PYTHONUNBUFFERED; exec python3 -c '" + holds_back + "'",
             {.limit_s = terminal ? 20.0 : 3.0, .terminal = terminal, .on_output = until("now"), .grace_s = 5});
    EXPECT_EQ(result.end, terminal ? ChildResult::End::enough : ChildResult::End::timed_out);
    if (terminal) {
      EXPECT_LT(result.seconds, 15);
    } else {
      EXPECT_EQ(printed_[0], "");
    }
  }
}

TEST_F(Output, WorksInTheFolderThatIsNamed) {
  fs::create_directories(folder_ / "a b");
  EXPECT_TRUE(make("pwd", {.directory = folder_ / "a b", .on_output = until("never")}).succeeded());
  EXPECT_EQ(printed_[0], (folder_ / "a b").string() + "\n");
  const ChildResult none = make("pwd", {.directory = folder_ / "none"});
  EXPECT_EQ(none.end, ChildResult::End::not_started);
  EXPECT_EQ(none.code, ENOENT);
}

TEST_F(Output, EndsPolitelyWhatHasPrintedEnough) {
  const ChildResult result = make("trap 'echo bye > bye; exit 3' TERM; echo enough; while true; do sleep 0.05; done",
                                  {.on_output = until("enough")});
  EXPECT_EQ(result.end, ChildResult::End::enough);
  EXPECT_TRUE(fs::exists(folder_ / "bye"));
  EXPECT_LT(result.seconds, 9);
}

TEST_F(Output, KillsWhatIgnoresThatWithEveryProcessInEverySession) {
  if (!adopts_orphans()) GTEST_SKIP() << "this system has no subreaper";
  const ChildResult result = make(
      "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ > left; while true; do sleep 0.05; done' & "
      "(sh -c 'echo $$ > polite; exec sleep 300') & until [ -s left ] && [ -s polite ]; do sleep 0.01; done; "
      "echo $$ > own; echo enough; while true; do sleep 0.05; done",
      {.on_output = until("enough"), .grace_s = 1});
  EXPECT_EQ(result.end, ChildResult::End::enough);
  EXPECT_GE(result.seconds, 1);
  for (const char* name : {"left", "polite", "own"}) {
    ASSERT_GT(pid_in(name), 0) << name;
    EXPECT_TRUE(ends(pid_in(name))) << name;
  }
}

TEST_F(Output, GivesWhatItLeftTheSameGrace) {
  if (!adopts_orphans()) GTEST_SKIP() << "this system has no subreaper";
  const ChildResult result = make(
      "setsid sh -c 'trap \"sleep 1; echo saved > saved; exit 0\" TERM; echo $$ > left; while true; do sleep 0.05; "
      "done' & "
      "until [ -s left ]; do sleep 0.01; done; echo enough; exec sleep 300",
      {.on_output = until("enough")});
  EXPECT_EQ(result.end, ChildResult::End::enough);
  EXPECT_TRUE(fs::exists(folder_ / "saved"));
  EXPECT_TRUE(ends(pid_in("left")));
}

TEST_F(Output, LooksAtAllItsProcesses) {
  std::vector<pid_t> last;
  const ChildResult result = make(
      "setsid sh -c 'echo $$ > left; exec sleep 300' & "
      "sh -c 'echo $$ > child; sleep 300 & echo $! > grandchild; wait' & wait",
      {.on_look = [&](const std::vector<pid_t>& tree) {
        last = tree;
        return tree.size() < 4 || pid_in("left") == 0 || pid_in("grandchild") == 0;
      }});
  EXPECT_EQ(result.end, ChildResult::End::enough);
  for (const char* name : {"left", "child", "grandchild"}) {
    EXPECT_NE(std::ranges::find(last, pid_in(name)), last.end()) << name;
  }
  EXPECT_EQ(std::ranges::count(last, last.front()), 1);
}

TEST(ProcessTree, IsAProcessWithAllThatItStarted) {
  EXPECT_EQ(harness::process_tree(999999999), std::vector<pid_t>{999999999});
  const pid_t child = ::fork();
  if (child == 0) {
    if (::fork() >= 0) ::pause();  // the child, and its own
    ::_exit(0);
  }
  std::vector<pid_t> tree;
  for (int i = 0; i < 1000 && tree.size() < 2; ++i) {
    std::this_thread::sleep_for(10ms);
    tree = harness::process_tree(child);
  }
  ASSERT_EQ(tree.size(), 2U);
  EXPECT_EQ(tree.front(), child);
  const std::vector<pid_t> ours = harness::process_tree(::getpid());
  EXPECT_EQ(ours.front(), ::getpid());
  for (const pid_t pid : tree) EXPECT_NE(std::ranges::find(ours, pid), ours.end());
  for (const pid_t pid : {tree[1], child}) ::kill(pid, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace process_test
