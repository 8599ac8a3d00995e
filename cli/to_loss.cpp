// `ladder ablate --to-loss`: its flags. What it does is in cli/gpt2/to_loss.cpp.
#include "cli/command.h"
#include "cli/commands.h"

#include <string>

namespace cli {

void add_to_loss_flags(Command& command, ToLossFlags& flags) {
  command.heading("Time to a loss");
  CLI::Option* const to_loss = add_real(
      command, "--to-loss", flags.loss,
      "train each rung for --steps, --tokens or --epochs: seconds to this validation loss, and quality at the end",
      "a number above 0", above_zero);
  add_number(command, "--seeds", flags.seeds, "trainings of each rung, with seeds from --seed on (default 3)", 1, 100);
  add_real(command, "--margin", flags.margin,
           "nats by which a rung's loss at the end may be higher and still count as the same quality (default 0.02)",
           "a number above 0", above_zero);
  add_length_flags(command, flags.training);
  add_learning_flags(command, flags.training);
  add_validation_flags(command, flags.training, "a twentieth of all");
  for (const char* flag : {"--seeds", "--margin"}) command.get_option(flag)->needs(to_loss);
  for (const std::string& flag : training_flags) command.get_option(flag)->needs(to_loss);
}

}  // namespace cli
