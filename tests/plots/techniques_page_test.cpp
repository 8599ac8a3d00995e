// Each optimization has its texts, and the commands that try it alone measure what they say.
#include "plots/techniques_page.h"

#include "ablations/plan/modes.h"
#include "ablations/techniques/products/products.h"
#include "ablations/techniques/techniques.h"
#include "tests/harness/machines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace techniques_page_test {

using namespace plots;

std::vector<std::pair<std::string, const Text*>> texts() {
  std::vector<std::pair<std::string, const Text*>> list;
  for (const Technique& technique : techniques()) {
    if (technique.optimizations.empty()) list.emplace_back(technique.field, &technique.text);
    for (const Optimization& one : technique.optimizations)
      list.emplace_back(one.name, &find_optimization(one.name)->text);
  }
  return list;
}

TEST(TechniquesPage, EveryTechniqueSaysAllOfIt) {
  const std::string page = techniques_page();
  for (const auto& [name, text] : texts()) {
    EXPECT_NE(page.find("\n## `" + name + "`\n"), std::string::npos) << name;
    for (const std::string* part : {&text->mechanism, &text->costs, &text->no_help, &text->pytorch, &text->proven}) {
      EXPECT_FALSE(part->empty()) << name;
    }
  }
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
  for (const auto& [name, text] : texts()) {
    for (const std::string* part : {&text->mechanism, &text->faster, &text->costs, &text->no_help, &text->proven}) {
      EXPECT_EQ(std::count(part->begin(), part->end(), '`') % 2, 0) << name;
      EXPECT_EQ(part->find('<'), std::string::npos) << name;
      std::istringstream lines(*part);
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
    const std::string command = commands_alone(one);
    const size_t factors = command.find("--factors ");
    if (factors == std::string::npos) continue;  // single runs
    const std::string names = command.substr(factors + std::string("--factors ").size());
    if (names.find("packed_products") != std::string::npos && !model::has_packed_bf16()) continue;
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
    ++tried;
  }
  // gpu, foreach, master_weights, joined_qkv_gradient, fp8_head, fp8 and ddp are tried by runs.
  EXPECT_EQ(tried, optimizations().size() - 7);
}

}  // namespace techniques_page_test
