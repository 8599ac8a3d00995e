// A command for its users: its purpose, its flags with their defaults, examples. Help and docs/cli.md are made of this
// alone. A test parses every example.
#pragma once

#include "study/archive/verify.h"
#include "text/style.h"
#include "text/text.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cli {

struct GateFlags;

// A command of `ladder` or of `ladder-gpt2`, as the help lists it.
struct ListedCommand {
  const char *group, *name, *summary;
};
// All of them, in the help's order.
extern const std::vector<ListedCommand> listed_commands;
// Null: there is no such command.
const ListedCommand* find_listed(const std::string& name);

struct Example {
  std::string line;   // "ladder ablate --ladder tiny"
  std::string shows;  // one sentence
};

struct Words {
  std::string name;   // "ablate"
  std::string about;  // what it does and what it leaves behind; paragraphs end with "\n"
  std::vector<Example> examples;
  std::vector<std::string> common = {};  // the flags that --help shows, where all do not fit into 40 lines
};

// The heading of the flags that say where results go and how they are printed.
constexpr const char* results_heading = "Where the results go";

struct Command : CLI::App {
  explicit Command(const Words& given);
  // The help shows the flags that follow under this heading.
  void heading(const std::string& text) { option_defaults()->group(text); }
  // The flags of `carry_out`, which returns the exit status. They live as long as the command.
  template <class Flags>
  Flags& runs(const std::function<int(const Flags&)>& carry_out) {
    auto flags = std::make_shared<Flags>();
    run = [flags, carry_out] { return carry_out(*flags); };
    return *flags;
  }
  // What was typed, without what only says where results go and `left_out`.
  [[nodiscard]] TypedLine typed(const std::set<std::string>& left_out) const;
  // `flag` cannot be combined with any of the others.
  void exclude(const std::string& flag, const std::vector<std::string>& others);

  Words words;
  std::function<int()> run;
};

// What only `ladder-gpt2` can do of a command that both programs have. Each is empty in `ladder`.
struct Gpt2 {
  std::function<int(const GateFlags&)> gate_of_programs;  // of two ladder programs
  study::ComputeAgain compute_again;                      // for `ladder verify`
  std::function<std::string()> techniques_page;           // docs/techniques.md
  std::function<std::vector<std::string>()> technique_names;
  // About one of them, by its name or its title in tables; empty: there is none.
  std::function<std::string(const std::string& name, const Look& look)> technique_help;
};

// A program's command line. Parsing carries nothing out.
struct CommandLine {
  // `other` becomes the program that has what this one lacks, with the same arguments.
  explicit CommandLine(std::function<int()> other, Gpt2 gpt2 = {});
  CommandLine(const CommandLine&) = delete;  // commands point into it
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine() = default;

  Command& add(const Words& words);
  [[nodiscard]] const Command* find(const std::string& name) const;  // null: this program lacks it
  [[nodiscard]] const Command& chosen() const;                       // after parsing

  Command app;
  std::function<int()> other;
  Gpt2 gpt2;
};

// Parses the command line, calls `prepare`, and carries the command out. Nothing is parsed of a command that only the
// other program has. Returns the exit status.
int run_command_line(
    CommandLine& line, int argc, char** argv, const std::function<void()>& prepare = [] {});

// The one handler of errors, around the whole of a program. The exit status is 2 for unusable input, 3 for what this
// machine cannot do, and 1 for every other error.
int exit_status(const std::function<int()>& program);

// The whole of `ladder`: what needs no PyTorch. For other commands the process becomes `ladder-gpt2`.
int ladder(int argc, char** argv);

// The commands that need no PyTorch.
void add_measure(CommandLine& line);
void add_read(CommandLine& line);
void add_report(CommandLine& line);
void add_export(CommandLine& line);
void add_history(CommandLine& line);
void add_verify(CommandLine& line);
void add_merge(CommandLine& line);
void add_compare(CommandLine& line);
void add_gate(CommandLine& line);
void add_bisect(CommandLine& line);
void add_help(CommandLine& line);
void add_commands_of_ladder(CommandLine& line);

// Text in a terminal's columns: paragraphs, and blocks whose lines begin with four spaces. `title` stands above it.
std::string text_of_technique(const std::string& title, const std::string& file, const Look& look);

// The help of a command; for line.app the program's. At most 80 columns wide, and 40 lines long unless `all`.
std::string help_text(const CommandLine& line, const Command& command, const Look& look, bool all);

// "did you mean ladder measure 'python train.py'?", where a command's words were given without quotes. Empty: no.
std::string with_quotes(const std::vector<std::string>& words);

// What the value of a flag must be. A refusal reads "--batch must be a whole number between 1 and 65536, got 0".
CLI::Validator whole_number(const std::string& names, int64_t least, int64_t most);
// A finite number. `rule` states the limits: "a number from 0 on".
CLI::Validator real_number(const std::string& rule, double least, double most);
// A number of bytes: "500MB", "1.5GB", "64MiB", "1000".
CLI::Validator size_in_bytes(int64_t least, int64_t most);
inline constexpr double above_zero = std::numeric_limits<double>::denorm_min();

// Flags whose values CLI11 checks. A value is a number, or an optional one, which is empty without the flag.
template <class Value>
CLI::Option* add_number(Command& command, const std::string& names, Value& value, const std::string& help,
                        int64_t least, int64_t most) {
  return command.add_option(names, value, help)->transform(whole_number(names, least, most))->type_name("N");
}
template <class Value>
CLI::Option* add_real(Command& command, const std::string& name, Value& value, const std::string& help,
                      const std::string& rule, double least, double most = std::numeric_limits<double>::max()) {
  return command.add_option(name, value, help)->transform(real_number(rule, least, most))->type_name("X");
}
template <class Value>
CLI::Option* add_bytes(Command& command, const std::string& name, Value& value, const std::string& help, int64_t least,
                       int64_t most) {
  return command.add_option(name, value, help)->transform(size_in_bytes(least, most))->type_name("SIZE");
}
// "2" and "2%" are 0.02.
CLI::Validator percentage();
// A name, a file or a document. It must be UTF-8 and not empty, because records carry it.
CLI::Option* add_text(Command& command, const std::string& names, std::string& value, const std::string& help,
                      const std::string& type);
// The same, given any number of times.
CLI::Option* add_texts(Command& command, const std::string& name, std::vector<std::string>& values,
                       const std::string& help, const std::string& type);
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

// Size and circumstances of the work. What has no value, or no letter, is not given.
struct WorkloadFlags {
  std::string model;
  std::optional<int64_t> B, T, accumulation, positions, steps, warmup, threads;
  int64_t seed = 1;
  std::string data, vocabulary;
  std::optional<int64_t> repeat_to;  // bytes of text, made of whole copies
  bool deterministic = false;        // on every rung
  bool random_windows = false;
  bool cold_cache = false;   // each run begins without its data in the page cache
  bool end_of_text = false;  // "<|endoftext|>" in a text is one token
};

// The heading names the default size.
void add_size_flags(Command& command, WorkloadFlags& flags, const std::string& default_model,
                    const std::string& default_size);
// The size, and also steps, seed, threads, data and vocabulary.
void add_workload_flags(Command& command, WorkloadFlags& flags, const std::string& default_model,
                        const std::string& default_size);
void add_wait_flag(Command& command, bool& wait);
CLI::Option* add_min_effect_flag(Command& command, double& min_effect, const std::string& difference);

// --resume continues what --out holds; `what`: "study". Throws std::invalid_argument if --resume comes without --out,
// or with a flag that is not `allowed`.
void check_resume(const Command& command, const std::vector<std::string>& allowed, const std::string& what);

}  // namespace cli
