
#include "ablations/plan/ladder_file.h"
#include "cli/command.h"
#include "model/config.h"
#include "model/execution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

namespace cli {

void add_size_flags(Command& command, WorkloadFlags& flags, const std::string& default_model,
                    const std::string& default_size) {
  constexpr int64_t most_sequences = 1 << 16;
  command.heading(fmt::format("Size of the work (default: {})", default_size));
  add_choice(command, "--model", flags.model, model::preset_names(), fmt::format(" (default: {})", default_model),
             "NAME");
  add_number(command, "-B,--batch", flags.B, "sequences per micro-step", 1, most_sequences);
  add_number(command, "-T,--context", flags.T, "tokens per sequence (of gpt2-*: at most 1024)", 1, 1 << 20);
  add_number(command, "--positions", flags.positions, "positions of the model, if it needs more (extra rows of wpe)", 1,
             most_sequences);
  add_number(command, "--accumulation", flags.accumulation, "micro-steps per step", 1, most_sequences);
}

void add_workload_flags(Command& command, WorkloadFlags& flags, const std::string& default_model,
                        const std::string& default_size) {
  constexpr int64_t most_steps = 100000;
  add_size_flags(command, flags, default_model, default_size);
  add_number(command, "--steps", flags.steps, "timed steps of a run", 1, most_steps);
  add_number(command, "--warmup", flags.warmup,
             fmt::format("untimed steps before them; execution graph needs at least {}", model::runs_before_replay), 0,
             most_steps);
  add_number(command, "--seed", flags.seed,
             "seed of the initial weights and of the place in the text where training starts (default 1)", 0,
             INT64_MAX);
  add_number(command, "--threads", flags.threads, "CPU threads (default: one for each core it may use)", 1, 4096);
  add_text(command, "--data", flags.data,
           "a UTF-8 text, or a token file (.bin, llm.c's format) (default: Shakespeare's plays)", "FILE");
  add_text(command, "--vocab", flags.vocabulary,
           "vocab.bpe or gpt2.tiktoken, to tokenize texts (default: the one that `make data` fetched)", "FILE");
}

void add_data_flags(Command& command, WorkloadFlags& flags) {
  constexpr int64_t least = 1000, most = 6000000000;  // a token file can still hold all tokens
  add_bytes(
      command, "--repeat-to", flags.repeat_to,
      "make a text of that size from copies of --data, and keep it in the cache folder, which XDG_CACHE_HOME names "
      "(500MB, 2GB; default: "
      "the text as it is)",
      least, most);
  command.add_flag("--cold-cache", flags.cold_cache,
                   "take each run's data out of the page cache before its first step, as far as the kernel does it "
                   "(default: leave it as it is)");
}

void add_deterministic_flag(Command& command, WorkloadFlags& flags) {
  command.add_flag(
      "--deterministic", flags.deterministic,
      "PyTorch's deterministic algorithms: bit-identical losses each time on a GPU, and on a CPU with --threads 1");
}

void add_end_of_text_flag(Command& command, bool& end_of_text) {
  command.add_flag("--end-of-text", end_of_text,
                   "read <|endoftext|> in a text as token 50256, the end of a document (default: as ordinary text)");
}

void add_wait_flag(Command& command, bool& wait) {
  command.add_flag("--wait", wait, "wait while something else measures on the device (default: refuse, exit status 3)");
}

CLI::Option* add_ladder_flag(Command& command, std::string& ladder, const std::string& help) {
  CLI::Option* const option = add_text(command, "--ladder", ladder, help, "NAME|FILE");
  command.values[option] = ladder_names();
  return option;
}

CLI::Option* add_rung_flag(Command& command, std::string& rung) {
  CLI::Option* const option =
      add_text(command, "--rung", rung, "a rung of --ladder: the name of its optimization, or \"start\"", "NAME");
  command.values[option] = rung_names();
  return option;
}

CLI::Option* add_rungs_flag(Command& command, const std::string& name, std::vector<std::string>& rungs,
                            const std::string& help, Repeats repeats) {
  CLI::Option* const option = add_names(command, name, rungs, help, repeats);
  command.values[option] = rung_names();
  return option;
}

CLI::Option* add_min_effect_flag(Command& command, double& min_effect, const std::string& difference) {
  return command
      .add_option("--min-effect", min_effect, fmt::format("the least {} that matters (default 2)", difference))
      ->transform(percentage())
      ->type_name("PERCENT");
}

void add_length_flags(Command& command, TrainingFlags& flags) {
  add_number(command, "--tokens", flags.tokens, "as many steps as it takes for so many tokens", 1, INT64_MAX);
  add_number(command, "--epochs", flags.epochs, "as many steps as it takes to see the text so many times", 1,
             most_training_steps);
}

void add_learning_flags(Command& command, TrainingFlags& flags) {
  const std::string from_zero = "a number from 0 on";
  add_real(command, "--lr", flags.lr, "highest learning rate (default 0.0006)", from_zero, 0);
  add_real(command, "--min-lr", flags.min_lr, "learning rate after the decay (default: a tenth of --lr)", from_zero, 0);
  add_number(command, "--warmup-steps", flags.warmup_steps,
             "steps in which the learning rate rises (default: a twenty-fifth of --decay-steps, and 10 or more)", 0,
             most_training_steps);
  add_number(command, "--decay-steps", flags.decay_steps,
             "steps after which it has fallen to --min-lr, along half a cosine (default: all)", 1, most_training_steps);
  add_real(command, "--weight-decay", flags.weight_decay, "AdamW's, of matrices and embeddings (default 0.1)",
           from_zero, 0);
  add_real(command, "--clip", flags.clip, "norm to which gradients are clipped (default 1; 0: they are not)", from_zero,
           0);
}

void add_validation_flags(Command& command, TrainingFlags& flags, const std::string& usual, const std::string& more) {
  add_real(command, "--validation-share", flags.validation_share,
           "the last part of the text, which is not trained on (default 0.1; 0: no validation)",
           "a number between 0 and 0.9", 0, 0.9);
  add_text(command, "--validation-data", flags.validation_data,
           "a text, or a token file, for the validation loss in place of that part", "FILE");
  command.exclude("--validation-data", {"--validation-share"});
  add_number(command, "--validation-every", flags.validation_every,
             fmt::format("steps between two validation losses (default: {}){}", usual, more), 1, most_training_steps);
  add_number(command, "--validation-batches", flags.validation_batches,
             "batches of batch x context tokens for a validation loss (default: 20, or all that are there)", 1,
             most_training_steps);
}

void check_resume(const Command& command, const std::vector<std::string>& allowed, const std::string& what) {
  if (command.count("--resume") == 0) return;
  if (command.count("--out") == 0) throw std::invalid_argument("--resume needs --out, the folder of the " + what);
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name(false, false);
    if (option->count() == 0 || option->get_group().empty() || name == "--resume" || name == "--out" ||
        std::ranges::find(allowed, name) != allowed.end())
      continue;
    throw std::invalid_argument(
        fmt::format("{} would change the {} that --resume continues; with --resume only --out, {} can be given", name,
                    what, fmt::join(allowed, ", ")));
  }
}

}  // namespace cli
