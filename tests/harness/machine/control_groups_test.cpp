// Limits of control groups, in folders that look like /proc and /sys of hosts and containers.
#include "harness/machine/control_groups.h"

#include "files/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace control_groups_test {

namespace fs = std::filesystem;
using harness::cpu_limit;
using harness::memory_left;
using harness::throttled_s;

class ControlGroups : public testing::Test {
 protected:
  const files::TemporaryFolder temporary_{"control-groups-test"};
  const fs::path root_ = temporary_.path();

  void write(const std::string& file, const std::string& text) const {
    const fs::path path = root_ / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
};

TEST_F(ControlGroups, CpuLimitIsNoneWithoutControlGroupsOrALimit) {
  EXPECT_EQ(cpu_limit(root_), std::nullopt);
  write("proc/self/cgroup", "0::/user.slice");
  EXPECT_EQ(cpu_limit(root_), std::nullopt);
  write("sys/fs/cgroup/user.slice/cpu.max", "max 100000");
  EXPECT_EQ(cpu_limit(root_), std::nullopt);
  write("proc/self/cgroup", "nothing\n0::/a/../../..\n4:cpu");  // files that say nothing
  write("sys/fs/cgroup/cpu.max", "0 0");
  write("sys/fs/cgroup/a/cpu.max", "much");
  EXPECT_EQ(cpu_limit(root_), std::nullopt);
}

TEST_F(ControlGroups, CpuLimitIsTheSmallestOfTheGroupAndThoseAboveIt) {
  write("proc/self/cgroup", "0::/kubepods/pod/container");
  write("sys/fs/cgroup/kubepods/cpu.max", "6400000 100000");
  write("sys/fs/cgroup/kubepods/pod/cpu.max", "150000 100000");
  write("sys/fs/cgroup/kubepods/pod/container/cpu.max", "max 100000");
  write("sys/fs/cgroup/kubepods/pod/other/cpu.max", "50000 100000");
  EXPECT_EQ(cpu_limit(root_), 1.5);
}

TEST_F(ControlGroups, CpuLimitOfAContainerStandsAtTheMount) {
  write("proc/self/cgroup", "0::/");
  write("sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(cpu_limit(root_), 2);
  write("proc/self/cgroup", "0::/docker/of-the-host");
  EXPECT_EQ(cpu_limit(root_), 2);
}

TEST_F(ControlGroups, AreFoundBelowTheMountWhereANamespaceShowsOnlyItsOwn) {
  write("proc/self/cgroup", "4:memory:/\n0::/");
  write("sys/fs/cgroup/memory/cgroup.procs", "1");
  write("sys/fs/cgroup/memory/pods/other/cgroup.procs", "2");
  write("sys/fs/cgroup/memory/pods/ours/cgroup.procs", "3\n" + std::to_string(::getpid()));
  write("sys/fs/cgroup/memory/pods/ours/memory.limit_in_bytes", "9223372036854771712");
  write("sys/fs/cgroup/memory/pods/memory.limit_in_bytes", "5000");
  write("sys/fs/cgroup/memory/pods/memory.usage_in_bytes", "1000");
  EXPECT_EQ(memory_left(root_), 4000);
}

TEST_F(ControlGroups, CpuLimitOfTheFirstVersionIsAQuotaOverItsPeriod) {
  write("proc/self/cgroup", "11:cpuset:/elsewhere\n4:cpu,cpuacct:/docker/0123\n1:name=systemd:/docker/0123");
  write("sys/fs/cgroup/cpu/docker/0123/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu/docker/0123/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cpu_limit(root_), std::nullopt);
  write("sys/fs/cgroup/cpu/docker/0123/cpu.cfs_quota_us", "25000");
  EXPECT_EQ(cpu_limit(root_), 0.25);
}

TEST_F(ControlGroups, LeaveTheLeastMemoryOfTheGroupAndThoseAboveIt) {
  EXPECT_EQ(memory_left(root_), std::nullopt);
  write("proc/self/cgroup", "0::/system.slice/job_1/step_0");
  write("sys/fs/cgroup/system.slice/memory.max", "9000");
  write("sys/fs/cgroup/system.slice/job_1/memory.max", "5000");
  write("sys/fs/cgroup/system.slice/job_1/step_0/memory.max", "max");
  EXPECT_EQ(memory_left(root_), 5000);
  write("sys/fs/cgroup/system.slice/memory.current", "8000");  // others have taken most of it
  write("sys/fs/cgroup/system.slice/memory.stat", "anon 7500\nfile 500\ninactive_file 300");
  write("sys/fs/cgroup/system.slice/job_1/memory.current", "700");
  EXPECT_EQ(memory_left(root_), 1300);
  write("sys/fs/cgroup/system.slice/job_1/memory.current", "6000");
  EXPECT_EQ(memory_left(root_), 0);
}

TEST_F(ControlGroups, OfTheFirstVersionLeaveMemoryToo) {
  write("proc/self/cgroup", "11:cpu,cpuacct:/elsewhere\n4:memory:/slurm/uid_0/job_1/step_0/task_0\n0::/");
  write("sys/fs/cgroup/memory/slurm/uid_0/job_1/memory.limit_in_bytes", "5000");
  write("sys/fs/cgroup/memory/slurm/uid_0/job_1/memory.usage_in_bytes", "2000");
  write("sys/fs/cgroup/memory/slurm/uid_0/job_1/memory.stat", "inactive_file 1\ntotal_inactive_file 400");
  write("sys/fs/cgroup/memory/slurm/uid_0/job_1/step_0/task_0/memory.limit_in_bytes", "9223372036854771712");
  write("sys/fs/cgroup/memory/elsewhere/memory.limit_in_bytes", "1");
  EXPECT_EQ(memory_left(root_), 3400);
}

TEST_F(ControlGroups, TellHowLongAQuotaHasStoppedThreads) {
  EXPECT_EQ(throttled_s(root_), 0);
  write("proc/self/cgroup", "0::/pod/container\n4:cpu,cpuacct:/docker");
  write("sys/fs/cgroup/pod/cpu.stat", "usage_usec 9000000\nnr_throttled 3\nthrottled_usec 2500000");
  write("sys/fs/cgroup/pod/container/cpu.stat", "usage_usec 9000000\nnr_throttled 0\nthrottled_usec 0");
  EXPECT_DOUBLE_EQ(throttled_s(root_), 2.5);
  write("sys/fs/cgroup/cpu/docker/cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_time 3500000000");
  EXPECT_DOUBLE_EQ(throttled_s(root_), 3.5);
}

}  // namespace control_groups_test
