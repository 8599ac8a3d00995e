#include "cli/defaults.h"

#include "files/resources.h"
#include "harness/machine/machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace cli {

namespace fs = std::filesystem;

fs::path default_studies() { return "studies"; }

namespace {

// The program's path as a shell finds it; `name` if PATH has none.
std::string on_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr || name.find('/') != std::string::npos ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path program = fs::path(folder.empty() ? "." : folder) / name;
    if (fs::is_regular_file(program) && ::access(program.c_str(), X_OK) == 0) return program.string();
  }
  return name;
}

}  // namespace

std::vector<std::string> python() {
  const char* named = std::getenv("LADDER_PYTHON");
  if (named != nullptr && *named != 0) return {on_path(named)};
  if (const fs::path prefix = files::installed_prefix(); !prefix.empty()) {
    const fs::path own = prefix / "bin" / "python3";
    return {fs::exists(own) ? own.string() : on_path("python3")};
  }
  return {LADDER_PYTHON, "-E", "-s"};
}

int64_t threads_for(int64_t given) {
  const int64_t cores = harness::this_cpu().logical_cores;
  if (given > cores) {
    throw std::invalid_argument(
        fmt::format("--threads must be between 1 and {}, the cores that this process may use, got {}", cores, given));
  }
  return given > 0 ? given : cores;
}

fs::path default_text() { return files::cache_folder() / "data" / "shakespeare.txt"; }
fs::path bundled_tokens() { return files::resource_root() / "data" / "shakespeare.bin"; }

}  // namespace cli
