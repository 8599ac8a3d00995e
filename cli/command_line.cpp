#include "ablations/plan/ladder_file.h"
#include "cli/command.h"
#include "cli/help.h"
#include "files/files.h"
#include "files/nearest.h"
#include "files/printable.h"
#include "harness/machine/machine.h"
#include "model/config.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace cli {
namespace {

std::vector<std::string> flags_of(const Command& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : names_of(*option)) flags.push_back(name);
  }
  return flags;
}

std::vector<std::string> keys_of(const auto& map) {
  std::vector<std::string> keys;
  for (const auto& [key, ignored] : map) keys.push_back(key);
  return keys;
}

// A flag, and what other training programs call it. The first that the command has is meant.
constexpr std::pair<const char*, std::string_view> names_elsewhere[] = {
    {"--lr", " learning-rate max-lr base-lr "},
    {"--steps", " max-iters max-steps num-steps iterations num-iterations "},
    {"--epochs", " num-train-epochs num-epochs "},
    {"--warmup-steps", " warmup-iters lr-warmup-iters "},
    {"--decay-steps", " lr-decay-iters "},
    {"--clip", " grad-clip max-grad-norm clip-grad "},
    {"--context", " block-size seq-len seq-length sequence-length max-seq-length "},
    {"--batch", " per-device-train-batch-size micro-batch-size device-batch-size "},
    {"--batch-tokens", " total-batch-size "},
    {"--accumulation", " gradient-accumulation-steps grad-accum-steps "},
    {"--validation-every", " eval-interval eval-steps val-loss-every "},
    {"--validation-batches", " eval-iters val-max-steps "},
    {"--weights", " init-from checkpoint "},
    {"--tokens", " max-new-tokens "},
    {"--out", " output-dir out-dir "},
    {"--data", " dataset input-bin train-data "},
    {"--limit-s", " timeout "},
    {recipe_in_quotes, " dtype bf16 amp precision "},
};

std::string name_here(const std::string& flag, const Command& command) {
  std::string typed = flag.substr(flag.find_first_not_of('-'));
  std::ranges::replace(typed, '_', '-');
  for (const auto& [ours, names] : names_elsewhere) {
    const std::string own = ours;
    const bool has = command.get_option_no_throw(own.substr(0, own.find(' '))) != nullptr;
    if (has && names.find(" " + typed + " ") != std::string_view::npos) return own;
  }
  return "";
}

// The flag that a word without one needs, and the word: a ladder, a rung, a file, a text. Empty if unknown.
std::string meant_by(const std::string& word, const Command& command) {
  const auto has = [&](const char* flag) { return command.get_option_no_throw(flag) != nullptr; };
  std::map<std::string, const char*> flags;
  if (has("--model")) {
    for (const std::string& name : model::preset_names()) flags[name] = "--model";
  }
  if (has("--rung") && !has("--sweep")) {
    for (const std::string& name : rung_names()) flags[name] = "--rung";
  }
  if (has("--ladder")) {
    for (const std::string& name : ladder_names()) flags[name] = "--ladder";
  }
  const std::vector<std::string> similar = files::nearest(word, keys_of(flags));
  if (!similar.empty()) return fmt::format("{} {}", flags.at(similar.front()), similar.front());
  const std::string& flag = command.words.stray;
  if (flag.empty()) return "";
  const bool takes_file = command.get_option(flag)->get_type_name().find("FILE") != std::string::npos;
  std::error_code unknown;
  if (takes_file && word.find_first_of("./") == std::string::npos && !std::filesystem::exists(word, unknown)) return "";
  const bool is_plain = word.find_first_of(" '\"") == std::string::npos;
  return fmt::format("{} {}", flag, is_plain ? word : files::in_quotes(word));
}

// What is wrong with a word that should be a command.
std::string fault_of_command(const CommandLine& line, const std::string& word) {
  if (word.starts_with('-')) {
    return files::or_nearest("there is no flag " + files::in_quotes(word), word, flags_of(line.app));
  }
  const std::string what = "there is no command " + files::in_quotes(word);
  std::map<std::string, std::string> meant{{"version", "--version"}, {"list", "doctor"}};
  for (const std::string& name : ladder_names()) meant[name] = "ablate --ladder " + name;
  for (const Command* known : line.commands()) meant[known->words.name] = known->words.name;
  const std::vector<std::string> similar = files::nearest(word, keys_of(meant));
  return similar.empty() ? what : fmt::format("{}; did you mean {}?", what, meant.at(similar.front()));
}

// What is wrong with a word that the command does not know.
std::string fault_of_extra(const Command& command, const std::string& word) {
  if (word.find_first_not_of('-') != std::string::npos && word.starts_with('-')) {
    const std::string flag = word.substr(0, word.find('=')), what = "there is no flag " + files::in_quotes(flag);
    const std::string ours = name_here(flag, command);
    return ours.empty() ? files::or_nearest(what, flag, flags_of(command))
                        : fmt::format("{}; did you mean {}?", what, ours);
  }
  if (word.ends_with('}') && command.get_option_no_throw("--recipe") != nullptr) {
    return fmt::format("{} is not part of --recipe: the shell splits JSON that is not in quotes, as in {}",
                       files::in_quotes(word), recipe_in_quotes);
  }
  const std::string meant = meant_by(word, command);
  return fmt::format("{} takes no argument {}{}", command.words.name, files::in_quotes(word),
                     meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

// What is wrong with the arguments, in one line.
std::string fault_of(const CommandLine& line, const Command* command, const std::vector<std::string>& arguments,
                     const CLI::ParseError& error) {
  if (command == nullptr) return fault_of_command(line, arguments.front());
  std::vector<std::string> extra = line.app.remaining(true);
  std::erase(extra, "--");
  if (!extra.empty()) {
    const std::string fault = fault_of_extra(*command, extra.front());
    if (command->words.name != "measure") return fault;
    const std::string quoted = with_quotes({arguments.begin() + 1, arguments.end()});
    return quoted.empty() ? fault : fmt::format("there is no flag {}; {}", files::in_quotes(extra.front()), quoted);
  }
  const std::string what = error.what(), kind = error.get_name();
  for (const CLI::Option* option : command->get_options()) {
    if (kind == "RequiredError" && option->get_required() && option->count() == 0) {
      const auto& names = option->get_lnames();  // the first: others are the same flag
      return names.empty()
                 ? fmt::format("{} needs {}: {}", command->words.name, option_name(*option), usage(*command))
                 : fmt::format("{} needs --{} {}", command->words.name, names.front(), option->get_type_name());
    }
    const std::string flag = option->get_name();
    const int most = option->get_items_expected_max();
    if (kind == "ArgumentMismatch" && what.starts_with(flag + ":")) {
      const bool too_many = what.find("received") != std::string::npos;
      return !too_many   ? fmt::format("{} needs a value: {}", flag, option->get_type_name())
             : most == 1 ? flag + " can be given only once"
                         : fmt::format("{} takes at most {} values", flag, most);
    }
    const bool has_value =
        std::ranges::any_of(arguments, [&](const std::string& argument) { return argument.starts_with(flag + "="); });
    if (most == 0 && has_value) return flag + " takes no value";
  }
  if (kind == "ValidationError") return replaced(what, ": must ", " must ");
  if (kind == "RequiresError") return replaced(what, " requires ", " needs ");
  if (kind == "ExcludesError") return replaced(what, " excludes ", " cannot be combined with ");
  return what;
}

}  // namespace

std::string with_quotes(const std::vector<std::string>& words) {
  if (words.size() < 2 || words[0].starts_with('-') || words[0].find(' ') != std::string::npos) return "";
  const auto is_no_command = [](const std::string& word) {
    std::error_code unknown;
    return word.starts_with('-') || (std::filesystem::is_regular_file(word, unknown) &&
                                     (word.find('/') == std::string::npos || ::access(word.c_str(), X_OK) != 0));
  };
  if (std::none_of(words.begin() + 1, words.end(), is_no_command)) return "";
  return fmt::format("did you mean ladder measure '{}'?", fmt::join(words, " "));
}

CommandLine::CommandLine()
    : app({.group = "",
           .name = "ladder",
           .summary = "what each optimization of a training step brings on this machine",
           .about =
               "Trains one fixed GPT-2, switches optimizations on one after another, and measures each in fresh "
               "processes. A number counts only if the optimization was seen to be on and the model still learns the "
               "same. Then it draws the ladder.",
           .examples = {{"ladder doctor", "What can this machine measure?"},
                        {"ladder ablate --ladder tiny", "All of it in seconds, on a tiny model."},
                        {"ladder ablate", "The ladder that fits this machine."}}}) {
  app.require_subcommand(1);
  app.set_version_flag("-V,--version",
                       fmt::format("ladder {}{}", harness::program_version(),
                                   harness::can_train() ? ", torch " LADDER_TORCH_VERSION : ""),
                       "the program's version, and PyTorch's if it can train");
  app.get_version_ptr()->group(app.get_help_ptr()->get_group());
  for (auto* const add :
       {add_doctor, add_ablate, add_measure, add_run, add_profile, add_report, add_history, add_verify, add_merge,
        add_compare, add_gate, add_train, add_sample, add_tokenize, add_help, add_completion}) {
    add(*this);
  }
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    for (CLI::Option* option : command->get_options()) {
      if (option->get_items_expected_max() == 0) option->disable_flag_override();  // no --json=3
    }
  }
}

namespace {

// Commands of one process ignore a launcher's variables.
void prepare_rank(const std::string& command) {
  const bool may_be_rank = command == "train" || command == "run";
  for (const char* name : {"WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && (!may_be_rank || *value == 0)) ::unsetenv(name);
  }
}

}  // namespace

int run_command_line(int argc, char** argv, const std::function<void()>& prepare) {
  CommandLine line;
  if (argc == 1) {  // an empty variable in a script must not pass for a command that ended well
    fmt::print("{}", help_text(line, line.app, standard_output(), /*all=*/false));
    return 2;
  }
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_name() == "CallForVersion") return line.app.exit(error);
    const bool is_named = !line.app.get_subcommands().empty();
    const Command* const command = is_named ? &line.chosen() : nullptr;
    if (error.get_exit_code() == 0) {  // --help or --help-all
      fmt::print("{}", help_text(line, command == nullptr ? line.app : *command, standard_output(),
                                 error.get_name() == "CallForAllHelp"));
      return 0;
    }
    fmt::print(stderr, "ladder: {}\nTry 'ladder{} --help'.\n",
               files::printable(fault_of(line, command, {argv + 1, argv + argc}, error)),
               command == nullptr ? "" : " " + command->words.name);
    return 2;
  }
  const Command& command = line.chosen();
  prepare_rank(command.words.name);
  prepare();
  return command.run();
}

}  // namespace cli
