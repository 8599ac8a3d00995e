// What a number of JSON may be in a field.
#include "ablations/documents/fields.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>

namespace {

using namespace ablations;
using files::Json;

struct Counted {
  int64_t change = 0;
  size_t runs = 0;

  static void fields(auto&& field) {
    field("change", &Counted::change, None::defaulted);
    field("runs", &Counted::runs, None::defaulted);
  }
};

Counted counted(const Json& json) { return value_from<Counted>(json, "file.json"); }

TEST(Fields, TakeWholeNumbersThatTheyCanHold) {
  EXPECT_EQ(counted({{"change", -3}}).change, -3);
  EXPECT_EQ(counted({{"change", 8.0}}).change, 8);
  EXPECT_EQ(counted({{"runs", UINT64_MAX}}).runs, UINT64_MAX);
  for (const Json& odd : {Json{{"runs", -1}}, Json{{"runs", -1.0}}, Json{{"runs", 1.5}}, Json{{"runs", true}},
                          Json{{"runs", 1e30}}, Json{{"change", UINT64_MAX}}, Json{{"change", "3"}}}) {
    EXPECT_THROW((void)counted(odd), std::invalid_argument) << odd.dump();
  }
  try {
    (void)counted({{"runs", -1}});
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "file.json: field [runs]: -1 does not fit the field");
  }
}

}  // namespace
