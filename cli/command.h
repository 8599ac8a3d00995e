// A command for its users: what it is for, its flags with their defaults, examples. Help, docs/cli.md and shell
// completion are made only from this, and a test parses every example.
#pragma once

#include "cli/flags.h"
#include "text/list.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

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

  Words words;
  std::map<const CLI::Option*, std::vector<std::string>> values;  // that completion offers
};

// The program's command line. Parsing only chooses what to do.
struct CommandLine {
  CommandLine();
  CommandLine(const CommandLine&) = delete;  // the commands' callbacks point into it
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine() = default;

  Command& add(const Words& words);
  [[nodiscard]] std::vector<const Command*> commands() const;  // in the order of the help

  Command app;
  std::function<int()> chosen;  // returns the exit status
};

// Each in the file of its name.
void add_measuring_commands(CommandLine& line);
void add_reporting_commands(CommandLine& line);
void add_comparing_commands(CommandLine& line);
void add_training_commands(CommandLine& line);
void add_help_commands(CommandLine& line);

// Reads a whole number as text first, so that "-1", "1e9" and "99999999999999999999" get the same kind of answer.
CLI::Option* add_number(Command& command, const std::string& names, int64_t& value, const std::string& help,
                        int64_t least, int64_t most);
// A number that need not be whole, such as "6e-4", and that `allowed` takes. `rule` says which those are: "a number
// above 0". An infinite one is none.
CLI::Option* add_real(Command& command, const std::string& name, double& value, const std::string& help,
                      const std::string& rule, std::function<bool(double)> allowed);
// From `least` on, up to `most` where there is one.
CLI::Option* add_real(Command& command, const std::string& name, double& value, const std::string& help, double least,
                      std::optional<double> most = {});
// A number of bytes: "500MB", "1.5GB", "64MiB", "1000".
CLI::Option* add_bytes(Command& command, const std::string& name, int64_t& value, const std::string& help,
                       int64_t least, int64_t most);
// A share in percent, kept as a fraction: "2" and "2%" are 0.02.
CLI::Option* add_percent(Command& command, const std::string& name, double& value, const std::string& help);
// A name, a file or a document: not empty, and UTF-8, because the records carry it. FILE, PATH or RECORD in `type`
// makes completion offer files, FOLDER folders; with a comma in it the value is a list.
CLI::Option* add_text(Command& command, const std::string& names, std::string& value, const std::string& help,
                      const std::string& type);
// A path that is written. "-" is refused, because standard output cannot be that; `instead` says what can.
CLI::Option* add_output(Command& command, const std::string& name, std::string& value, const std::string& help,
                        const std::string& type, const std::string& instead = "");
// Several names: separated by commas, or with the flag again for each. None is empty, and none is given
// twice unless repeats are kept. As one text they are separated by commas.
CLI::Option* add_names(Command& command, const std::string& name, std::vector<std::string>& value,
                       const std::string& help, Repeats repeats = Repeats::refused);
CLI::Option* add_names(Command& command, const std::string& name, std::string& value, const std::string& help);
// One of `values`, which the help names before `help`.
CLI::Option* add_choice(Command& command, const std::string& names, std::string& value,
                        const std::vector<std::string>& values, const std::string& help, const std::string& type);

// Flags that several commands have.
void add_wait(Command& command, bool& wait);
// Under a heading of their own, which says what size is the default: of a step, and of whole runs with their data.
void add_size_flags(Command& command, WorkloadFlags& flags, const std::string& default_model,
                    const std::string& default_size);
constexpr const char* size_flags[] = {"--model", "--batch", "--context", "--positions", "--accumulation"};
void add_workload_flags(Command& command, WorkloadFlags& flags, const std::string& default_model,
                        const std::string& default_size);
void add_deterministic_flag(Command& command, WorkloadFlags& flags);
void add_end_of_text_flag(Command& command, bool& end_of_text);
void add_data_flags(Command& command, WorkloadFlags& flags);  // --repeat-to and --cold-cache
constexpr const char* workload_flags[] = {"--model",        "--batch", "--context", "--positions",
                                          "--accumulation", "--steps", "--warmup",  "--seed",
                                          "--threads",      "--data",  "--vocab"};
// Of a training. How long it is, beside --steps; its learning rate and update; its validation loss. usual: the steps
// between two of these by default; more: what else the help says of them.
void add_length_flags(Command& command, TrainFlags& flags);
void add_learning_flags(Command& command, TrainFlags& flags);
void add_validation_flags(Command& command, TrainFlags& flags, const std::string& usual, const std::string& more = "");
constexpr const char* training_flags[] = {"--tokens",
                                          "--epochs",
                                          "--lr",
                                          "--min-lr",
                                          "--warmup-steps",
                                          "--decay-steps",
                                          "--weight-decay",
                                          "--clip",
                                          "--validation-share",
                                          "--validation-data",
                                          "--validation-every",
                                          "--validation-batches"};
// Throws std::invalid_argument for a flag beside --resume that is not among `allowed`, nor is --out or hidden.
void check_resume(const Command& command, const std::vector<std::string>& allowed, const std::string& what);
// "start", and every optimization: the rungs that a ladder can have.
std::vector<std::string> rung_names();

}  // namespace ablations
