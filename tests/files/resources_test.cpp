// Where the cache folder is, and whom it may belong to.
#include "files/resources.h"

#include "files/files.h"
#include "model/tokenizer.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace resources_test {

namespace fs = std::filesystem;

// A variable of the environment while a test runs.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) {
    if (value == nullptr) {
      ::unsetenv(name_);
    } else {
      ::setenv(name_, value, 1);
    }
  }

  const char* name_;
  std::optional<std::string> before_;
};

TEST(CacheFolder, IsOfTheVariablesElseOfThePasswordDatabase) {
  const files::TemporaryFolder temporary("resources-test");
  const Variable home("HOME", temporary.path().c_str());
  {
    const Variable xdg("XDG_CACHE_HOME", "/nonexistent/cache");
    EXPECT_EQ(files::cache_folder(), "/nonexistent/cache/gpt2-ladder");
  }
  const Variable xdg("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(files::cache_folder(), temporary.path() / ".cache/gpt2-ladder");
  const passwd* const user = ::getpwuid(::geteuid());
  if (user == nullptr) GTEST_SKIP() << "this user has no entry";
  const fs::path known = fs::path(user->pw_dir) / ".cache/gpt2-ladder";
  for (const char* none : {static_cast<const char*>(nullptr), "", "relative"}) {
    const Variable unset("HOME", none);
    EXPECT_EQ(files::cache_folder(), known);
  }
}

TEST(CacheFolder, OfAUserWithoutAHomeIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  const pid_t child = ::fork();
  if (child == 0) {
    ::unsetenv("HOME");
    ::unsetenv("XDG_CACHE_HOME");
    const bool became = ::setuid(3'999'999'999U) == 0;
    const std::string said = refusal_of(files::cache_folder);
    const bool names_both =
        said.find("set HOME") != std::string::npos && said.find("XDG_CACHE_HOME") != std::string::npos;
    ::_exit(became && names_both ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(CacheFolder, OfAnotherUserIsRefused) {
  const files::TemporaryFolder temporary("resources-test");
  const Variable xdg("XDG_CACHE_HOME", temporary.path().c_str());
  const fs::path folder = temporary.path() / "gpt2-ladder";
  fs::create_directory(folder);
  EXPECT_EQ(files::cache_folder(), folder);
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives a folder away";
  ASSERT_EQ(::chown(folder.c_str(), 65534, 65534), 0);
  EXPECT_NE(refusal_of(files::cache_folder).find("belongs to another user"), std::string::npos);
}

TEST(DefaultVocabulary, IsUsedOnlyAsItWasPublished) {
  const files::TemporaryFolder temporary("resources-test");
  const Variable xdg("XDG_CACHE_HOME", temporary.path().c_str());
  fs::create_directories(files::default_vocabulary().parent_path());
  files::write_file(files::default_vocabulary(), "IQ== 0\n");
  const auto load = [](const fs::path& file) {
    return refusal_of([&] { return model::Tokenizer::load(file).size(); });
  };
  EXPECT_NE(load(files::default_vocabulary()).find("is not GPT-2's vocabulary"), std::string::npos);
  files::write_file(temporary.path() / "own", "IQ== 0\n");
  EXPECT_EQ(load(temporary.path() / "own").find("is not GPT-2's vocabulary"), std::string::npos);
}

}  // namespace resources_test
