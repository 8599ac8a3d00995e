#include "ablations/commands/defaults.h"

#include "files/resources.h"
#include "harness/measure/environment.h"

#include <cstdlib>

namespace ablations {

namespace fs = std::filesystem;

std::string chosen_ladder(const std::string& named) {
  if (!named.empty()) return named;
  return harness::this_machine().gpu ? "gpt2" : "gpt2-cpu";
}

fs::path default_studies() { return "studies"; }

std::string python() {
  const char* named = std::getenv("LADDER_PYTHON");
  return named != nullptr && *named != 0 ? named : LADDER_PYTHON;
}

fs::path default_vocabulary() { return files::cache_folder() / "data" / "gpt2.tiktoken"; }
fs::path default_text() { return files::cache_folder() / "data" / "shakespeare.txt"; }
fs::path bundled_tokens() { return files::resource_root() / "data" / "shakespeare.bin"; }

}  // namespace ablations
