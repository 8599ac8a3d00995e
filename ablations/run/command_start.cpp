#include "ablations/run/command_start.h"

#include "files/printable.h"
#include "files/resources.h"
#include "files/sha256.h"
#include "text/text.h"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>

namespace ablations {

namespace fs = std::filesystem;

void add_variables(std::vector<std::string>& variables, const fs::path& own) {
  variables.insert(variables.end(), {"PYTHONUNBUFFERED=1", "WANDB_MODE=offline", "WANDB_DIR=" + own.string(),
                                     "MLFLOW_TRACKING_URI=file://" + own.string()});
}

std::string python_path_with_look() {
  const char* const path = std::getenv("PYTHONPATH");
  return fmt::format("PYTHONPATH={}{}", (files::resource_root() / "client" / "look").string(),
                     path != nullptr && *path != '\0' ? ":" + std::string(path) : "");
}

int64_t seed_of(const Plan& plan, int64_t repeat) {
  const int64_t of_one_seed = plan.commands->guards_losses ? 3 : 1;
  const int64_t of = repeat > of_one_seed || repeat == 0 ? repeat : 1;
  const std::string drawn = files::sha256_hex(fmt::format("{} {}", plan.order_seed, of));
  return static_cast<int64_t>(std::stoul(drawn.substr(0, 8), nullptr, 16) % 1000000000);
}

std::string text_for(const Plan& plan, const TypedCommand& command, const fs::path& own, int64_t repeat,
                     bool is_trial) {
  if (command.text.find("{run}") != std::string::npos &&
      own.string().find_first_of(" \t\n'\"\\$`&|;<>()*?[]{}#!~^") != std::string::npos) {
    throw std::invalid_argument(fmt::format(
        "{{run}} would become {}, which sh does not take as it is: choose an --out without blanks and marks",
        files::in_quotes(own.string())));
  }
  const std::string seed = std::to_string(is_trial ? seed_of(plan, 0) : seed_of(plan, repeat));
  const std::string seeded = replaced(command.text, "{seed}", seed);
  return replaced(replaced(seeded, "{repeat}", std::to_string(repeat)), "{run}", own.string());
}

}  // namespace ablations
