#include "cli/command.h"

#include "files/files.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <stdexcept>
#include <utility>

namespace cli {
namespace {

// A test compares them with model::preset_names().
const std::vector<std::string> models{"gpt2-124m", "gpt2-355m", "gpt2-774m", "gpt2-1558m", "gpt2-18m", "tiny"};

// None if the text is not a number as a whole. CLI11's own conversion reads "010" as 8 and "true" as 1. Its Range takes
// nan, and reads a number that overflows as the largest.
template <class Number>
std::optional<Number> parsed(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// The same number, which CLI11 reads without rounding twice.
std::string exact(int64_t value) { return std::to_string(value); }
std::string exact(double value) { return fmt::format("{:a}", value); }

// Replaces a value by its number, read by `value_of`. command_line.cpp puts the flag before a refusal.
template <class Number>
CLI::Validator must_be(const std::string& rule, Number least, Number most,
                       std::optional<Number> (*value_of)(const std::string&)) {
  const auto obstacle = [=](std::string& text) -> std::string {
    const std::optional<Number> value = value_of(text);
    if (!value || !(*value >= least && *value <= most)) {
      return fmt::format("must be {}, got {}", rule, text.empty() ? "nothing" : text);
    }
    text = exact(*value);
    return "";
  };
  return {obstacle, ""};
}

std::optional<int64_t> parsed_bytes(const std::string& text) {
  static const std::map<std::string, double> units{{"", 1},       {"kB", 1e3},      {"MB", 1e6},     {"GB", 1e9},
                                                   {"KiB", 1024}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
  const size_t end = text.find_last_of("0123456789") + 1;
  const auto unit = units.find(text.substr(end));
  const std::optional<double> number = parsed<double>(text.substr(0, end));
  constexpr double most = 1e18;
  if (unit == units.end() || !number || !(*number * unit->second < most)) return std::nullopt;
  return static_cast<int64_t>(*number * unit->second);
}

std::optional<double> parsed_percent(const std::string& text) {
  const std::optional<double> percent = parsed<double>(text.substr(0, text.size() - (text.ends_with('%') ? 1 : 0)));
  return percent ? std::optional(*percent / 100) : std::nullopt;
}

// "6GB": a whole number of the largest unit.
std::string bytes_text(int64_t bytes) {
  for (const auto& [unit, size] : {std::pair{"GB", int64_t{1000000000}}, {"MB", 1000000}, {"kB", 1000}}) {
    if (bytes % size == 0) return fmt::format("{}{}", bytes / size, unit);
  }
  return fmt::format("{} bytes", bytes);
}

std::string obstacle_of_text(const std::string& text) {
  if (text.empty()) return "must not be empty";
  return files::valid_utf8(text) == text ? "" : files::in_quotes(text) + " is not UTF-8";
}

// CLI11 splits a list itself, but drops its empty items unseen.
CLI::Option* add_list(Command& command, const std::string& name, const std::string& help, Repeats repeats,
                      const std::function<void(std::vector<std::string>)>& keep) {
  const auto read = [name, keep, repeats](const std::vector<std::string>& given) {
    const std::string text = fmt::format("{}", fmt::join(given, ","));
    keep(list_of(text, fmt::format("{} {}", name, text), repeats));
  };
  return command.add_option_function<std::vector<std::string>>(name, read, help)
      ->type_name("A,B,...")
      ->check(obstacle_of_text)
      ->allow_extra_args(false);
}

}  // namespace

CLI::Validator whole_number(const std::string& names, int64_t least, int64_t most) {
  const char* const unit = names.ends_with("-s") ? "of seconds " : "";
  return must_be(fmt::format("a whole number {}between {} and {}", unit, least, most), least, most, parsed<int64_t>);
}

CLI::Validator real_number(const std::string& rule, double least, double most) {
  return must_be(rule, least, most, parsed<double>);
}

CLI::Validator size_in_bytes(int64_t least, int64_t most) {
  return must_be(fmt::format("a size between {} and {}, such as 500MB", bytes_text(least), bytes_text(most)), least,
                 most, parsed_bytes);
}

CLI::Validator percentage() { return must_be("a percentage between 0 and 100", 0.0, 1.0, parsed_percent); }

CLI::Option* add_text(Command& command, const std::string& names, std::string& value, const std::string& help,
                      const std::string& type) {
  return command.add_option(names, value, help)->type_name(type)->check(obstacle_of_text);
}

CLI::Option* add_output(Command& command, const std::string& name, std::string& value, const std::string& help,
                        const std::string& type, const std::string& instead) {
  const auto obstacle = [instead](const std::string& text) {
    return files::is_standard_output(text) ? "standard output (-) cannot be used here; " + instead : "";
  };
  return add_text(command, name, value, help, type)->check(obstacle);
}

CLI::Option* add_names(Command& command, const std::string& name, std::vector<std::string>& value,
                       const std::string& help, Repeats repeats) {
  return add_list(command, name, help, repeats, [&value](std::vector<std::string> items) { value = std::move(items); });
}

CLI::Option* add_names(Command& command, const std::string& name, std::string& value, const std::string& help) {
  return add_list(command, name, help, Repeats::refused, [&value](const std::vector<std::string>& items) {
    value = fmt::format("{}", fmt::join(items, ","));
  });
}

CLI::Option* add_choice(Command& command, const std::string& names, std::string& value,
                        const std::vector<std::string>& values, const std::string& help, const std::string& type) {
  return add_text(command, names, value, fmt::format("{}{}", fmt::join(values, ", "), help), type);
}

void add_size_flags(Command& command, WorkloadFlags& flags, const std::string& default_model,
                    const std::string& default_size) {
  constexpr int64_t most_sequences = 1 << 16;
  command.heading(fmt::format("Size of the work (default: {})", default_size));
  add_choice(command, "--model", flags.model, models, fmt::format(" (default: {})", default_model), "NAME");
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
  add_number(command, "--warmup", flags.warmup, "untimed steps before them; execution graph needs at least 4", 0,
             most_steps);
  add_number(command, "--seed", flags.seed,
             "seed of the initial weights and of the place in the text where training starts (default 1)", 0,
             INT64_MAX);
  command.add_flag("--random-windows", flags.random_windows,
                   "begin each sequence anywhere in the text, as nanoGPT does (default: one after another)");
  add_number(command, "--threads", flags.threads, "CPU threads (default: one for each core it may use)", 1, 4096);
  add_text(command, "--data", flags.data,
           "a UTF-8 text, or a token file (.bin, llm.c's format) (default: Shakespeare's plays)", "FILE");
  add_text(command, "--vocab", flags.vocabulary,
           "vocab.bpe or gpt2.tiktoken, to tokenize texts (default: the one that `make data` fetched)", "FILE");
}

void add_wait_flag(Command& command, bool& wait) {
  command.add_flag("--wait", wait, "wait while something else measures on the device (default: refuse, exit status 3)");
}

CLI::Option* add_min_effect_flag(Command& command, double& min_effect, const std::string& difference) {
  return command
      .add_option("--min-effect", min_effect, fmt::format("the least {} that matters (default 2)", difference))
      ->transform(percentage())
      ->type_name("PERCENT");
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
