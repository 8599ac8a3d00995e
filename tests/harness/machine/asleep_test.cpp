// What is asleep, of real processes.
#include "harness/machine/asleep.h"

#include "harness/process/descendants.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

namespace asleep_test {

// A shell that does this, in a process group of its own.
class Shell {
 public:
  explicit Shell(const char* script) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::setpgid(0, 0);
    ::execl("/bin/sh", "sh", "-c", script, nullptr);
    ::_exit(1);
  }
  ~Shell() {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

// Whether it is asleep within so many looks.
bool sleeps(const Shell& shell, int looks = 50) {
  for (int i = 0; i < looks; ++i) {
    if (harness::is_asleep(shell.pid(), harness::process_tree(shell.pid()))) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

class Asleep : public testing::Test {
  void SetUp() override {
    std::ifstream own("/proc/self/syscall");
    std::string word;
    if (!(own >> word)) GTEST_SKIP() << "this kernel does not tell what a process waits for";
  }
};

TEST_F(Asleep, WhoAskedToSleepIs) {
  EXPECT_TRUE(sleeps(Shell("exec sleep 60"), 1000));
  EXPECT_TRUE(sleeps(Shell("exec python3 -c 'import select; select.select([], [], [], 60)'"), 1000))
      << "as older Pythons sleep";
}

TEST_F(Asleep, WhoWorksOrWaitsForOthersIsNot) {
  EXPECT_FALSE(sleeps(Shell("while :; do :; done")));
  EXPECT_FALSE(sleeps(Shell("sleep 60 & wait"))) << "it waits for a child that sleeps";
  EXPECT_FALSE(sleeps(Shell("(while :; do :; done) & exec sleep 60"))) << "its child works";
  EXPECT_FALSE(sleeps(Shell("exec cat"))) << "it reads";
}

TEST_F(Asleep, AWatchCountsBoth) {
  const Shell shell("exec sleep 60");
  ASSERT_TRUE(sleeps(shell, 1000));
  harness::SleepWatch watch;
  watch.begin({shell.pid()});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const harness::SleepWatch::Looks looks = watch.end();
  EXPECT_GT(looks.all, 0);
  EXPECT_EQ(looks.asleep, looks.all);
  watch.begin({});
  EXPECT_EQ(watch.end().all, 0) << "there is nothing to look at";
}

}  // namespace asleep_test
