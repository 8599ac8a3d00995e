// Limits of control groups, in folders that look like /proc and /sys of hosts and containers.
#include "harness/measure/cpu_limit.h"

#include "files/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace cpu_limit_test {

namespace fs = std::filesystem;
using harness::cpu_limit;

class CpuLimit : public testing::Test {
 protected:
  const files::TemporaryFolder temporary_{"cpu-limit-test"};
  const fs::path root_ = temporary_.path();

  void write(const std::string& file, const std::string& text) const {
    const fs::path path = root_ / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
};

TEST_F(CpuLimit, IsNoneWithoutControlGroupsOrALimit) {
  EXPECT_EQ(cpu_limit(root_), std::nullopt);
  write("proc/self/cgroup", "0::/user.slice");
  EXPECT_EQ(cpu_limit(root_), std::nullopt);
  write("sys/fs/cgroup/user.slice/cpu.max", "max 100000");
  EXPECT_EQ(cpu_limit(root_), std::nullopt);
}

TEST_F(CpuLimit, IsTheSmallestOfTheGroupAndThoseAboveIt) {
  write("proc/self/cgroup", "0::/kubepods/pod/container");
  write("sys/fs/cgroup/kubepods/cpu.max", "6400000 100000");
  write("sys/fs/cgroup/kubepods/pod/cpu.max", "150000 100000");
  write("sys/fs/cgroup/kubepods/pod/container/cpu.max", "max 100000");
  write("sys/fs/cgroup/kubepods/pod/other/cpu.max", "50000 100000");
  EXPECT_EQ(cpu_limit(root_), 1.5);
}

TEST_F(CpuLimit, OfAContainerStandsAtTheMount) {
  write("proc/self/cgroup", "0::/");
  write("sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(cpu_limit(root_), 2);
  write("proc/self/cgroup", "0::/docker/of-the-host");
  EXPECT_EQ(cpu_limit(root_), 2);
}

TEST_F(CpuLimit, OfTheFirstVersionIsAQuotaOverItsPeriod) {
  write("proc/self/cgroup", "11:cpuset:/elsewhere\n4:cpu,cpuacct:/docker/0123\n1:name=systemd:/docker/0123");
  write("sys/fs/cgroup/cpu/docker/0123/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu/docker/0123/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cpu_limit(root_), std::nullopt);
  write("sys/fs/cgroup/cpu/docker/0123/cpu.cfs_quota_us", "25000");
  EXPECT_EQ(cpu_limit(root_), 0.25);
}

TEST_F(CpuLimit, IsNoneWhereTheFilesSayNothing) {
  write("proc/self/cgroup", "nothing\n0::/a/../../..\n4:cpu");
  write("sys/fs/cgroup/cpu.max", "0 0");
  write("sys/fs/cgroup/a/cpu.max", "much");
  EXPECT_EQ(cpu_limit(root_), std::nullopt);
}

}  // namespace cpu_limit_test
