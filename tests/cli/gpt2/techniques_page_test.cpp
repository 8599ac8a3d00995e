// Each optimization has its texts, and the commands that try it alone measure what they say.
#include "cli/gpt2/techniques_page.h"

#include "ablations/gpt2/modes.h"
#include "ablations/techniques/products/products.h"
#include "ablations/techniques/techniques.h"
#include "plots/report_document.h"
#include "tests/harness/machines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace techniques_page_test {

using namespace plots;

// By the titles of parts.
std::map<std::string, std::string> text_of(const std::string& name) {
  std::map<std::string, std::string> text;
  for (const results::TextPart& part : parts_of(text_file(name))) text[part.title] = part.text;
  return text;
}

TEST(TechniquesPage, EveryTechniqueHasATextWithItsParts) {
  const std::string page = techniques_page();
  for (const std::string& name : technique_names()) {
    EXPECT_NE(page.find("| [`" + name + "`](../" + text_file(name) + ")"), std::string::npos) << name;
    auto text = text_of(name);
    for (const char* part : {"How it works", "What it costs", "When it does not help", "In PyTorch", "Try it alone"}) {
      EXPECT_FALSE(text[part].empty()) << name << ": " << part;
      text.erase(part);
    }
    text.erase("Why it is faster");
    EXPECT_EQ(text.size(), 0U) << name << ": " << text.begin()->first;
  }
  EXPECT_GE(parts_of("ablations/techniques/torch_compile.md").size(), 5U);
}

TEST(TechniquesPage, EveryFieldOfTheRecipeStandsInATableWithItsPlainValueFirst) {
  const std::string page = techniques_page();
  const auto plain = model::to_json(model::Recipe());
  for (const auto& [field, value] : plain.items()) {
    const std::string first = value.is_string() ? value.get<std::string>() : value.dump();
    EXPECT_NE(page.find("\n| `" + field + "` | `" + first + "`"), std::string::npos) << field;
  }
}

// What pages make of it: `code`, and paragraphs or blocks whose every line begins with four blanks.
TEST(TechniquesPage, TextsAreParagraphsAndBlocks) {
  for (const std::string& name : technique_names()) {
    for (const auto& [title, text] : text_of(name)) {
      EXPECT_EQ(title == "In PyTorch" ? 0 : std::ranges::count(text, '`') % 2, 0) << name;
      EXPECT_EQ(title == "In PyTorch" ? std::string::npos : text.find('<'), std::string::npos) << name;
      std::istringstream lines(text);
      for (std::string line, before; std::getline(lines, line); before = line) {
        if (before.empty() || line.empty()) continue;
        EXPECT_EQ(before.starts_with("    "), line.starts_with("    ")) << name << ": " << line;
      }
    }
  }
}

TEST(TechniquesPage, TheFactorialOfOneMeasuresItOnAndOff) {
  size_t tried = 0;
  for (const Optimization& one : optimizations()) {
    const std::string command = text_of(one.name)["Try it alone"];
    const size_t factors = command.find("--factors ");
    if (factors == std::string::npos) continue;  // single runs
    const std::string names = command.substr(factors + std::string("--factors ").size());
    EXPECT_EQ(names.substr(names.rfind(',') + 1), one.name);
    ++tried;
    if (names.find("packed_products") != std::string::npos && !model::has_packed_bf16()) continue;  // not applicable
    const size_t flag = command.find("--ladder ");
    const std::string ladder =
        flag == std::string::npos ? "gpt2" : command.substr(flag + 9, command.find(' ', flag + 9) - flag - 9);
    const bool is_of_cpu = ladder.starts_with("gpt2-cpu");
    const harness::Machine& machine = is_of_cpu ? machines::cpu : machines::hopper;
    const std::vector<Rung> rungs =
        rungs_of(load_ladder(ladder), design_of({.mode = "factorial", .factors = names}, machine),
                 Shape{.B = 1, .T = 8}, machine);
    EXPECT_NE(rungs.front().recipe, rungs.back().recipe) << command;
    EXPECT_EQ(rungs.size(), names.find(',') == std::string::npos ? 2U : 4U) << command;
  }
  // gpu, foreach, master_weights, joined_qkv_gradient, fp8_head, fp8 and ddp are tried by runs.
  EXPECT_EQ(tried, optimizations().size() - 7);
}

}  // namespace techniques_page_test
