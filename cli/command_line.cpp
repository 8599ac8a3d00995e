#include "cli/command.h"
#include "files/files.h"
#include "files/nearest.h"
#include "files/printable.h"
#include "harness/machine/machine.h"
#include "harness/process/process.h"
#include "harness/process/unfit.h"
#include "text/text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace cli {

const std::vector<ListedCommand> listed_commands{
    {"Measure", "doctor", "what this machine can measure, and what to fix"},
    {"Measure", "ablate", "measure a ladder: what each optimization brings"},
    {"Measure", "measure", "compare any training program's commands, step by step"},
    {"Measure", "read", "compare logs that exist, by their own clocks"},
    {"Measure", "run", "one run in this process, with its proofs"},
    {"Measure", "profile", "where the time of a step goes, and why a rung is faster"},
    {"Report", "report", "draw a study, two side by side, or a training"},
    {"Report", "export", "put a study into wandb, trackio, mlflow or tensorboard"},
    {"Report", "history", "how each rung's time changed over stored studies"},
    {"Report", "verify", "compute a study again from its records, and every hash"},
    {"Report", "merge", "join the shards of a study"},
    {"Compare", "compare", "compare two records, studies or folders of records"},
    {"Compare", "gate", "did the program become slower? exit status for CI"},
    {"Compare", "bisect", "which commit made the program slower?"},
    {"Train", "train", "train GPT-2, with checkpoints to resume from"},
    {"Train", "sample", "write text with trained weights"},
    {"Train", "tokenize", "turn a text into a token file"},
    {"Help", "help", "explain a command or an optimization"},
};

const ListedCommand* find_listed(const std::string& name) {
  const auto found = std::ranges::find(listed_commands, name, &ListedCommand::name);
  return found == listed_commands.end() ? nullptr : &*found;
}

Command::Command(const Words& given) : CLI::App("", given.name), words(given) {
  option_defaults()->disable_flag_override();  // no --json=3
  set_help_flag("-h,--help", "usage, examples and common flags")->group("Other flags");
  set_help_all_flag("--help-all", "all that there is to say, with every flag")->group("Other flags");
}

void Command::exclude(const std::string& flag, const std::vector<std::string>& others) {
  for (const std::string& other : others) get_option(flag)->excludes(get_option(other));
}

TypedLine Command::typed(const std::set<std::string>& left_out) const {
  TypedLine line;
  for (const CLI::Option* option : get_options()) {
    if (option->count() == 0 || option->get_group() == results_heading) continue;
    const std::string flag = option->get_positional() ? "" : "--" + option->get_lnames().front();
    if (left_out.contains(flag)) continue;
    if (flag.empty()) {
      line.arguments = option->results();
    } else if (option->get_items_expected_max() == 0) {
      line.flags.push_back(flag);
    } else {
      for (const std::string& value : option->results()) {
        line.flags.push_back(flag);
        line.flags.push_back(value);
      }
    }
  }
  return line;
}

CommandLine::CommandLine(std::function<int()> other_program, Gpt2 of_gpt2)
    : app({.name = "ladder",
           .about =
               "Trains one fixed GPT-2, switches optimizations on one after another, and measures each in fresh "
               "processes. A number counts only if the optimization was seen to be on and the model still learns the "
               "same. Then it draws the ladder.",
           .examples = {{"ladder doctor", "What can this machine measure?"},
                        {"ladder ablate --ladder tiny", "All of it in seconds, on a tiny model."},
                        {"ladder ablate", "The ladder that fits this machine."}}}),
      other(std::move(other_program)),
      gpt2(std::move(of_gpt2)) {
  app.require_subcommand(1);
  app.set_version_flag("-V,--version",
                       fmt::format("ladder {}{}", harness::program_version(),
                                   harness::can_train() ? ", torch " LADDER_TORCH_VERSION : ""),
                       "the program's version, and PyTorch's if it can train");
  app.get_version_ptr()->group(app.get_help_ptr()->get_group());
}

Command& CommandLine::add(const Words& words) {
  auto command = std::make_shared<Command>(words);
  app.add_subcommand(command);
  return *command;
}

const Command* CommandLine::find(const std::string& name) const {
  const auto found = app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  return found.empty() ? nullptr : dynamic_cast<const Command*>(found.front());
}

void add_commands_of_ladder(CommandLine& line) {
  for (auto* const add : {add_measure, add_read, add_report, add_export, add_history, add_verify, add_merge,
                          add_compare, add_gate, add_bisect, add_help}) {
    add(line);
  }
}

const Command& CommandLine::chosen() const { return dynamic_cast<const Command&>(*app.get_subcommands().front()); }

namespace {

// What is wrong with a word that should be a command.
std::string obstacle_of_command(const std::string& word) {
  if (word.starts_with('-')) return "there is no flag " + files::in_quotes(word);
  std::vector<std::string> names;
  for (const ListedCommand& listed : listed_commands) names.emplace_back(listed.name);
  return files::or_nearest("there is no command " + files::in_quotes(word), word, names);
}

// What is wrong with a command's arguments, in one line: CLI11's words, but for an argument that it does not know.
std::string obstacle_of(const CommandLine& line, const std::vector<std::string>& arguments,
                        const CLI::ParseError& error) {
  const std::string& name = line.chosen().words.name;
  std::vector<std::string> extra = line.app.remaining(true);
  std::erase(extra, "--");
  if (!extra.empty()) {
    const bool is_flag = extra.front().starts_with('-');
    const std::string obstacle = fmt::format("{} {}", is_flag ? "there is no flag" : name + " takes no argument",
                                             files::in_quotes(extra.front()));
    const std::string quoted = name == "measure" ? with_quotes(arguments) : "";
    return quoted.empty() ? obstacle : obstacle + "; " + quoted;
  }
  std::string what = error.what();
  for (const auto& [theirs, ours] :
       {std::pair{": must ", " must "}, {" requires ", " needs "}, {" excludes ", " cannot be combined with "}}) {
    what = replaced(what, theirs, ours);
  }
  return what;
}

// Commands of one process ignore a launcher's variables.
void prepare_rank(const std::string& command) {
  const bool may_be_rank = command == "train" || command == "run";
  for (const char* name : {"WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && (!may_be_rank || *value == 0)) ::unsetenv(name);
  }
}

}  // namespace

int run_command_line(CommandLine& line, int argc, char** argv, const std::function<void()>& prepare) {
  if (argc == 1) {  // an empty variable in a script must not pass for a command that ended well
    fmt::print("{}", help_text(line, line.app, standard_output(), /*all=*/false));
    return 2;
  }
  if (find_listed(argv[1]) != nullptr && line.find(argv[1]) == nullptr) return line.other();
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_name() == "CallForVersion") return line.app.exit(error);
    const bool is_named = !line.app.get_subcommands().empty();
    if (error.get_exit_code() == 0) {  // --help or --help-all
      fmt::print("{}", help_text(line, is_named ? line.chosen() : line.app, standard_output(),
                                 error.get_name() == "CallForAllHelp"));
      return 0;
    }
    const std::string obstacle =
        is_named ? obstacle_of(line, {argv + 2, argv + argc}, error) : obstacle_of_command(argv[1]);
    fmt::print(stderr, "ladder: {}\nTry 'ladder{} --help'.\n", files::printable(obstacle),
               is_named ? " " + line.chosen().words.name : "");
    return 2;
  }
  prepare_rank(line.chosen().words.name);
  prepare();
  return line.chosen().run();
}

namespace {

// Opens 0, 1 and 2 where the caller has closed them. Otherwise the next file that is opened would get that number, and
// the program would print into it.
void own_standard_descriptors() {
  int fd = -1;
  do fd = ::open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

// What cannot be printed there is lost, and ends nothing: the disk is full, the terminal or the reader is gone.
void let_standard_error_fail() {
  cookie_io_functions_t lossy{};
  lossy.write = [](void* /*cookie*/, const char* text, size_t size) -> ssize_t {
    struct sigaction before {};
    ::sigaction(SIGPIPE, nullptr, &before);
    if (before.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, size);
    if (before.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_DFL);
    return static_cast<ssize_t>(size);
  };
  stderr = ::fopencookie(nullptr, "w", lossy);
  std::setvbuf(stderr, nullptr, _IONBF, 0);
}

// "PATH: cannot create directories: No such file or directory", where the library puts the path last.
std::string failure_of_path(const std::filesystem::filesystem_error& error) {
  constexpr std::string_view begin = "filesystem error: ";
  std::string what = error.what();
  if (what.starts_with(begin)) what.erase(0, begin.size());
  if (what.starts_with("cannot create director")) what.replace(0, what.find(':'), "this folder cannot be created");
  return error.path1().string() + ": " + what.substr(0, what.find(" ["));
}

}  // namespace

int exit_status(const std::function<int()>& program) {
  const auto fail = [](const char* message, int status) {
    std::fflush(stdout);
    fmt::print(stderr, "ladder: {}\n", files::shortened(files::printable(message), 1000));
    return harness::interrupted() ? 130 : status;
  };
  own_standard_descriptors();
  let_standard_error_fail();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that reaches its size limit gives an error, like a full disk
  std::signal(SIGCHLD, SIG_DFL);  // some programs leave it ignored, which would hide how children end
  try {
    const int status = program();
    // What is still in the buffer may find the disk full.
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "standard output");
    return status;
  } catch (const std::invalid_argument& error) {
    return fail(error.what(), 2);
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(failure_of_path(error).c_str(), 2);
  } catch (const std::system_error& error) {
    return fail(error.what(), 2);
  } catch (const harness::Unfit& error) {
    return fail(error.what(), 3);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", 1);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}

namespace {

// `ladder-gpt2` lies beside this program. Does not return: the process is that program from then on. `argv` ends with a
// null pointer.
int become_trainer(char** argv) {
  namespace fs = std::filesystem;
  const fs::path own = fs::read_symlink("/proc/self/exe"), beside = harness::trainer_of(own);
  // A bundle's launcher finds PyTorch.
  const fs::path launcher = own.parent_path().parent_path() / beside.filename();
  const bool is_bundle = own.parent_path().filename() == "bin" && fs::exists(launcher);
  std::string program = (is_bundle ? launcher : beside).string();
  if (!fs::exists(beside)) {
    throw harness::Unfit(
        fmt::format("{} is missing, which measures and trains GPT-2; in the sources `make` builds it, and `make "
                    "bundle` packs it for other machines; your own programs need only `ladder measure` and `gate`",
                    beside.string()));
  }
  argv[0] = program.data();
  ::execv(program.c_str(), argv);
  throw std::system_error(errno, std::generic_category(), program);
}

}  // namespace

int ladder(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  const int status = exit_status([&] {
    CommandLine line([&] { return become_trainer(argv); });
    add_commands_of_ladder(line);
    return run_command_line(line, argc, argv);
  });
  // Of git bisect run 125 skips a commit, 128 or more end the bisection, and all others but 0 mean a bad commit.
  const auto flags_end = std::ranges::find(words, "--");
  const bool bisects =
      words.size() > 1 && words[1] == "gate" && std::find(words.begin(), flags_end, "--bisect") != flags_end;
  if (!bisects) return status;
  return status == 2 ? 129 : status == 3 ? 125 : status;
}

}  // namespace cli
