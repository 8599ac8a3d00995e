// Every test of this program needs a CUDA device. Where there is none each of them is skipped, with the reason, and
// none passes. A listener does it, because GoogleTest 1.12 reports tests as passed whose global environment was
// skipped. Only a suite's SetUpTestSuite still runs: it must not touch the device.
#include "tests/cuda/device.h"

#include <gtest/gtest.h>

namespace needs_device {

class NeedsDevice : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& /*test*/) override {
    if (!device_tests::rehearsal() && !harness::this_machine().gpu)
      GTEST_SKIP() << harness::this_machine().no_gpu_reason;
  }
};

[[maybe_unused]] const bool listening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new NeedsDevice);  // which owns it from here on
  return true;
}();

}  // namespace needs_device
