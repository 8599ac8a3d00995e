// JSON documents: what is refused and how, and that files are written whole or not at all.
#include "files/json_file.h"

#include "files/files.h"

#include <gtest/gtest.h>

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

  std::string refusal(const std::string& content) {
    const fs::path file = folder_ / "document.json";
    std::ofstream(file, std::ios::binary) << content;
    try {
      (void)files::read_any_json(file);
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
  EXPECT_THROW((void)files::read_any_json(folder_ / "absent.json"), std::invalid_argument);
  EXPECT_THROW((void)files::read_any_json(folder_), std::invalid_argument);
  const fs::path big = folder_ / "big.json";
  std::ofstream(big) << "{";
  fs::resize_file(big, uintmax_t{1} << 33);  // sparse
  EXPECT_THROW((void)files::read_any_json(big), std::invalid_argument);
}

TEST_F(JsonFile, WritesWholeOrNotAtAll) {
  const fs::path file = folder_ / "out.json";
  files::write_file(file, "first");
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
