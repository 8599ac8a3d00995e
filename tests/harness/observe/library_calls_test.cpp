// Bytes are counted where operations are dispatched. That c10d's are seen is tested with a step
// (data_parallel_test.cpp).
#include "harness/observe/library_calls.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace all_reduces_test {

TEST(AllReduces, AreNotSeenInOtherOperations) {
  const harness::AllReduces seen;
  (void)(at::ones({4}) + at::ones({4}));
  EXPECT_EQ(seen.calls(), 0);
  EXPECT_EQ(seen.bytes(), 0);
  EXPECT_THROW(harness::AllReduces(), std::logic_error);
}

}  // namespace all_reduces_test
