#include "cli/command.h"

#include "ablations/techniques/techniques.h"
#include "files/files.h"
#include "files/json_file.h"
#include "model/config.h"
#include "model/execution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

namespace ablations {

using files::Json;

namespace {

constexpr int64_t most_steps_of_training = 1000000;

// None for a text that is no size.
std::optional<double> parsed_bytes(const std::string& text) {
  constexpr std::pair<const char*, double> units[] = {{"", 1},
                                                      {"kB", 1e3},
                                                      {"MB", 1e6},
                                                      {"GB", 1e9},
                                                      {"KiB", 1024},
                                                      {"MiB", 1024.0 * 1024},
                                                      {"GiB", 1024.0 * 1024 * 1024}};
  try {
    size_t used = 0;
    const double number = std::stod(text, &used);
    for (const auto& [unit, bytes] : units) {
      if (text.substr(used) == unit) return number * bytes;
    }
  } catch (const std::exception&) {  // not a number, or none that fits
  }
  return std::nullopt;
}

// "6GB": a whole number of the largest unit.
std::string bytes_text(int64_t bytes) {
  for (const auto& [unit, size] : {std::pair{"GB", int64_t{1000000000}}, {"MB", 1000000}, {"kB", 1000}}) {
    if (bytes % size == 0) return fmt::format("{}{}", bytes / size, unit);
  }
  return fmt::format("{} bytes", bytes);
}

// What a message shows of a flag's value.
std::string or_nothing(const std::string& text) { return text.empty() ? "nothing" : text; }

// What is wrong with a text. Empty: nothing.
std::string fault_of_text(const std::string& text) {
  if (text.empty()) return "must not be empty";
  try {
    (void)Json(text).dump();
  } catch (const Json::type_error&) {
    return files::in_quotes(text) + " is not UTF-8";
  }
  return "";
}

// CLI11 splits a list itself, but drops its empty items unseen.
CLI::Option* add_list(Command& command, const std::string& name,
                      const std::function<void(std::vector<std::string>)>& keep, const std::string& help,
                      Repeats repeats = Repeats::refused) {
  return command
      .add_option_function<std::vector<std::string>>(
          name,
          [name, keep, repeats](const std::vector<std::string>& given) {
            const std::string text = fmt::format("{}", fmt::join(given, ","));
            keep(list_of(text, fmt::format("{} {}", name, text), repeats));
          },
          help)
      ->type_name("A,B,...")
      ->check(CLI::Validator(fault_of_text, ""))
      ->allow_extra_args(false);
}

}  // namespace

Command::Command(const Words& given) : CLI::App(given.summary, given.name), words(given) {
  group(words.group);
  set_help_flag("-h,--help", "usage, examples and common flags")->group("Other flags");
  set_help_all_flag("--help-all", "all that there is to say, with every flag")->group("Other flags");
}

Command& CommandLine::add(const Words& words) {
  auto command = std::make_shared<Command>(words);
  app.add_subcommand(command);
  return *command;
}

std::vector<const Command*> CommandLine::commands() const {
  std::vector<const Command*> list;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    list.push_back(dynamic_cast<const Command*>(command));
  }
  return list;
}

CLI::Option* add_number(Command& command, const std::string& names, int64_t& value, const std::string& help,
                        int64_t least, int64_t most) {
  return command
      .add_option_function<std::string>(
          names,
          [&value, names, least, most](const std::string& text) {
            try {
              size_t used = 0;
              value = std::stoll(text, &used);
              if (used == text.size() && value >= least && value <= most) return;
            } catch (const std::exception&) {  // not a number, or none that fits
            }
            const std::string name = names.substr(names.find("--"));
            throw std::invalid_argument(fmt::format("{} must be a whole number between {} and {}, got {}", name, least,
                                                    most, or_nothing(text)));
          },
          help)
      ->type_name("N");
}

CLI::Option* add_real(Command& command, const std::string& name, double& value, const std::string& help,
                      const std::string& rule, std::function<bool(double)> allowed) {
  return command
      .add_option_function<std::string>(
          name,
          [&value, name, rule, allowed = std::move(allowed)](const std::string& text) {
            try {
              size_t used = 0;
              value = std::stod(text, &used);
              if (used == text.size() && std::isfinite(value) && allowed(value)) return;
            } catch (const std::exception&) {  // not a number, or none that fits
            }
            throw std::invalid_argument(fmt::format("{} must be {}, got {}", name, rule, or_nothing(text)));
          },
          help)
      ->type_name("X");
}

CLI::Option* add_real(Command& command, const std::string& name, double& value, const std::string& help, double least,
                      std::optional<double> most) {
  const std::string rule =
      most ? fmt::format("a number between {} and {}", least, *most) : fmt::format("a number from {} on", least);
  return add_real(command, name, value, help, rule,
                  [least, most](double number) { return number >= least && (!most || number <= *most); });
}

CLI::Option* add_bytes(Command& command, const std::string& name, int64_t& value, const std::string& help,
                       int64_t least, int64_t most) {
  return command
      .add_option_function<std::string>(
          name,
          [&value, name, least, most](const std::string& text) {
            const std::optional<double> bytes = parsed_bytes(text);
            if (!bytes || !(*bytes >= static_cast<double>(least) && *bytes <= static_cast<double>(most))) {
              throw std::invalid_argument(fmt::format("{} must be a size between {} and {}, such as 500MB, got {}",
                                                      name, bytes_text(least), bytes_text(most), or_nothing(text)));
            }
            value = static_cast<int64_t>(*bytes);
          },
          help)
      ->type_name("SIZE");
}

CLI::Option* add_percent(Command& command, const std::string& name, double& value, const std::string& help) {
  return command
      .add_option_function<std::string>(
          name,
          [&value, name](const std::string& text) {
            try {
              size_t used = 0;
              const double percent = std::stod(text, &used);
              const bool ended = used == text.size() || (used + 1 == text.size() && text.back() == '%');
              if (ended && percent >= 0 && percent <= 100) {
                value = percent / 100;
                return;
              }
            } catch (const std::exception&) {  // not a number, or none that fits
            }
            throw std::invalid_argument(
                fmt::format("{} must be a percentage between 0 and 100, got {}", name, or_nothing(text)));
          },
          help)
      ->type_name("PERCENT");
}

CLI::Option* add_text(Command& command, const std::string& names, std::string& value, const std::string& help,
                      const std::string& type) {
  return command.add_option(names, value, help)->type_name(type)->check(CLI::Validator(fault_of_text, ""));
}

CLI::Option* add_output(Command& command, const std::string& name, std::string& value, const std::string& help,
                        const std::string& type, const std::string& instead) {
  const auto fault = [instead](const std::string& text) -> std::string {
    if (!files::is_standard_output(text)) return "";
    return fmt::format("standard output (-) cannot be used here; {}", instead.empty() ? "name a place" : instead);
  };
  return add_text(command, name, value, help, type)->check(CLI::Validator(fault, ""));
}

CLI::Option* add_names(Command& command, const std::string& name, std::vector<std::string>& value,
                       const std::string& help, Repeats repeats) {
  return add_list(
      command, name, [&value](std::vector<std::string> items) { value = std::move(items); }, help, repeats);
}

CLI::Option* add_names(Command& command, const std::string& name, std::string& value, const std::string& help) {
  return add_list(
      command, name,
      [&value](const std::vector<std::string>& items) { value = fmt::format("{}", fmt::join(items, ",")); }, help);
}

CLI::Option* add_choice(Command& command, const std::string& names, std::string& value,
                        const std::vector<std::string>& values, const std::string& help, const std::string& type) {
  CLI::Option* const option = add_text(command, names, value, fmt::format("{}{}", fmt::join(values, ", "), help), type);
  command.values[option] = values;
  return option;
}

void add_wait(Command& command, bool& wait) {
  command.add_flag("--wait", wait, "wait while something else measures on the device (default: refuse, exit status 3)");
}

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

void add_deterministic_flag(Command& command, WorkloadFlags& flags) {
  command.add_flag(
      "--deterministic", flags.deterministic,
      "PyTorch's deterministic algorithms: bit-identical losses each time on a GPU, and on a CPU with --threads 1");
}

void add_end_of_text_flag(Command& command, bool& end_of_text) {
  command.add_flag("--end-of-text", end_of_text,
                   "read <|endoftext|> in a text as token 50256, the end of a document (default: as ordinary text)");
}

void add_data_flags(Command& command, WorkloadFlags& flags) {
  constexpr int64_t least = 1000, most = 6000000000;  // of which a token file can still hold all tokens
  add_bytes(command, "--repeat-to", flags.repeat_to,
            "make a text of that size from copies of --data, and keep it in the cache folder (500MB, 2GB; default: "
            "the text as it is)",
            least, most);
  command.add_flag("--cold-cache", flags.cold_cache,
                   "take each run's data out of the page cache before its first step, as far as the kernel does it "
                   "(default: leave it as it is)");
}

void add_length_flags(Command& command, TrainFlags& flags) {
  add_number(command, "--tokens", flags.tokens, "as many steps as it takes for so many tokens", 1, INT64_MAX);
  add_number(command, "--epochs", flags.epochs, "as many steps as it takes to see the text so many times", 1,
             most_steps_of_training);
}

void add_learning_flags(Command& command, TrainFlags& flags) {
  add_real(command, "--lr", flags.lr, "highest learning rate (default 0.0006)", 0);
  add_real(command, "--min-lr", flags.min_lr, "learning rate after the decay (default: a tenth of --lr)", 0);
  add_number(command, "--warmup-steps", flags.warmup_steps,
             "steps in which the learning rate rises (default: a twenty-fifth of --decay-steps, and 10 or more)", 0,
             most_steps_of_training);
  add_number(command, "--decay-steps", flags.decay_steps,
             "steps after which it has fallen to --min-lr, along half a cosine (default: all)", 1,
             most_steps_of_training);
  add_real(command, "--weight-decay", flags.weight_decay, "AdamW's, of matrices and embeddings (default 0.1)", 0);
  add_real(command, "--clip", flags.clip, "norm to which gradients are clipped (default 1; 0: they are not)", 0);
}

void add_validation_flags(Command& command, TrainFlags& flags, const std::string& usual, const std::string& more) {
  auto* share = add_real(command, "--validation-share", flags.validation_share,
                         "the last part of the text, which is not trained on (default 0.1; 0: no validation)", 0, 0.9);
  add_text(command, "--validation-data", flags.validation_data,
           "a text, or a token file, for the validation loss in place of that part", "FILE")
      ->excludes(share);
  add_number(command, "--validation-every", flags.validation_every,
             fmt::format("steps between two validation losses (default: {}){}", usual, more), 1,
             most_steps_of_training);
  add_number(command, "--validation-batches", flags.validation_batches,
             "batches of batch x context tokens for a validation loss (default: 20, or all that are there)", 1,
             most_steps_of_training);
}

void check_resume(const Command& command, const std::vector<std::string>& allowed, const std::string& what) {
  if (command.count("--out") == 0) throw std::invalid_argument("--resume needs --out, the folder of the " + what);
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name(false, false);
    if (option->count() == 0 || option->get_group().empty() || name == "--resume" || name == "--out" ||
        std::ranges::find(allowed, name) != allowed.end())
      continue;
    throw std::invalid_argument(
        fmt::format("{} would change the {} that --resume continues; with --resume only --out{} can be given", name,
                    what, allowed.empty() ? "" : fmt::format(", {}", fmt::join(allowed, ", "))));
  }
}

std::vector<std::string> rung_names() {
  std::vector<std::string> names{"start"};
  for (const Optimization& optimization : optimizations()) names.push_back(optimization.name);
  return names;
}

}  // namespace ablations
