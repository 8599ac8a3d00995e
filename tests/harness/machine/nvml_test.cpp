// Which GPUs a program may use, on a scripted library (fake_nvml.cpp).
#include "harness/machine/nvml.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace nvml_test {

using harness::visible_gpus;

constexpr const char* two = "init 0\nshutdown 0\ndevices 2\ndriver 570.86\nmemory 85520809984\nprocesses 0\n";

class VisibleGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* named = std::getenv(variable)) before_ = named;
    ::unsetenv(variable);
    script(two);
  }
  void TearDown() override {
    if (before_) ::setenv(variable, before_->c_str(), 1);
    if (!before_) ::unsetenv(variable);
  }
  static void script(const char* text) {
    void* const library = ::dlopen(FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(::dlerror());
    reinterpret_cast<void (*)(const char*)>(::dlsym(library, "fake_script"))(text);
  }
  // The places of the GPUs that are left.
  static std::vector<std::string> with(const std::string& listed) {
    ::setenv(variable, listed.c_str(), 1);
    std::vector<std::string> places;
    for (const harness::VisibleGpu& gpu : visible_gpus(FAKE_NVML).gpus) places.push_back(gpu.bus_id);
    return places;
  }

  static constexpr const char* variable = "CUDA_VISIBLE_DEVICES";
  std::optional<std::string> before_;
};

using Places = std::vector<std::string>;
const std::string first = "0000:19:00.0", second = "0000:3b:00.0";

TEST_F(VisibleGpus, AreAllWithoutTheVariable) {
  const harness::VisibleGpus all = visible_gpus(FAKE_NVML);
  EXPECT_EQ(all.driver, "570.86");
  ASSERT_EQ(all.gpus.size(), 2U);
  EXPECT_EQ(all.gpus[0].name, "NVIDIA Fake 0");
  EXPECT_EQ(all.gpus[0].bus_id, first);
  EXPECT_EQ(all.gpus[0].memory_bytes, 85520809984);
  EXPECT_EQ(all.gpus[1].uuid, "GPU-1fake-0000");
  EXPECT_EQ(all.gpus[1].bus_id, second);
}

TEST_F(VisibleGpus, AreThoseOfTheNumbers) {
  EXPECT_EQ(with("1"), Places{second});
  EXPECT_EQ(with("0,1"), (Places{first, second}));
  EXPECT_EQ(with(" 1"), Places{second});
}

TEST_F(VisibleGpus, AreThoseOfTheUuids) {
  EXPECT_EQ(with("GPU-1fake-0000"), Places{second});
  EXPECT_EQ(with("GPU-0f"), Places{first});
  EXPECT_EQ(with("GPU-0f,GPU-1f"), (Places{first, second}));
}

// As CUDA reads it: what comes after a wrong one does not count.
TEST_F(VisibleGpus, AreNoneOfAnEmptyListOrNonsense) {
  EXPECT_EQ(with(""), Places{});
  EXPECT_EQ(with("-1"), Places{});
  EXPECT_EQ(with("nonsense"), Places{});
  EXPECT_EQ(with("GPU-"), Places{});
  EXPECT_EQ(with("7"), Places{});
  EXPECT_EQ(with("0,-1,1"), Places{first});
  EXPECT_EQ(with("0,nonsense,1"), Places{first});
  EXPECT_EQ(with(",0"), Places{});
}

TEST_F(VisibleGpus, AreNoneWithoutADriver) {
  EXPECT_TRUE(visible_gpus("no-such-library.so.1").gpus.empty());
  script("init !9\n");
  EXPECT_TRUE(visible_gpus(FAKE_NVML).gpus.empty());
}

TEST_F(VisibleGpus, LackWhatTheDriverDoesNotTell) {
  script("init 0\nshutdown 0\ndevices 1\n");
  const harness::VisibleGpus found = visible_gpus(FAKE_NVML);
  EXPECT_EQ(found.driver, "");
  ASSERT_EQ(found.gpus.size(), 1U);
  EXPECT_EQ(found.gpus[0].memory_bytes, 0);
}

}  // namespace nvml_test
