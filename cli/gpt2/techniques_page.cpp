#include "cli/gpt2/techniques_page.h"

#include "ablations/techniques/number_formats.h"
#include "ablations/techniques/techniques.h"
#include "cli/command.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cli {

namespace {

std::string overview() {
  std::string text =
      "\n| name | in tables | edits | needs before it | not with |\n"
      "|:-----|:----------|:------|:----------------|:---------|\n";
  const auto names = [](const std::vector<std::string>& list) {
    std::vector<std::string> linked;
    for (const std::string& name : list) linked.push_back(fmt::format("`{}`", name));
    return fmt::format("{}", fmt::join(linked, ", "));
  };
  for (const Technique& technique : techniques()) {
    for (const Optimization& one : technique.optimizations) {
      text += fmt::format("| [`{}`](../{}) | {} | `{}` | {} | {} |\n", one.name, text_file(one.name), one.title,
                          technique.field, names(one.needs), names(one.excludes));
    }
    if (technique.optimizations.empty()) {
      text += fmt::format("| [`{0}`](../{1}) | | `{0}` | | |\n", technique.field, text_file(technique.field));
    }
  }
  return text + "\nPyTorch beside a rung has [torch.compile](../ablations/techniques/torch_compile.md).\n";
}

// A field's values as JSON has them, the plain one first.
template <class Enum>
std::string values_of(Enum plain) {
  return fmt::format("`{}`", fmt::join(names_of(plain), "`, `"));
}
std::string values_of(int64_t plain) { return fmt::format("`{}` or more", plain); }
std::string values_of(bool) { return "`false`, `true`"; }

std::string recipe_fields() {
  std::string text =
      "\n## The recipe\n\n"
      "What the techniques edit. A ladder's `start` and `--recipe` hold some of these fields; the others have their\n"
      "plain values.\n\n"
      "| field | values, the plain one first | edited by |\n"
      "|:------|:----------------------------|:----------|\n";
  const model::Recipe plain;
  model::visit_fields(plain, [&](const char* field, const auto& value) {
    std::vector<std::string> editors;
    for (const Optimization& one : std::ranges::find(techniques(), field, &Technique::field)->optimizations) {
      editors.push_back(fmt::format("`{}`", one.name));
    }
    text += fmt::format("| `{}` | {} | {} |\n", field, values_of(value), fmt::join(editors, ", "));
  });
  return text;
}

// "65,504" or "3.40e+38"
std::string shown(double value) { return value >= 100 && value < 1e6 ? number(value) : fmt::format("{:.3g}", value); }

std::string number_types() {
  std::string text =
      "\n## Number types\n\n"
      "Each has one bit of sign. Epsilon is how far the next number is from 1, and rounding is off by half of that at\n"
      "most. Below the smallest normal number bits are lost one by one, down to the smallest.\n\n"
      "| type | exponent bits | mantissa bits | bytes | largest | smallest normal | smallest | epsilon | 1/3 becomes | "
      "1e-5 becomes | here in |\n"
      "|:-----|--:|--:|--:|--:|--:|--:|--:|--:|--:|:--|\n";
  for (const NumberFormat& format : number_formats()) {
    text += fmt::format("| {} | {} | {} | {} | {} | {:.3g} | {:.3g} | {:.3g} | {:.8g} | {:.5g} | {} |\n", format.name,
                        format.exponent_bits, format.mantissa_bits, format.bytes, shown(format.largest()),
                        format.smallest_normal(), format.smallest(), format.epsilon(), format.rounded(1.0 / 3),
                        format.rounded(1e-5), format.where);
  }
  return text +
         "\nTF32 is a way to read a float32, which stays 4 bytes in memory. fp8 e4m3 has no infinity: its largest\n"
         "exponent belongs to numbers, all but one of them.\n";
}

}  // namespace

std::string techniques_page() {
  return R"(# The techniques

Each of these changes how a step of training is executed, and nothing of what it computes but rounding: sums are added in
another order, so losses differ in their last digits. A ladder puts them on one after another by their names. A name leads
to its text: how it works, why it is faster, what it costs, when it does not help. What others claim of them, and what is
measured here: [claims](claims.md). What every training has, and the words that are used: [basics](basics.md).

A run proves that a technique was on. It looks at one step: at the nodes of autograd's graph, the types of tensors, the
calls of libraries, the kernels that CUPTI saw, what the process read. Each report prints what was expected of a rung, and
what was seen. A rung whose proof fails has no number.
)" + overview() +
         recipe_fields() + number_types() +
         "\n<!-- Made by: build/release/ladder-gpt2 help --techniques > docs/techniques.md -->\n";
}

std::vector<std::string> technique_names() {
  std::vector<std::string> names;
  for (const Technique& technique : techniques()) {
    if (technique.optimizations.empty()) names.emplace_back(technique.field);
    for (const Optimization& one : technique.optimizations) names.push_back(one.name);
  }
  return names;
}

std::string technique_help(const std::string& name, const Look& look) {
  for (const Technique& technique : techniques()) {
    if (technique.optimizations.empty() && matches_name(name, technique.field, "")) {
      return text_of_technique(technique.field, text_file(technique.field), look);
    }
    for (const Optimization& one : technique.optimizations) {
      if (matches_name(name, one.name, one.title)) {
        return text_of_technique(fmt::format("{}: {}. {}", one.name, one.title, one.summary), text_file(one.name),
                                 look);
      }
    }
  }
  return "";
}

}  // namespace cli
