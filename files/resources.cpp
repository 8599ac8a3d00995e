#include "files/resources.h"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace files {

namespace fs = std::filesystem;

fs::path resource_root() {
  static const fs::path root = [] {
    std::vector<fs::path> candidates;
    if (const char* home = std::getenv("LADDER_HOME"); home != nullptr && *home != 0) candidates.emplace_back(home);
    std::error_code ignored;
    const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    candidates.push_back(folder);
    candidates.push_back(folder.parent_path());  // a bundle's bin/
    candidates.emplace_back(LADDER_SOURCE_DIR);
    for (const fs::path& candidate : candidates) {
      if (fs::exists(candidate / "results" / "schemas", ignored)) return candidate;
    }
    throw std::invalid_argument(
        fmt::format("the folder with ladders/ and results/schemas/ was not found (looked in {} and {}); "
                    "set LADDER_HOME to it",
                    candidates.front().string(), candidates.back().string()));
  }();
  return root;
}

fs::path cache_folder() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg == '/')
    return fs::path(xdg) / "gpt2-ladder";
  const char* home = std::getenv("HOME");
  return fs::path(home != nullptr ? home : "/tmp") / ".cache" / "gpt2-ladder";
}

}  // namespace files
