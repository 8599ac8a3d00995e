#include "ablations/commands/defaults.h"

#include "ablations/techniques/techniques.h"
#include "files/resources.h"
#include "harness/measure/environment.h"

#include <cstdlib>

namespace ablations {

namespace fs = std::filesystem;

std::string chosen_ladder(const std::string& named) {
  if (!named.empty()) return named;
  const harness::Machine& machine = harness::this_machine();
  if (!machine.gpu) return "gpt2-cpu";
  const model::Recipe in_bf16{.device = model::Device::cuda, .autocast = model::Autocast::bf16};
  return recipe_obstacle(in_bf16, machine).empty() ? "gpt2" : "gpt2-fp16";
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
