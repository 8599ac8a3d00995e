#include "ablations/command_line/command_line.h"

#include "ablations/command_line/command.h"
#include "ablations/command_line/help.h"
#include "ablations/plan/ladder.h"
#include "files/files.h"
#include "files/nearest.h"
#include "files/printable.h"
#include "harness/measure/environment.h"
#include "model/ranks.h"

#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string_view>

namespace ablations {
namespace {

std::string or_similar(const std::string& what, const std::string& name, const std::vector<std::string>& names) {
  const std::vector<std::string> similar = files::nearest(name, names);
  return similar.empty() ? what : fmt::format("{}; did you mean {}?", what, similar.front());
}

std::vector<std::string> names_of(const auto& map) {
  std::vector<std::string> names;
  for (const auto& [name, ignored] : map) names.push_back(name);
  return names;
}

// What somebody meant by a word that no argument takes: a ladder's name without its flag, or a rung's. Empty: not
// known.
std::string meant_by(const std::string& word, const Command& command) {
  std::map<std::string, const char*> flags;
  if (command.get_option_no_throw("--rung") != nullptr && command.get_option_no_throw("--sweep") == nullptr) {
    for (const std::string& name : rung_names()) flags[name] = "--rung";
  }
  if (command.get_option_no_throw("--ladder") != nullptr) {
    for (const std::string& name : ladder_names()) flags[name] = "--ladder";
  }
  const std::vector<std::string> similar = files::nearest(word, names_of(flags));
  return similar.empty() ? "" : fmt::format("{} {}", flags.at(similar.front()), similar.front());
}

// The same of a word in a command's place.
std::string fault_of_command(const CommandLine& line, const std::string& word) {
  const std::string what = "there is no command " + files::in_quotes(word);
  std::map<std::string, std::string> meant{{"version", "--version"}};
  for (const std::string& name : ladder_names()) meant[name] = "ablate --ladder " + name;
  for (const Command* known : line.commands()) meant[known->words.name] = known->words.name;
  const std::vector<std::string> similar = files::nearest(word, names_of(meant));
  return similar.empty() ? what : fmt::format("{}; did you mean {}?", what, meant.at(similar.front()));
}

// What is wrong with the arguments, in one line.
std::string fault_of(const CommandLine& line, const Command* command, const std::vector<std::string>& arguments,
                     const CLI::ParseError& error) {
  if (command == nullptr) {
    if (arguments.empty()) return error.what();
    if (arguments.front().starts_with('-')) return "there is no flag " + files::in_quotes(arguments.front());
    return fault_of_command(line, arguments.front());
  }
  std::vector<std::string> flags;
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    if (option->get_positional() && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) &&
        std::string_view(error.what()).starts_with(option->get_name(true) + " ")) {
      return fmt::format("{} is missing", name_of(*option));
    }
  }
  for (const std::string& argument : arguments) {
    const std::string flag = argument.substr(0, argument.find('='));
    if (!flag.starts_with("--")) continue;
    const bool known = std::ranges::find(flags, flag) != flags.end();
    if (!known && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
      return or_similar("there is no flag " + files::in_quotes(flag), flag, flags);
    }
    if (known && flag != argument && command->get_option(flag)->get_items_expected_max() == 0) {
      return fmt::format("{} takes no value", flag);
    }
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    const std::vector<std::string> extra = line.app.remaining(true);
    if (!extra.empty() && extra.front().starts_with('-')) {
      return "there is no flag " + files::in_quotes(extra.front());
    }
    if (!extra.empty()) {
      const std::string meant = meant_by(extra.front(), *command);
      return fmt::format("{} takes no argument {}{}", command->words.name, files::in_quotes(extra.front()),
                         meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
    }
  }
  return error.what();
}

}  // namespace

CommandLine::CommandLine()
    : app({.group = "",
           .name = "ladder",
           .summary = "which optimization of GPT-2's training bought what on this machine",
           .about =
               "Trains one fixed GPT-2, switches optimizations on one after another, and measures each in fresh "
               "processes. A number counts only if the optimization was seen to be on and the model still learns the "
               "same. Then it draws the ladder.",
           .examples = {{"ladder doctor", "What this machine can measure, and what to fix first."},
                        {"ladder ablate --ladder tiny", "All of it in seconds, on a two-layer model."},
                        {"ladder ablate", "The ladder that fits this machine: a table, a report, charts."}}}) {
  app.require_subcommand(1);
  app.set_version_flag("-v,--version", fmt::format("ladder {}, torch {}", harness::program_version(), TORCH_VERSION),
                       "the program's and PyTorch's version");
  app.get_version_ptr()->group(app.get_help_ptr()->get_group());
  add_measuring_commands(*this);
  add_reporting_commands(*this);
  add_comparing_commands(*this);
  add_training_commands(*this);
  add_help_commands(*this);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    for (CLI::Option* option : command->get_options()) {
      if (option->get_items_expected_max() == 0) option->disable_flag_override();  // no --json=3
    }
  }
}

namespace {

// Before anything looks for GPUs. To commands that work in one process, a launcher's variables are somebody else's.
void prepare_rank(const std::string& command) {
  const bool may_be_rank = command == "train" || command == "run";
  for (const char* name : {"WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && (!may_be_rank || *value == 0)) ::unsetenv(name);
  }
  model::choose_gpu(model::ranks_of_environment());
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CommandLine line;
  if (argc == 1) {  // an empty variable in a script must not pass for a command that ended well
    fmt::print("{}", short_help(line, standard_output()));
    return 2;
  }
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto named = line.app.get_subcommands();
    const auto* command = named.empty() ? &line.app : dynamic_cast<const Command*>(named.front());
    fmt::print("{}", help_text(line, *command, standard_output()));
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return line.app.exit(error);  // --version
    const auto named = line.app.get_subcommands();
    const auto* command = named.empty() ? nullptr : dynamic_cast<const Command*>(named.front());
    fmt::print(stderr, "ladder: {}\n`ladder{} --help` says what there is.\n",
               files::printable(fault_of(line, command, {argv + 1, argv + argc}, error)),
               command == nullptr ? "" : " " + command->words.name);
    return 2;
  }
  prepare_rank(line.app.get_subcommands().front()->get_name());
  return line.chosen();
}

}  // namespace ablations
