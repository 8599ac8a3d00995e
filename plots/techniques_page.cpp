#include "plots/techniques_page.h"

#include "ablations/plan/ladder_file.h"
#include "ablations/techniques/number_formats.h"
#include "ablations/techniques/techniques.h"
#include "plots/claims.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace plots {

using files::Json;

namespace {

// Each line as Markdown's code.
std::string indented(const std::string& lines) {
  std::string text;
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = std::min(lines.find('\n', begin), lines.size());
    text += "    " + lines.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return text;
}

std::string part(const std::string& title, const std::string& text) {
  return text.empty() ? "" : fmt::format("\n**{}** {}\n", title, text);
}

std::string parts(const Text& text, const std::string& alone) {
  return part("How it works.", text.mechanism) + part("Why it is faster.", text.faster) +
         part("What it costs.", text.costs) + part("When it does not help.", text.no_help) + "\n**In PyTorch**\n\n" +
         indented(text.pytorch) + part("How a run proves it.", text.proven) + "\n**Try it alone**\n\n" +
         indented(alone);
}

// Without the marks of code, which a terminal does not show.
std::string plain_words(std::string text) {
  std::erase(text, '`');
  return text;
}

// Paragraphs and blocks in a terminal's columns.
std::string rewrapped(const std::string& text) {
  std::string result, paragraph;
  std::istringstream lines(text + "\n\n");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("    ")) {
      result += line + "\n";
    } else if (!line.empty()) {
      paragraph += (paragraph.empty() ? "" : " ") + line;
    } else {
      if (!paragraph.empty()) result += wrapped(plain_words(std::exchange(paragraph, "")));
      result += "\n";
    }
  }
  return result.substr(0, result.find_last_not_of('\n') + 2);
}

std::string help_part(const Look& look, const char* title, const std::string& text) {
  return "\n" + look.painted(Style::strong, title) + "\n" + text;
}

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
      text += fmt::format("| [`{0}`](#{0}) | {1} | `{2}` | {3} | {4} |\n", one.name, one.title, technique.field,
                          names(one.needs), names(one.excludes));
    }
    if (technique.optimizations.empty()) text += fmt::format("| [`{0}`](#{0}) | | `{0}` | | |\n", technique.field);
  }
  return text;
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

std::string commands_alone(const Optimization& optimization) {
  if (!optimization.text.alone.empty()) return optimization.text.alone;
  std::vector<std::string> ladders;
  for (const Ladder& ladder : ladders_with(optimization.name)) ladders.push_back(ladder.name);
  const bool in_both = ladders.size() > 1 && ladders[0] == "gpt2" && ladders[1] == "gpt2-cpu";
  const std::string ladder = in_both || ladders.empty() ? "" : "--ladder " + ladders.front() + " ";
  return fmt::format("ladder ablate {}--mode factorial --factors {}", ladder, optimization.name);
}

std::string techniques_page() {
  std::string text = R"(# The techniques

Each of these changes how a step of training is executed, and nothing of what it computes but rounding: sums are added in
another order, so losses differ in their last digits. A ladder puts them on one after another by their names. What others
claim of them, and what is measured here: [claims](claims.md).
What every training has, whatever is switched on, and the words that are used below: [basics](basics.md).
)";
  text += overview() + recipe_fields() + number_types();
  for (const Technique& technique : techniques()) {
    for (const Optimization& one : technique.optimizations) {
      text += fmt::format("\n## `{}`\n\n*{}*. {}\n", one.name, one.title, one.summary);
      text += parts(one.text, commands_alone(one));
      text += fmt::format("\n[What is claimed of it](claims.md#{})\n", one.name);
    }
    if (technique.optimizations.empty()) {
      text += fmt::format("\n## `{}`\n", technique.field) + parts(technique.text, technique.text.alone);
    }
  }
  text += "\n## torch.compile\n\n*A technique of the peer*: no rung has it, but PyTorch runs beside a rung with it.\n";
  text += parts(compile_text(), compile_text().alone);
  return text + "\n[What is claimed of it](claims.md#torchcompile)\n" +
         "\n<!-- Made by: build/release/ladder help --techniques > docs/techniques.md -->\n";
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
  const auto shown = [&](const std::string& title, const Text& text, const std::string& alone) {
    return look.painted(Style::strong, wrapped(title, "  ")) + "\n" + rewrapped(text.mechanism) +
           help_part(look, "What it costs", rewrapped(text.costs)) +
           help_part(look, "In PyTorch", indented(text.pytorch)) + help_part(look, "Try it alone", indented(alone)) +
           "\ndocs/techniques.md has more: why it is faster, when it does not help, its proof.\n";
  };
  for (const Technique& technique : techniques()) {
    if (technique.optimizations.empty() && matches_name(name, technique.field, "")) {
      return shown(technique.field, technique.text, technique.text.alone);
    }
    for (const Optimization& one : technique.optimizations) {
      if (matches_name(name, one.name, one.title)) {
        return shown(fmt::format("{}: {}. {}", one.name, one.title, plain_words(one.summary)), one.text,
                     commands_alone(one));
      }
    }
  }
  return "";
}

TechniqueText technique_text(const Optimization& optimization, const Study& study) {
  const Text& text = optimization.text;
  const std::vector<Seen> seen = seen_in(study, optimization.name);
  TechniqueText told{text.mechanism, text.faster, text.costs, text.no_help, text.pytorch, text.proven, {}};
  for (const Claim& claim : optimization.claims) {
    const CheckedClaim finding = checked(claim, optimization.name, seen);
    told.claims.push_back({claim.claim, claim.source.name, finding.standing, finding.words});
  }
  return told;
}

}  // namespace plots
