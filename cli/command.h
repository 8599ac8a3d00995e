// A command for its users: its purpose, its flags with their defaults, examples. Help, docs/cli.md and completion are
// made of this alone. A test parses every example.
#pragma once

#include "cli/flags.h"
#include "text/text.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cli {

struct Example {
  std::string line;   // "ladder ablate --ladder tiny"
  std::string shows;  // one sentence
};

struct Words {
  std::string group;    // of commands: "Measure"
  std::string name;     // "ablate"
  std::string summary;  // one line
  std::string about;    // what it does and what it leaves behind; paragraphs end with "\n"
  std::vector<Example> examples;
  std::vector<std::string> common = {};  // the flags that --help shows, where all do not fit into 40 lines
  std::string stray = {};                // the flag that a word without a flag is probably meant for: "--prompt"
};

struct Command : CLI::App {
  explicit Command(const Words& given);
  // The help shows the flags that follow under this heading.
  void heading(const std::string& text) { option_defaults()->group(text); }
  // The flags of `carry_out`, which returns the exit status. They live as long as the command.
  template <class Flags>
  Flags& runs(int (*carry_out)(const Flags&)) {
    auto flags = std::make_shared<Flags>();
    run = [flags, carry_out] { return carry_out(*flags); };
    return *flags;
  }
  // `flag` cannot be combined with any of the others.
  void exclude(const std::string& flag, const std::vector<std::string>& others);

  Words words;
  std::function<int()> run;
  std::map<const CLI::Option*, std::vector<std::string>> values;  // that completion offers
};

// The program's command line. Parsing carries nothing out.
struct CommandLine {
  CommandLine();
  CommandLine(const CommandLine&) = delete;  // commands point into it
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine() = default;

  Command& add(const Words& words);
  [[nodiscard]] std::vector<const Command*> commands() const;  // in the order of the help

  [[nodiscard]] const Command& chosen() const;  // after parsing

  Command app;
};

// Parses the command line, calls `prepare`, and carries the command out. Returns the exit status.
int run_command_line(
    int argc, char** argv, const std::function<void()>& prepare = [] {});

// "did you mean ladder measure 'python train.py'?", where a command's words were given without quotes. Empty: no.
std::string with_quotes(const std::vector<std::string>& words);

// How JSON reaches --recipe as it is.
inline constexpr const char* recipe_in_quotes = "--recipe '{\"autocast\": \"bf16\"}'";

// The one handler of errors, around the whole of a program. The exit status is 2 for unusable input, 3 for what this
// machine cannot do, and 1 for every other error.
int exit_status(const std::function<int()>& program);

// Each adds one command. The file of its name has its flags and its help. It also has what the command does, unless
// that needs PyTorch (commands.h).
void add_doctor(CommandLine& line);
void add_ablate(CommandLine& line);
void add_measure(CommandLine& line);
void add_run(CommandLine& line);
void add_profile(CommandLine& line);
void add_report(CommandLine& line);
void add_history(CommandLine& line);
void add_verify(CommandLine& line);
void add_merge(CommandLine& line);
void add_compare(CommandLine& line);
void add_gate(CommandLine& line);
void add_train(CommandLine& line);
void add_sample(CommandLine& line);
void add_tokenize(CommandLine& line);
void add_help(CommandLine& line);
void add_completion(CommandLine& line);

void add_to_loss_flags(Command& command, ToLossFlags& flags);  // of `ladder ablate --to-loss`

// Flags whose values CLI11 checks. A refusal reads "--batch must be a whole number between 1 and 65536, got 0".
CLI::Option* add_number(Command& command, const std::string& names, int64_t& value, const std::string& help,
                        int64_t least, int64_t most);
// A finite number. `rule` states the limits: "a number from 0 on".
inline constexpr double above_zero = std::numeric_limits<double>::denorm_min();
CLI::Option* add_real(Command& command, const std::string& name, double& value, const std::string& help,
                      const std::string& rule, double least, double most = std::numeric_limits<double>::max());
// A number of bytes: "500MB", "1.5GB", "64MiB", "1000".
CLI::Option* add_bytes(Command& command, const std::string& name, int64_t& value, const std::string& help,
                       int64_t least, int64_t most);
// "2" and "2%" are 0.02.
CLI::Validator percentage();
// A name, a file or a document. It must be UTF-8 and not empty, because records carry it. Completion offers files if
// `type` has FILE, PATH or RECORD in it, and folders if it has FOLDER. With a comma in it the value is a list.
CLI::Option* add_text(Command& command, const std::string& names, std::string& value, const std::string& help,
                      const std::string& type);
// A path that is written. Refuses "-", standard output, and says what to do `instead`.
CLI::Option* add_output(Command& command, const std::string& name, std::string& value, const std::string& help,
                        const std::string& type, const std::string& instead = "name a place");
// Several names, separated by commas or each with the flag again. None is empty. None is given twice, unless repeats
// are kept. As one text they are separated by commas.
CLI::Option* add_names(Command& command, const std::string& name, std::vector<std::string>& value,
                       const std::string& help, Repeats repeats = Repeats::refused);
CLI::Option* add_names(Command& command, const std::string& name, std::string& value, const std::string& help);
// One of `values`, which the help lists before `help`.
CLI::Option* add_choice(Command& command, const std::string& names, std::string& value,
                        const std::vector<std::string>& values, const std::string& help, const std::string& type);

// "start", and every optimization.
std::vector<std::string> rung_names();

}  // namespace cli
