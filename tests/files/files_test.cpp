// Files and folders that are whole or not there, a stranger's text in a message, and writing where somebody else may
// have put links.
#include "files/files.h"

#include "files/json_file.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace {
bool the_disk_is_full = false;
}  // namespace

// In place of the C library's, for this program: a full disk shows only when the bytes must reach it.
extern "C" int fsync(int descriptor) {
  if (!the_disk_is_full) return static_cast<int>(::syscall(SYS_fsync, descriptor));
  errno = ENOSPC;
  return -1;
}

namespace files_test {

namespace fs = std::filesystem;

TEST(AtomicFile, IsNotInItsPlaceBeforeItsBytesAreOnTheDisk) {
  const files::TemporaryFolder folder("files-test");
  const fs::path path = folder.path() / "kept.json";
  std::ofstream(path) << "before";
  the_disk_is_full = true;
  {
    files::AtomicFile file(path);
    file.write("after", 5);
    EXPECT_THROW(file.commit(), std::system_error);
  }
  the_disk_is_full = false;
  EXPECT_EQ(files::read_file(path), "before");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(AtomicFolder, IsInItsPlaceWithAllItsFilesOrNotAtAll) {
  const files::TemporaryFolder folder("files-test");
  const fs::path path = folder.path() / "kept";
  const auto write = [&](const char* text) {
    const bool was_there = fs::exists(path);
    files::AtomicFolder kept(path);
    EXPECT_TRUE(files::is_unfinished(kept.place().filename().string(), "kept"));
    files::write_file(kept.place() / "one", text);
    files::write_file(kept.place() / "two", "2");
    EXPECT_EQ(fs::exists(path / "two"), was_there);
    the_disk_is_full = std::string(text) == "no room";
    kept.commit();
  };
  EXPECT_THROW(write("no room"), std::system_error);
  the_disk_is_full = false;
  EXPECT_TRUE(fs::is_empty(folder.path()));
  write("1");
  EXPECT_EQ(files::read_file(path / "one"), "1");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
  EXPECT_THROW(write("another"), std::system_error);  // nothing in its place is lost
  EXPECT_EQ(files::read_file(path / "one"), "1");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
  files::remove_folder(path);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(GrowingFile, BeginsWithWhatItIsToldAndGrows) {
  const files::TemporaryFolder folder("files-test");
  const fs::path path = folder.path() / "log", mine = folder.path() / "mine";
  std::ofstream(mine) << "mine";
  fs::create_symlink(mine, path);
  {
    files::GrowingFile log(path, "1\n");
    log.append("2\n");
    log.append("3\n");
    log.sync();
    EXPECT_EQ(files::read_file(path), "1\n2\n3\n");
  }
  files::GrowingFile(path, "1\n").append("other\n");
  EXPECT_EQ(files::read_file(path), "1\nother\n");
  EXPECT_EQ(files::read_file(mine), "mine");
  EXPECT_THROW(files::GrowingFile(folder.path() / "none" / "log", ""), std::system_error);
}

TEST(InputFile, ReadsAtAPlaceWithoutMovingItsOwn) {
  const files::TemporaryFolder folder("files-test");
  const fs::path path = folder.path() / "ten";
  std::ofstream(path) << "0123456789";
  files::InputFile file(path);
  std::string three(3, ' ');
  file.read(three.data(), 3);
  EXPECT_EQ(three, "012");
  file.read_at(7, three.data(), 3);
  EXPECT_EQ(three, "789");
  file.read(three.data(), 3);
  EXPECT_EQ(three, "345");
  EXPECT_EQ(refusal_of([&] { file.read_at(8, three.data(), 3); }),
            path.string() + ": the file ended early with 1 bytes still to read");
}

TEST(MappedFile, HasTheFilesBytes) {
  const files::TemporaryFolder folder("files-test");
  const fs::path path = folder.path() / "ten", empty = folder.path() / "empty";
  std::ofstream(path) << "0123456789";
  std::ofstream(empty) << "";
  EXPECT_EQ(files::MappedFile(path).bytes(), "0123456789");
  EXPECT_THROW(files::MappedFile{empty}, std::invalid_argument);
  EXPECT_THROW(files::MappedFile{folder.path() / "absent"}, std::invalid_argument);
  EXPECT_THROW(files::MappedFile{folder.path()}, std::invalid_argument);
}

TEST(Quotes, FitOneLine) {
  EXPECT_EQ(files::in_quotes("a\n\"\\\xff"), R"("a\x0a\"\\\xff")");
  EXPECT_EQ(files::in_quotes(std::string(61, 'a')), "\"" + std::string(60, 'a') + "...\"");
}

class Links : public testing::Test {
 protected:
  Links() {
    fs::create_directory(folder_ / "real");
    files::write_file(folder_ / "mine", "mine");
  }

  const files::TemporaryFolder temporary_{"links-test"};
  const fs::path folder_ = temporary_.path();
};

TEST_F(Links, AreReplacedAndNotWrittenThrough) {
  fs::create_symlink(folder_ / "mine", folder_ / "real" / "link");
  files::write_file(folder_ / "real" / "link", "new");
  EXPECT_EQ(files::read_file(folder_ / "mine"), "mine");
  EXPECT_FALSE(fs::is_symlink(folder_ / "real" / "link"));
  EXPECT_EQ(files::read_file(folder_ / "real" / "link"), "new");
}

TEST_F(Links, AreFollowedWhereAPersonNamesThem) {
  fs::create_symlink("mine", folder_ / "link");
  fs::create_directory_symlink("real", folder_ / "linked");
  files::write_file(folder_ / "link", "new", files::Links::followed);
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(files::read_file(folder_ / "mine"), "new");
  files::write_file(folder_ / "linked" / "file", "there", files::Links::followed);
  EXPECT_EQ(files::read_file(folder_ / "real" / "file"), "there");
}

TEST_F(Links, OfFoldersAreRefused) {
  fs::create_directory_symlink("real", folder_ / "linked");
  EXPECT_THROW(files::write_file(folder_ / "linked" / "file", "x"), std::invalid_argument);
  EXPECT_THROW(files::make_folder_in(folder_, "linked"), std::invalid_argument);
  EXPECT_THROW((void)files::open_new(folder_ / "linked" / "log"), std::invalid_argument);
  EXPECT_TRUE(fs::is_empty(folder_ / "real"));
  EXPECT_TRUE(fs::is_directory(files::make_folder_in(folder_, "made")));
  EXPECT_TRUE(fs::is_directory(files::make_folder_in(folder_, "made")));
  // The folder that a person names may be one.
  for (const char* name : {"linked", "linked/"}) EXPECT_EQ(files::named_folder(folder_ / name), folder_ / "real");
  EXPECT_EQ(files::named_folder("none"), "none");
}

TEST_F(Links, AreWrittenInPlaceOfLinksOnly) {
  for (const char* target : {"real", "mine"}) {
    files::write_link(folder_ / "link", target);
    EXPECT_EQ(fs::read_symlink(folder_ / "link"), target);
  }
  EXPECT_THROW(files::write_link(folder_ / "mine", "real"), std::system_error);
  EXPECT_THROW(files::write_link(folder_ / "real", "mine"), std::system_error);
  EXPECT_EQ(files::read_file(folder_ / "mine"), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 3);
}

TEST_F(Links, ToALogLoseNothing) {
  fs::create_symlink(folder_ / "mine", folder_ / "soft");
  fs::create_hard_link(folder_ / "mine", folder_ / "hard");
  files::write_file(folder_ / "old", "an older log");
  for (const char* name : {"soft", "hard", "old", "none"}) {
    const int log = files::open_new(folder_ / name);
    EXPECT_EQ(::write(log, "log", 3), 3);
    ::close(log);
    EXPECT_EQ(files::read_file(folder_ / name), "log");
    EXPECT_EQ(files::read_file(folder_ / "mine"), "mine") << name;
  }
  EXPECT_THROW((void)files::open_new(folder_ / "real"), std::system_error);
}

TEST(Unfinished, IsWhatAWriterOfThatNameLeaves) {
  EXPECT_EQ(files::finished_name("a.json.0123456789abcdef.tmp"), "a.json");
  EXPECT_EQ(files::finished_name("a.json"), "");
  EXPECT_TRUE(files::is_unfinished("a.json.0123456789abcdef.tmp", "a.json"));
  for (const char* other :
       {"a.json", "a.json.tmp", "b.json.0123456789abcdef.tmp", "a.json.0123456789abcdeg.tmp",
        "a.json.0123456789abcde.tmp", "a.json.0123456789abcdef.tmp.x", ".0123456789abcdef.tmp", ""}) {
    EXPECT_FALSE(files::is_unfinished(other, "a.json")) << other;
  }
}

TEST_F(Links, AreNoWayIntoOtherFolders) {
  fs::create_directory_symlink("..", folder_ / "real" / "up");
  files::write_file(folder_ / "real" / "b", "");
  fs::create_symlink("gone", folder_ / "real" / "dangling");
  const auto all = [](const fs::path&) { return true; };
  EXPECT_EQ(files::files_below(folder_, all),
            (std::vector{folder_ / "mine", folder_ / "real" / "b", folder_ / "real" / "dangling"}));
  EXPECT_EQ(files::files_below(folder_, [](const fs::path& file) { return file.filename() == "b"; }).size(), 1U);
  EXPECT_THROW((void)files::files_below(folder_ / "none", all), std::system_error);
}

}  // namespace files_test

namespace json_file_test {

// JSON documents: what is refused and how, and that files are written whole or not at all.

namespace fs = std::filesystem;
using files::Json;

class JsonFile : public testing::Test {
 protected:
  const files::TemporaryFolder temporary_{"json-test"};
  const fs::path folder_ = temporary_.path();

  std::string refusal(const std::string& content) {
    const fs::path file = folder_ / "document.json";
    std::ofstream(file, std::ios::binary) << content;
    const std::string message = refusal_of([&] { return files::read_any_json(file); });
    EXPECT_TRUE(message == "accepted" || message.starts_with(file.string() + ": ")) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
};

TEST_F(JsonFile, RefusesWhatIsNotJson) {
  using namespace std::string_literals;
  const std::pair<std::string, std::string> documents[] = {
      {R"({"kind": "ladder", "rungs": ["bf16"], "plan": {"repeats": 1, "slow": 0.5, "note": null}})", "accepted"},
      {"", "not valid JSON"},
      {R"({"kind": "ladder", "rungs": ["bf1)", "not valid JSON"},
      {R"({"kind": NaN})", "not valid JSON"},
      {"{}\0, and more"s, "not valid JSON: a NUL byte at position 2"},
      {"\0"s, "not valid JSON: a NUL byte at position 0"},
      {R"({"name": "x", "name": "y"})", "appears twice"},
      {std::string(100000, '['), "nested deeper"},
      {"{\"comment\": \"" + std::string(300, '[') + "\"}", "accepted"},
      {R"({"batch": 9223372036854775808})", "below 2^63"},
      {"\xff\xfe{\0"s, "is a text in UTF-16, not a JSON document"}};
  for (const auto& [document, why] : documents) {
    EXPECT_NE(refusal(document).find(why), std::string::npos) << refusal(document);
  }
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
