// What a refused call of CUPTI's means to the person who asked, and what to do about it.
#pragma once

#include <cupti_result.h>

#include <string>

namespace harness {

// "cuptiRangeProfilerStart: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)"
std::string describe_cupti(const char* call, CUptiResult result);

// Throws for everything but success: Unfit with the remedy where the machine refuses (permission, another tool, a
// virtual or partitioned GPU), std::runtime_error otherwise.
void check_cupti(const char* call, CUptiResult result);

}  // namespace harness
