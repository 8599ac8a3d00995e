// What JSON may be in a struct's fields, and what is said of what it may not.
#include "results/fields.h"

#include "files/files.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace fields_test {

using namespace results;
using files::Json;

enum class Colour { red, green };

}  // namespace fields_test

template <>
struct results::Names<fields_test::Colour> {
  static constexpr std::array list{"red", "green"};
};

namespace fields_test {

struct Part {
  double ms = 0;

  LADDER_FIELDS(Part, (ms, {.least = 1e-6, .most = 1e12}))
};

struct Ended {
  std::string id;
  bool ok = true;

  [[nodiscard]] bool is_short() const { return !ok; }

  LADDER_FIELDS(Ended, (id, {.most = 4, .pattern = "^[a-z]+$"}), ok)
};

struct Whole : Ended {
  static constexpr auto kind = "whole";
  static constexpr auto about = "A document with a field of every kind";
  using Short = Ended;

  int64_t change = 0;
  size_t runs = 0;
  Colour colour = Colour::red;
  std::vector<double> ms;
  std::vector<Part> parts;
  std::map<std::string, Part> named;
  std::string name = "plain", peer;
  std::optional<double> share, loss;
  Json recipe;

  LADDER_MORE_FIELDS(Ended, Whole, change, runs, colour, (ms, {.above = 0, .items = 1, .most_items = 3}), parts, named,
                     (name, absent), (peer, {.name = "of", .none = None::null_if_default}), share, (loss, absent),
                     recipe)
};

Json good() {
  return {{"kind", "whole"},
          {"schema_version", 1},
          {"id", "a"},
          {"ok", true},
          {"change", -3},
          {"runs", 2},
          {"colour", "green"},
          {"ms", {0.5, 1.0}},
          {"parts", {{{"ms", 1.5}}}},
          {"named", {{"x", {{"ms", 2.5}}}}},
          {"of", nullptr},
          {"share", nullptr},
          {"recipe", {{"a", 1}}}};
}

Whole read(const Json& json) { return value_from<Whole>(json, "file"); }

std::string refusal(const char* pointer, const Json& value) {
  Json json = good();
  const Json::json_pointer place(pointer);
  if (value.is_discarded()) {
    json.at(place.parent_pointer()).erase(place.back());
  } else {
    json[place] = value;
  }
  try {
    (void)read(json);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "taken";
}

TEST(Fields, AreWrittenAsTheyWereRead) {
  Json json = good();
  EXPECT_EQ(json_of(read(json)), json);
  json.update({{"name", "other"}, {"of", "pytorch"}, {"share", 0.5}, {"loss", 1.5}});
  EXPECT_EQ(json_of(read(json)), json);
  json.update({{"name", "plain"}, {"of", ""}});
  const Json plain = json_of(read(json));
  EXPECT_FALSE(plain.contains("name"));
  EXPECT_TRUE(plain.at("of").is_null());
}

TEST(Fields, OfOneThatSaysLessAreItsEndAlone) {
  const Json json{{"kind", "whole"}, {"schema_version", 1}, {"id", "a"}, {"ok", false}};
  EXPECT_EQ(json_of(read(json)), json);
  EXPECT_EQ(refusal("/ok", false), "file: unknown field \"change\"; the known fields are kind, schema_version, id, ok");
}

TEST(Fields, TakeWholeNumbersThatTheyCanHold) {
  for (const auto& [value, expected] : {std::pair<Json, int64_t>{-3, -3}, {8.0, 8}, {INT64_MAX, INT64_MAX}}) {
    Json json = good();
    json["change"] = value;
    EXPECT_EQ(read(json).change, expected);
  }
  for (const Json& odd : {Json(-1), Json(-1.0), Json(1.5), Json(true), Json(1e30), Json("3")}) {
    EXPECT_EQ(refusal("/runs", odd), "file: field [runs]: must be of type integer, got " + odd.dump());
  }
  EXPECT_NE(refusal("/change", UINT64_MAX), "taken");
}

TEST(Fields, AreRefusedByTheirRules) {
  const Json gone(Json::value_t::discarded);
  for (const auto& [pointer, value, expected] : std::vector<std::tuple<const char*, Json, std::string>>{
           {"/kind", "ladder", "not a whole: \"kind\" is \"ladder\", \"whole\" is expected"},
           {"/schema_version", gone, "\"schema_version\" is missing; this program reads version 1"},
           {"/schema_version", 2, "\"schema_version\" is 2; this program reads version 1"},
           {"/change", gone, "field \"change\" is missing"},
           {"/share", gone, "field \"share\" is missing"},
           {"/named/x/ms", gone, "field [named][x]: field \"ms\" is missing"},
           {"/parts/0/mss", 1, "field [parts][0]: unknown field \"mss\"; the known fields are ms"},
           {"/parts", Json::object(), "field [parts]: must be of type array, got object"},
           {"/named", 1, "field [named]: must be of type object, got 1"},
           {"/recipe", "x", "field [recipe]: must be of type object, got \"x\""},
           {"/name", nullptr, "field [name]: must be of type string, got null"},
           {"/loss", nullptr, "field [loss]: must be of type number, got null"},
           {"/ok", 1, "field [ok]: must be of type boolean, got 1"},
           {"/ms/1", "1", "field [ms][1]: must be of type number, got \"1\""},
           {"/ms/1", 0.0, "field [ms][1]: must be above 0, got 0.0"},
           {"/parts/0/ms", 0.0, "field [parts][0][ms]: must be at least 1e-06, got 0.0"},
           {"/parts/0/ms", 1e13, "field [parts][0][ms]: must be at most 1000000000000, got 10000000000000.0"},
           {"/ms", Json::array(), "field [ms]: must have at least 1 items, got 0"},
           {"/ms", {1, 2, 3, 4}, "field [ms]: must have at most 3 items, got 4"},
           {"/id", "B", "field [id]: must match ^[a-z]+$, got \"B\""},
           {"/id", "abcde", "field [id]: must have at most 4 characters, got 5"},
           {"/colour", "blue", "field [colour]: must be one of red, green, got \"blue\""},
       }) {
    EXPECT_EQ(refusal(pointer, value), "file: " + expected);
  }
}

TEST(Fields, OfADocumentAreCheckedBeforeItIsWritten) {
  const files::TemporaryFolder folder("fields-test");
  Whole whole = read(good());
  write_document(folder.path() / "good.json", whole);
  EXPECT_EQ(json_of(read_document<Whole>(folder.path() / "good.json")), good());
  whole.ms = {};
  EXPECT_THROW(write_document(folder.path() / "wrong.json", whole), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "wrong.json"));
}

}  // namespace fields_test
