// JSON documents: what is refused and how, and that files are written whole or not at all.
#include "files/json_file.h"

#include "files/files.h"
#include "files/resources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace json_file_test {

namespace fs = std::filesystem;
using files::Json;

class JsonFile : public testing::Test {
 protected:
  const files::TemporaryFolder temporary_{"json-test"};
  const fs::path folder_ = temporary_.path();

  std::string refusal(const std::string& content, std::string_view kind = "ladder") {
    const fs::path file = folder_ / "document.json";
    std::ofstream(file, std::ios::binary) << content;
    try {
      (void)files::read_json(file, kind);
    } catch (const std::invalid_argument& error) {
      std::string message = error.what();
      EXPECT_EQ(message.rfind(file.string() + ": ", 0), 0U) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      return message;
    }
    return "accepted";
  }
};

const char* const ladder =
    R"({"kind": "ladder", "schema_version": 1, "name": "x", "title": "x", "start": {}, "rungs": ["bf16"],
  "workload": {"model": "tiny", "batch": 1, "context": 8}, "plan": {"repeats": 1, "warmup_steps": 0, "timed_steps": 1}})";

std::string with(const std::string& from, const std::string& to) {
  std::string text = ladder;
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST_F(JsonFile, ReadsAValidDocument) { EXPECT_EQ(refusal(ladder), "accepted"); }

TEST_F(JsonFile, DoesNotEndAtANulByte) {
  using namespace std::string_literals;
  EXPECT_NE(refusal(ladder + "\0, and more"s).find("not valid JSON: a NUL byte at position"), std::string::npos);
  EXPECT_NE(refusal("\0"s).find("not valid JSON: a NUL byte at position 0"), std::string::npos);
}

TEST_F(JsonFile, NamesTheFieldThatIsWrong) {
  EXPECT_NE(refusal(with("\"batch\": 1", "\"batch\": \"1\""))
                .find("field [workload][batch]: must be of type integer, got \"1\""),
            std::string::npos);
  EXPECT_NE(refusal(with("\"batch\": 1", "\"batch\": 0")).find("batch"), std::string::npos);
  const std::string mistyped = refusal(with("\"batch\": 1", "\"bach\": 1"));
  EXPECT_NE(mistyped.find("field [workload]: unknown field \"bach\"; the known fields are accumulation, batch,"),
            std::string::npos)
      << mistyped;
  EXPECT_NE(refusal(with("\"title\": \"x\"", "\"titel\": \"x\"")).find(": unknown field \"titel\""), std::string::npos);
  EXPECT_NE(
      refusal(with("\"rungs\": [\"bf16\"]", "\"rungs\": [1]")).find("field [rungs][0]: must be of type string, got 1"),
      std::string::npos);
  EXPECT_NE(refusal(with("\"schema_version\": 1", "\"schema_version\": 2")).find("reads version 1"), std::string::npos);
  const std::string unversioned = refusal(with("\"schema_version\": 1, ", ""));
  EXPECT_NE(unversioned.find("\"schema_version\" is missing; this program reads version 1"), std::string::npos)
      << unversioned;
  EXPECT_NE(refusal(ladder, "record").find("not a record"), std::string::npos);
  EXPECT_NE(refusal("[]").find("not a ladder"), std::string::npos);
  EXPECT_NE(refusal("3").find("not a ladder"), std::string::npos);
}

// A record is of one of two kinds, told apart by its status; a monitor, too.
TEST_F(JsonFile, NamesTheDeepestFieldOfAlternatives) {
  const Json good = files::read_any_json(files::resource_root() / "tests/fuzz/seeds/record/valid-monitored.json");
  const auto refused = [&](const char* pointer, const Json& value) {
    Json record = good;
    if (value.is_discarded()) {
      const Json::json_pointer place(pointer);
      record.at(place.parent_pointer()).erase(place.back());
    } else {
      record[Json::json_pointer(pointer)] = value;
    }
    const std::string message = refusal(record.dump(), "record");
    return message.substr(std::min(message.find(": ") + 2, message.size()));
  };
  const Json gone(Json::value_t::discarded);
  EXPECT_EQ(refused("/timing/step_ms/2", 0.0), "field [timing][step_ms][2]: must be at least 1e-06, got 0.0");
  Json many = std::vector<double>(3000, 1.0);
  many[2999] = 0.0;
  EXPECT_EQ(refused("/timing/step_ms", many), "field [timing][step_ms][2999]: must be at least 1e-06, got 0.0");
  EXPECT_EQ(refused("/timing/step_ms/2", "1"), "field [timing][step_ms][2]: must be of type number, got \"1\"");
  EXPECT_EQ(refused("/timing/step_ms", Json::array()), "field [timing][step_ms]: must have at least 1 items, got 0");
  EXPECT_EQ(refused("/timing", gone), "field \"timing\" is missing");
  EXPECT_EQ(refused("/workload/data/tokens", gone), "field [workload][data]: field \"tokens\" is missing");
  EXPECT_EQ(refused("/status", "failed"), "field \"failure\" is missing");
  EXPECT_EQ(refused("/status", "good"), "field [status]: must be one of ok, failed, got \"good\"");
  EXPECT_EQ(refused("/monitor/power_w/min", "x"), "field [monitor][power_w][min]: must be of type number, got \"x\"");
  EXPECT_EQ(refused("/monitor/samples", gone), "field [monitor]: field \"samples\" is missing");
  EXPECT_EQ(refused("/plan", {{"id", "a"}, {"sha256", "0"}}),
            "field [plan][sha256]: must match ^[0-9a-f]{64}$, got \"0\"");
}

TEST_F(JsonFile, RefusesWhatIsNotJson) {
  EXPECT_NE(refusal("").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal(std::string(ladder).substr(0, 100)).find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal("{\"kind\": NaN}").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal(with("\"name\": \"x\"", "\"name\": \"x\", \"name\": \"y\"")).find("appears twice"),
            std::string::npos);
  EXPECT_NE(refusal(std::string(100000, '[')).find("nested deeper"), std::string::npos);
  EXPECT_EQ(refusal(with("\"title\": \"x\"", "\"comment\": \"" + std::string(300, '[') + "\", \"title\": \"x\"")),
            "accepted");
  EXPECT_NE(refusal(with("\"batch\": 1", "\"batch\": 9223372036854775808")).find("below 2^63"), std::string::npos);
  EXPECT_NE(refusal(std::string("\xff\xfe{\0", 4)).find("is a text in UTF-16, not a JSON document"), std::string::npos);
}

TEST_F(JsonFile, RefusesWhatIsNoFileOrTooBig) {
  EXPECT_THROW((void)files::read_json(folder_ / "absent.json", "ladder"), std::invalid_argument);
  EXPECT_THROW((void)files::read_json(folder_, "ladder"), std::invalid_argument);
  const fs::path big = folder_ / "big.json";
  std::ofstream(big) << "{";
  fs::resize_file(big, uintmax_t{1} << 33);  // sparse
  EXPECT_THROW((void)files::read_json(big, "ladder"), std::invalid_argument);
}

TEST_F(JsonFile, WritesWholeOrNotAtAll) {
  const fs::path file = folder_ / "out.json";
  files::write_file(file, "first");
  EXPECT_THROW(files::write_json(file, Json{{"kind", "ladder"}}, "ladder"), std::invalid_argument);
  EXPECT_EQ(files::read_file(file, 100), "first");
  EXPECT_THROW(files::write_file(folder_ / "no" / "such", "x"), std::system_error);
  EXPECT_THROW(files::write_file(folder_, "x"), std::system_error);  // a folder stands there
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_)) ++files;
  EXPECT_EQ(files, 1U);  // no temporary file is left
}

TEST(FiniteOrNull, KeepsNanOutOfJson) {
  EXPECT_TRUE(files::finite_or_null(std::nan("")).is_null());
  EXPECT_TRUE(files::finite_or_null(INFINITY).is_null());
  EXPECT_EQ(files::finite_or_null(1.5), 1.5);
}

}  // namespace json_file_test
