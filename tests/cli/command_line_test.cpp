// Examples are promises: each is parsed as if it were typed, without being carried out.
#include "ablations/techniques/techniques.h"
#include "cli/command.h"
#include "plots/techniques_page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace ablations;

// "source <(ladder completion bash)" without what is the shell's.
std::string typed(const std::string& example) {
  const size_t begin = example.find("ladder ");
  const size_t end = example.find_first_of(")>|", begin);
  return begin == std::string::npos ? example : example.substr(begin, end == std::string::npos ? end : end - begin);
}

void expect_parses(const std::string& example, const std::string& command) {
  CommandLine line;
  try {
    line.app.parse(typed(example), true);
  } catch (const std::exception& error) {
    FAIL() << example << ": " << error.what();
  }
  EXPECT_TRUE(line.chosen) << example;
  ASSERT_EQ(line.app.get_subcommands().size(), 1U);
  const std::string chosen = line.app.get_subcommands().front()->get_name();
  EXPECT_TRUE(command.empty() || chosen == command) << example << ": " << chosen;
}

TEST(CommandLine, EveryExampleParses) {
  const CommandLine line;
  for (const Example& example : line.app.words.examples) expect_parses(example.line, "");
  for (const Command* command : line.commands()) {
    EXPECT_FALSE(command->words.examples.empty()) << command->words.name;
    for (const Example& example : command->words.examples) expect_parses(example.line, command->words.name);
  }
}

// Those of docs/techniques.md and docs/claims.md.
TEST(CommandLine, EveryCommandThatATechniqueNamesParses) {
  const auto expect_each = [](const std::string& lines) {
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with("ladder ")) expect_parses(line, "");
    }
  };
  for (const Technique& technique : techniques()) expect_each(technique.text.alone);
  for (const Optimization& optimization : optimizations()) {
    expect_each(commands_alone(optimization));
    for (const Claim& claim : optimization.claims) expect_each(claim.command.value_or(""));
  }
  for (const auto* claims : {&compile_claims(), &other_claims()}) {
    for (const Claim& claim : *claims) expect_each(claim.command.value_or(""));
  }
}

TEST(CommandLine, AWrongExampleWouldBeFound) {
  CommandLine line;
  EXPECT_THROW(line.app.parse("ladder ablate --laddre tiny", true), CLI::ParseError);
}

TEST(CommandLine, NumbersThatNeedNotBeWhole) {
  const auto refusal = [](const std::string& flags) -> std::string {
    CommandLine line;
    try {
      line.app.parse("ladder sample --weights x " + flags, true);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  for (const char* good : {"0", "0.8", "1e-3", "100"})
    EXPECT_EQ(refusal(std::string("--temperature ") + good), "accepted");
  for (const char* bad : {"-1", "-0.001", "nan", "inf", "1e999", "1.0x", "warm"}) {
    EXPECT_EQ(refusal(std::string("--temperature ") + bad),
              std::string("--temperature must be a number from 0 on, got ") + bad);
  }
  for (const char* good : {"1", "0.001", "0.95"}) EXPECT_EQ(refusal(std::string("--top-p ") + good), "accepted");
  for (const char* bad : {"0", "1.001", "-0.5", "nan"}) {
    EXPECT_EQ(refusal(std::string("--top-p ") + bad),
              std::string("--top-p must be a number above 0 and at most 1, got ") + bad);
  }
  EXPECT_EQ(refusal("--top-k -1"), "--top-k must be a whole number between 0 and 50257, got -1");
}

TEST(CommandLine, ASizeIsANumberWithAUnit) {
  const auto bytes_of = [](const std::string& text) -> std::string {
    int64_t bytes = 0;
    Command command({.group = "Measure", .name = "x", .summary = "x", .about = "x", .examples = {}});
    add_bytes(command, "--size", bytes, "a size", 1000, 6000000000);
    try {
      command.parse(std::vector<std::string>{"--size=" + text});
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return std::to_string(bytes);
  };
  EXPECT_EQ(bytes_of("2GB"), "2000000000");
  EXPECT_EQ(bytes_of("1.5MB"), "1500000");
  EXPECT_EQ(bytes_of("64KiB"), "65536");
  EXPECT_EQ(bytes_of("1000"), "1000");
  EXPECT_EQ(bytes_of("6GB"), "6000000000");
  for (const std::string wrong : {"999", "7GB", "-2GB", "2TB", "GB", "2 GB", "nan", "inf", "1e99", "2GBx"}) {
    EXPECT_EQ(bytes_of(wrong), "--size must be a size between 1kB and 6GB, such as 500MB, got " + wrong);
  }
}

TEST(CommandLine, EveryFlagIsDescribed) {
  const CommandLine line;
  for (const Command* command : line.commands()) {
    EXPECT_FALSE(command->words.about.empty() || command->words.group.empty()) << command->words.name;
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_group().empty()) continue;
      EXPECT_FALSE(option->get_description().empty()) << command->words.name << ' ' << option->get_name();
      EXPECT_NE(option->get_group(), "Options") << command->words.name << ' ' << option->get_name() << ": no heading";
    }
  }
}

}  // namespace
