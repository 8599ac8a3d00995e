// Locks between processes, and what is left of them when a process is killed.
#include "harness/process/locks.h"

#include "files/files.h"
#include "harness/process/unfit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace locks_test {

namespace fs = std::filesystem;
using harness::DeviceLock;
using harness::FolderLock;

struct Taken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const auto refuse = [](const std::string& why) { throw Taken(why); };

// What would be told of the owner; empty when the lock is free.
std::string taken_by(const std::string& device) {
  try {
    const DeviceLock lock(device, "me", refuse);
    return "";
  } catch (const Taken& taken) {
    return taken.what();
  }
}

class Locks : public testing::Test {
 protected:
  const files::TemporaryFolder temporary_{"locks-test"};
  const fs::path folder_ = temporary_.path();
  void SetUp() override { ::setenv("LADDER_LOCK_DIR", folder_.c_str(), 1); }
  void TearDown() override { ::unsetenv("LADDER_LOCK_DIR"); }
  [[nodiscard]] fs::path file(const std::string& device) const { return folder_ / ("gpt2-ladder-" + device + ".lock"); }

  // A process that holds the device's lock until it is killed.
  static pid_t owner_of(const std::string& device) {
    int ready[2] = {};
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // also where the test ends before it has killed this process
      const DeviceLock lock(device, "ladder ablate (pid 7, /study)", refuse);
      [[maybe_unused]] const ssize_t written = ::write(ready[1], "x", 1);
      ::pause();
      ::_exit(0);
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    return pid;
  }
  static void kill(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
};

TEST_F(Locks, OneOwnerForEachDevice) {
  {
    const DeviceLock cpu("cpu", "first", refuse);
    EXPECT_EQ(taken_by("cpu").find("device cpu is in use by first since 20"), 0U) << taken_by("cpu");
    EXPECT_EQ(taken_by("gpu-0000:3b:00.0"), "");
  }
  EXPECT_EQ(taken_by("cpu"), "");
}

TEST_F(Locks, AKilledOwnersLockIsFreeAndItsWordsAreReplaced) {
  const pid_t owner = owner_of("cpu");
  EXPECT_NE(taken_by("cpu").find("in use by ladder ablate (pid 7, /study) since "), std::string::npos);
  kill(owner);
  const DeviceLock lock("cpu", "the next", refuse);
  EXPECT_EQ(taken_by("cpu").find("device cpu is in use by the next since "), 0U) << taken_by("cpu");
}

TEST_F(Locks, WhoWaitsGetsItWhenTheOwnerEnds) {
  const pid_t owner = owner_of("cpu");
  std::string told;
  const DeviceLock lock("cpu", "second", [&](const std::string& why) {
    told = why;
    kill(owner);
  });
  EXPECT_NE(told.find("pid 7"), std::string::npos);
  EXPECT_NE(taken_by("cpu").find("in use by second"), std::string::npos);
}

TEST_F(Locks, EveryUserMayOpenTheFile) {
  const mode_t before = ::umask(077);
  EXPECT_EQ(taken_by("cpu"), "");
  ::umask(before);
  EXPECT_EQ(fs::status(file("cpu")).permissions(), static_cast<fs::perms>(0666));
}

TEST_F(Locks, WhatAFileSaysIsMadePrintable) {
  const DeviceLock lock("cpu", "me", refuse);
  std::ofstream(file("cpu"), std::ios::binary) << "ladder \x1b[2J\xff" << std::string(5000, 'x') << "\nmore";
  const std::string told = taken_by("cpu");
  EXPECT_EQ(told.find("device cpu is in use by ladder \\x1b[2J\\xffxxx"), 0U);
  EXPECT_LT(told.size(), 500U);
  std::ofstream(file("cpu"), std::ios::trunc).flush();
  EXPECT_EQ(taken_by("cpu"), "device cpu is in use by another program");
}

TEST_F(Locks, WhatIsNoFileOfItsOwnIsRefused) {
  fs::create_symlink(folder_ / "elsewhere", file("link"));
  EXPECT_THROW((void)taken_by("link"), std::invalid_argument);
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere"));
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0666), 0);
  EXPECT_THROW((void)taken_by("pipe"), std::invalid_argument);
  ::setenv("LADDER_LOCK_DIR", (folder_ / "nowhere").c_str(), 1);
  EXPECT_THROW((void)taken_by("cpu"), std::invalid_argument);
}

TEST_F(Locks, OneRunnerInAFolder) {
  {
    const FolderLock lock(folder_);
    EXPECT_THROW(FolderLock{folder_}, std::invalid_argument);
  }
  EXPECT_NO_THROW(FolderLock{folder_});
  EXPECT_THROW(FolderLock{folder_ / "nowhere"}, std::system_error);
}

}  // namespace locks_test
