// Counters where there are none, and what a refusal of CUPTI's is told as. Real counters: tests/cuda.
#include "harness/gpu/gpu_counters.h"

#include "harness/gpu/cupti.h"
#include "harness/machine/machine.h"
#include "harness/process/unfit.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace gpu_counters_test {

using namespace harness;

std::string unfit(CUptiResult result) {
  try {
    check_cupti("cuptiRangeProfilerStart", result);
  } catch (const Unfit& error) {
    return error.what();
  } catch (const std::exception&) {
    return "not unfit";
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Counters, WithoutADeviceTheReasonIsTold) {
  if (this_machine().gpu) GTEST_SKIP() << "there is a GPU";
  try {
    const Counters counters({});
    FAIL() << "counters without a device";
  } catch (const Unfit& error) {
    EXPECT_EQ(std::string(error.what()), "counters need a GPU: " + this_machine().no_gpu_reason);
  }
}

TEST(CuptiError, SuccessIsNone) { EXPECT_NO_THROW(check_cupti("cuptiRangeProfilerStart", CUPTI_SUCCESS)); }

TEST(CuptiError, ARefusalSaysHowToPermit) {
  const std::string user = unfit(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
  EXPECT_TRUE(has(user, "NVreg_RestrictProfilingToAdminUsers=0")) << user;
  EXPECT_TRUE(has(user, "SYS_ADMIN")) << user;
  EXPECT_TRUE(has(user, "[cuptiRangeProfilerStart: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)]")) << user;
  const std::string guest = unfit(CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
  EXPECT_TRUE(has(guest, "hypervisor")) << guest;
}

TEST(CuptiError, ToolsInTheWayAreNamed) {
  EXPECT_TRUE(has(unfit(CUPTI_ERROR_HARDWARE_BUSY), "dcgmi profile --pause"));
  EXPECT_TRUE(has(unfit(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED), "Nsight"));
}

TEST(CuptiError, WhatIsNoPropertyOfTheMachineIsAnOrdinaryError) {
  EXPECT_EQ(unfit(CUPTI_ERROR_UNKNOWN), "not unfit");
  EXPECT_THROW(check_cupti("cuptiRangeProfilerStart", CUPTI_ERROR_INVALID_PARAMETER), std::runtime_error);
}

}  // namespace gpu_counters_test
