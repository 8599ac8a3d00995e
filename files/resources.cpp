#include "files/resources.h"

#include "files/sha256.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace files {

namespace fs = std::filesystem;

namespace {

constexpr const char* share = "share/gpt2-ladder";

// PREFIX of the program PREFIX/bin/NAME.
fs::path own_prefix() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();
}

bool holds_resources(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "results" / "schemas", ignored);
}

}  // namespace

fs::path installed_prefix() { return holds_resources(own_prefix() / share) ? own_prefix() : fs::path(); }

fs::path resource_root() {
  static const fs::path root = [] {
    const char* const home = std::getenv("LADDER_HOME");
    const fs::path source = LADDER_SOURCE_DIR, installed = own_prefix() / share;
    for (const fs::path& candidate : {fs::path(home == nullptr ? "" : home), installed, source}) {
      if (!candidate.empty() && holds_resources(candidate)) return candidate;
    }
    throw std::invalid_argument(
        fmt::format("the folder with ladders/ and results/schemas/ was not found (looked in {} and {}); "
                    "set LADDER_HOME to it",
                    installed.string(), source.string()));
  }();
  return root;
}

namespace {

// Of the user: $HOME, else what the password database says.
fs::path home_folder() {
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') {
    const passwd* const user = ::getpwuid(::geteuid());
    home = user == nullptr ? nullptr : user->pw_dir;
  }
  if (home != nullptr && *home == '/') return home;
  throw std::invalid_argument(
      "the cache folder is not known: HOME is not set, and this user has no home folder; set HOME or XDG_CACHE_HOME");
}

}  // namespace

fs::path cache_folder() {
  const char* const xdg = std::getenv("XDG_CACHE_HOME");
  const fs::path folder = (xdg != nullptr && *xdg == '/' ? fs::path(xdg) : home_folder() / ".cache") / "gpt2-ladder";
  struct stat status {};
  if (::stat(folder.c_str(), &status) == 0 && status.st_uid != 0 && status.st_uid != ::geteuid()) {
    throw std::invalid_argument(fmt::format(
        "{}: belongs to another user, who can change what is read from it; set XDG_CACHE_HOME to a folder of yours",
        folder.string()));
  }
  return folder;
}

fs::path default_vocabulary() { return cache_folder() / "data" / "gpt2.tiktoken"; }

void check_vocabulary(const fs::path& file) {
  constexpr const char* published = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930";
  if (file != default_vocabulary() || sha256_of_file(file) == published) return;
  throw std::invalid_argument(
      fmt::format("{}: is not GPT-2's vocabulary (its SHA-256 is another); delete it, and `make data` fetches it again",
                  file.string()));
}

}  // namespace files
