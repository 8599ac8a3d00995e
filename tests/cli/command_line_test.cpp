// Examples are promises: each is parsed as if it were typed, without being carried out.
#include "ablations/techniques/techniques.h"
#include "cli/gpt2/commands.h"
#include "files/files.h"
#include "files/resources.h"
#include "model/config.h"
#include "model/execution.h"
#include "plots/report_document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <iomanip>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace cli;

void expect_parses(const std::string& example, const std::string& command) {
  WholeCommandLine line;
  try {
    line.app.parse(example, true);
  } catch (const std::exception& error) {
    FAIL() << example << ": " << error.what();
  }
  ASSERT_EQ(line.app.get_subcommands().size(), 1U);
  EXPECT_TRUE(line.chosen().run) << example;
  const std::string chosen = line.chosen().words.name;
  EXPECT_TRUE(command.empty() || chosen == command) << example << ": " << chosen;
}

std::vector<const Command*> commands_of(const CommandLine& line) {
  std::vector<const Command*> commands;
  for (const ListedCommand& listed : listed_commands) {
    const Command* const command = line.find(listed.name);
    EXPECT_NE(command, nullptr) << listed.name << " is listed, but there is no such command";
    if (command != nullptr) commands.push_back(command);
  }
  return commands;
}

TEST(CommandLine, EveryCommandIsListed) {
  const WholeCommandLine line;
  for (const CLI::App* command : line.app.get_subcommands([](const CLI::App*) { return true; })) {
    EXPECT_NE(find_listed(command->get_name()), nullptr) << command->get_name();
  }
}

TEST(CommandLine, HelpNamesTheModels) {
  const WholeCommandLine line;
  const std::string help = line.find("run")->get_option("--model")->get_description();
  EXPECT_TRUE(help.starts_with(fmt::format("{}", fmt::join(model::preset_names(), ", ")))) << help;
  const std::string warmup = line.find("run")->get_option("--warmup")->get_description();
  EXPECT_TRUE(warmup.ends_with(std::to_string(model::runs_before_replay))) << warmup;
}

TEST(CommandLine, LadderHasWhatNeedsNoPyTorch) {
  int given_away = 0;
  CommandLine line([&] { return ++given_away; });
  add_commands_of_ladder(line);
  const auto run = [&](std::vector<std::string> words) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    return run_command_line(line, static_cast<int>(argv.size()), argv.data());
  };
  EXPECT_EQ(run({"ladder", "ablate", "--no-such-flag"}), 1);  // nothing of it is parsed
  EXPECT_EQ(run({"ladder", "help", "train"}), 2);
  EXPECT_EQ(run({"ladder", "gate", "--pairs", "6"}), 3);
  EXPECT_EQ(given_away, 3);
}

TEST(CommandLine, EveryExampleParses) {
  const WholeCommandLine line;
  for (const Example& example : line.app.words.examples) expect_parses(example.line, "");
  for (const Command* command : commands_of(line)) {
    EXPECT_FALSE(command->words.examples.empty()) << command->words.name;
    for (const Example& example : command->words.examples) expect_parses(example.line, command->words.name);
  }
}

// Those of docs/techniques.md and docs/claims.md.
TEST(CommandLine, EveryCommandThatATechniqueNamesParses) {
  const auto expect_each = [](const std::string& lines) {
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);) {
      line.erase(0, line.find_first_not_of(' '));
      if (line.starts_with("ladder ")) expect_parses(line, "");
    }
  };
  const auto expect_those_of = [&](const std::string& file) {
    for (const results::TextPart& part : parts_of(file)) {
      if (part.title == "Try it alone") expect_each(part.text);
    }
  };
  for (const std::string& name : technique_names()) expect_those_of(text_file(name));
  expect_those_of("ablations/techniques/torch_compile.md");
  int found = 0;
  std::istringstream page(files::read_file(files::resource_root() / "docs" / "claims.md"));
  for (std::string code; std::getline(page, code, '`');) {
    if (!code.starts_with("ladder ")) continue;
    expect_parses(code, "");
    ++found;
  }
  EXPECT_GE(found, 15);
}

TEST(CommandLine, AWrongExampleWouldBeFound) {
  WholeCommandLine line;
  EXPECT_THROW(line.app.parse("ladder ablate --laddre tiny", true), CLI::ParseError);
}

// What becomes of "--flag=TEXT": the value, or the refusal.
template <class Value>
std::string read_as(const std::string& text, void (*add)(Command&, Value&)) {
  Command command({.name = "x", .about = "x", .examples = {}});
  Value value{};
  add(command, value);
  try {
    command.parse(std::vector<std::string>{text, "--flag"});  // it takes them from the end
  } catch (const CLI::ValidationError& error) {
    return error.what();
  }
  std::ostringstream stream;
  stream << std::setprecision(17) << value;
  return stream.str();
}

std::string whole(const std::string& text) {
  return read_as<int64_t>(text, [](Command& command, int64_t& value) {
    add_number(command, "-F,--flag", value, "a number", 0, INT64_MAX);
  });
}

std::string real(const std::string& text) {
  return read_as<double>(text, [](Command& command, double& value) {
    add_real(command, "--flag", value, "a number", "a number above 0", above_zero);
  });
}

std::string bytes(const std::string& text) {
  return read_as<int64_t>(
      text, [](Command& command, int64_t& value) { add_bytes(command, "--flag", value, "a size", 1000, 6000000000); });
}

std::string percent(const std::string& text) {
  return read_as<double>(
      text, [](Command& command, double& value) { command.add_option("--flag", value)->transform(percentage()); });
}

struct ReadValue {
  std::string (*read)(const std::string& text);
  const char *text, *value;
};

TEST(CommandLine, ValuesAreReadInDecimal) {
  for (const auto& [read, text, value] : {ReadValue{whole, "0", "0"},
                                          {whole, "010", "10"},
                                          {whole, "9223372036854775807", "9223372036854775807"},
                                          {real, "0.8", "0.80000000000000004"},
                                          {real, "1e-3", "0.001"},
                                          {real, "100", "100"},
                                          {bytes, "1000", "1000"},
                                          {bytes, "1.5MB", "1500000"},
                                          {bytes, "64KiB", "65536"},
                                          {bytes, "6GB", "6000000000"},
                                          {percent, "2", "0.02"},
                                          {percent, "2.5%", "0.025000000000000001"},
                                          {percent, "100", "1"}}) {
    EXPECT_EQ(read(text), value) << text;
  }
}

// These differ if a long double is rounded to a double, as CLI11 does by itself.
TEST(CommandLine, ANumberIsRoundedOnce) {
  for (const char* text : {"491e-8", "982e-8", "0.087010321937"}) EXPECT_EQ(std::stod(real(text)), std::stod(text));
}

TEST(CommandLine, OtherValuesAreRefused) {
  struct Refused {
    std::string (*read)(const std::string& text);
    std::string rule;
    std::vector<std::string> texts;
  };
  for (const auto& [read, rule, texts] :
       {Refused{whole,
                "a whole number between 0 and 9223372036854775807",
                {"-1", "1.5", "1e2", "0x10", "true", "1 2", "99999999999999999999"}},
        {real, "a number above 0", {"0", "-0.001", "nan", "inf", "1e999", "1.0x", "warm"}},
        {bytes,
         "a size between 1kB and 6GB, such as 500MB",
         {"999", "7GB", "-2GB", "2TB", "GB", "2 GB", "nan", "inf", "1e99", "2GBx"}},
        {percent, "a percentage between 0 and 100", {"-1", "101", "2%%", "%", "nan"}}}) {
    for (const std::string& text : texts) EXPECT_EQ(read(text), "--flag: must be " + rule + ", got " + text);
    EXPECT_EQ(read(""), "--flag: must be " + rule + ", got nothing");
  }
}

// A flag without a check would have CLI11's own name of a type, such as INT.
TEST(CommandLine, EveryNumberIsChecked) {
  const std::set<std::string> checked{"N", "X", "SIZE", "PERCENT"}, unchecked{"INT", "UINT", "FLOAT"};
  const WholeCommandLine all;
  size_t numbers = 0;
  for (const Command* command : commands_of(all)) {
    for (const CLI::Option* option : command->get_options()) {
      const std::string flag = command->words.name + " " + option->get_name();
      EXPECT_FALSE(unchecked.contains(option->get_type_name())) << flag;
      if (!checked.contains(option->get_type_name())) continue;
      ++numbers;
      try {
        WholeCommandLine line;
        line.app.parse("ladder " + flag + " 12monkeys", true);
        ADD_FAILURE() << flag << ": accepted";
      } catch (const CLI::ValidationError& error) {
        EXPECT_NE(std::string(error.what()).find(": must be "), std::string::npos) << error.what();
      }
    }
  }
  EXPECT_GT(numbers, 80U);
}

TEST(CommandLine, EveryFlagIsDescribed) {
  const WholeCommandLine line;
  for (const Command* command : commands_of(line)) {
    EXPECT_FALSE(command->words.about.empty()) << command->words.name;
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_group().empty()) continue;
      EXPECT_FALSE(option->get_description().empty()) << command->words.name << ' ' << option->get_name();
      EXPECT_NE(option->get_group(), "Options") << command->words.name << ' ' << option->get_name() << ": no heading";
    }
  }
}

}  // namespace
