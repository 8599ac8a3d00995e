// What a number of JSON may be in a field.
#include "results/fields.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace fields_test {

using namespace ablations;
using files::Json;

struct Counted {
  int64_t change = 0;
  size_t runs = 0;

  LADDER_FIELDS(Counted, (change, defaulted), (runs, defaulted))
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

struct Labelled {
  std::string name = "plain", peer;

  LADDER_FIELDS(Labelled, (name, absent), (peer, null_if_default))
};

TEST(Fields, ThatHaveTheirDefaultMayBeLeftOutOrNull) {
  for (const Json& json : {Json{{"peer", nullptr}}, Json{{"name", "other"}, {"peer", "pytorch"}}}) {
    EXPECT_EQ(json_of(value_from<Labelled>(json, "file.json")), json);
  }
  EXPECT_EQ(value_from<Labelled>({{"peer", nullptr}}, "file.json").name, "plain");
  EXPECT_EQ(json_of(value_from<Labelled>({{"name", "plain"}, {"peer", ""}}, "file.json")), (Json{{"peer", nullptr}}));
  EXPECT_THROW((void)value_from<Labelled>({{"name", nullptr}, {"peer", nullptr}}, "file.json"), std::invalid_argument);
  EXPECT_THROW((void)value_from<Labelled>({{"name", "other"}}, "file.json"), std::invalid_argument) << "no peer";
}

}  // namespace fields_test
