#include "cli/command.h"
#include "files/files.h"
#include "files/nearest.h"
#include "files/printable.h"
#include "files/resources.h"
#include "harness/machine/machine.h"
#include "plots/report_document.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <ranges>
#include <sstream>
#include <stdexcept>

namespace cli {
namespace {

constexpr size_t text_column = 24;  // where the words beside a flag begin

constexpr const char* exit_statuses =
    "Exit status: 0 fine; 1 a run or a verdict failed; 2 wrong usage or input; 3 no answer: an unfit machine, or "
    "inconclusive; 130 interrupted.";

struct Item {
  std::string name, text;
};

struct Section {
  std::string title;
  std::vector<Item> items;
};

// "-B, --batch N"; a positional one in capitals, "SHARDS..." where it may be several.
std::string option_name(const CLI::Option& option) {
  if (option.get_positional()) {
    std::string name = option.get_name(true);
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
    return option.get_items_expected_max() > 1 ? name + "..." : name;
  }
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  const bool takes_value = option.get_items_expected_max() > 0;
  return fmt::format("{}{}", fmt::join(names, ", "), takes_value ? " " + option.get_type_name() : "");
}

// "ladder report STUDIES... [FLAGS]".
std::string usage(const Command& command) {
  if (command.get_parent() == nullptr) return "ladder COMMAND [FLAGS]";
  std::string text = "ladder " + command.words.name, arguments;
  bool has_flags = false;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      arguments += option->get_required() ? " " + option_name(*option) : " [" + option_name(*option) + "]";
    } else if (option->get_required()) {
      text += " " + option_name(*option);
    }
    has_flags = has_flags || (!option->get_positional() && !option->get_required());
  }
  return text + arguments + (has_flags ? " [FLAGS]" : "");
}

Item item_of(const CLI::Option& option) { return {option_name(option), option.get_description()}; }

// The flags by headings. Flags that every command has come last; hidden ones are left out.
std::vector<Section> sections_of(const Command& command) {
  std::vector<Section> sections, last;
  for (const std::string& group : command.get_groups()) {
    if (group.empty()) continue;
    Section section{.title = group};
    for (const CLI::Option* option :
         command.get_options([&](const CLI::Option* option) { return option->get_group() == group; })) {
      section.items.push_back(item_of(*option));
    }
    (group == command.get_help_ptr()->get_group() ? last : sections).push_back(section);
  }
  sections.insert(sections.end(), last.begin(), last.end());
  return sections;
}

// All commands by their groups.
std::vector<Section> sections_of_commands() {
  std::vector<Section> sections;
  for (const auto& [group, name, summary] : listed_commands) {
    if (sections.empty() || sections.back().title != group) sections.push_back({.title = group});
    sections.back().items.push_back({name, summary});
  }
  return sections;
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

std::vector<std::string> paragraphs(const std::string& text) {
  std::vector<std::string> list;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    list.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return list;
}

std::string section_text(const Section& section, const Look& look) {
  std::string text = "\n" + look.painted(Style::strong, section.title) + "\n";
  for (const auto& [name, words] : section.items) {
    std::string begin = "  " + name;
    if (begin.size() + 2 > text_column) {
      text += begin + "\n";
      begin.clear();
    }
    text +=
        wrapped(fmt::format("{:<{}}{}", begin, text_column, files::printable(words)), std::string(text_column, ' '));
  }
  return text;
}

std::string examples_text(const Command& command, const Look& look, size_t most) {
  std::string text = "\n" + look.painted(Style::strong, "Examples") + "\n";
  for (const auto& [line, shows] : command.words.examples | std::views::take(most)) {
    text += "  " + line + "\n" + look.painted(Style::faint, wrapped("      " + shows, "      "));
  }
  return text;
}

// `ladder --help`.
std::string program_help(const CommandLine& line, const Look& look) {
  constexpr const char* summary = "ladder: what each optimization of a training step brings on this machine";
  std::string text = look.painted(Style::strong, summary) + "\n\n" + look.painted(Style::strong, "Usage: ") +
                     usage(line.app) + "\n\n" + look.painted(Style::strong, "Begin with") + "\n";
  static const std::vector<Example> without_trainer{
      {"ladder measure 'python train.py' '+ --compile'", "Is the flag faster?"},
      {"ladder gate --base main --head HEAD -- python train.py", "Slower since main?"},
      {"ladder report STUDY", "Its page and charts."}};
  const bool can_train = harness::can_train();
  for (const auto& [example, shows] : can_train ? line.app.words.examples : without_trainer)
    text += fmt::format("  {:<{}}{}\n", example, can_train ? 30 : 57, shows);
  for (const Section& section : sections_of_commands()) text += section_text(section, look);
  std::vector<std::string> lacking;
  for (const ListedCommand& listed : listed_commands) {
    if (!can_train && line.find(listed.name) == nullptr) lacking.emplace_back(listed.name);
  }
  if (!lacking.empty()) text += "\n" + wrapped(fmt::format("Only the full build has {}.", fmt::join(lacking, ", ")));
  return text + "\n" + wrapped(exit_statuses) +
         "`ladder COMMAND --help` explains a command; `ladder -V` prints the version.\n";
}

// What `ladder` without `ladder-gpt2` knows of optimizations: their texts, by the names of the files.
std::map<std::string, std::string> files_of_techniques() {
  const std::filesystem::path root = files::resource_root();
  const auto is_text = [](const std::filesystem::path& file) { return file.extension() == ".md"; };
  std::map<std::string, std::string> found;
  for (const auto& file : files::files_below(root / "ablations" / "techniques", is_text)) {
    found[file.stem().string()] = file.lexically_relative(root).string();
  }
  return found;
}

int print_help_on(const CommandLine& line, const std::string& topic) {
  if (const Command* const command = line.find(topic)) {
    fmt::print("{}", help_text(line, *command, standard_output(), /*all=*/false));
    return 0;
  }
  if (line.other && (find_listed(topic) != nullptr || harness::can_train())) return line.other();
  std::string text;
  std::vector<std::string> techniques;
  if (line.gpt2.technique_help) {
    text = line.gpt2.technique_help(topic, standard_output());
    techniques = line.gpt2.technique_names();
  } else {
    for (const auto& [name, file] : files_of_techniques()) {
      if (name == topic) text = text_of_technique(name, file, standard_output());
      techniques.push_back(name);
    }
  }
  if (text.empty()) {
    std::vector<std::string> names = techniques;
    for (const ListedCommand& listed : listed_commands) names.emplace_back(listed.name);
    const std::string what = "there is no command and no optimization " + files::in_quotes(topic);
    const std::string near = files::or_nearest(what, topic, names);
    throw std::invalid_argument(near != what
                                    ? near
                                    : fmt::format("{}; `ladder help` lists the commands; optimizations are {}, ...",
                                                  what, fmt::join(techniques | std::views::take(4), ", ")));
  }
  fmt::print("{}", text);
  return 0;
}

}  // namespace

std::string text_of_technique(const std::string& title, const std::string& file, const Look& look) {
  std::string text = look.painted(Style::strong, wrapped(plain_words(title), "  ")) + "\n";
  for (const TextPart& part : parts_of(file)) {
    const bool is_first = part.title == "How it works";
    if (!is_first) text += "\n" + look.painted(Style::strong, part.title) + "\n";
    text += rewrapped(part.text);
  }
  return text;
}

std::string help_text(const CommandLine& line, const Command& command, const Look& look, bool all) {
  if (&command == &line.app) return program_help(line, look);
  const std::vector<std::string>& common = command.words.common;
  const bool is_short = !all && !common.empty();
  const std::string name = "ladder " + command.words.name;
  std::string text = look.painted(Style::strong, wrapped(name + ": " + find_listed(command.words.name)->summary, "  "));
  text += "\n" + look.painted(Style::strong, "Usage: ") + wrapped(usage(command), "           ");
  for (const std::string& paragraph : paragraphs(command.words.about)) {
    text += "\n" + wrapped(paragraph);
    if (is_short) break;
  }
  constexpr size_t few = 4;
  text += examples_text(command, look, is_short ? few : command.words.examples.size());
  if (!is_short) {
    for (const Section& section : sections_of(command)) text += section_text(section, look);
    return text;
  }
  Section section{.title = "Common flags"};
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) section.items.push_back(item_of(*option));
  }
  for (const std::string& flag : common) section.items.push_back(item_of(*command.get_option(flag)));
  return text + section_text(section, look) + fmt::format("\nEvery flag: {} --help-all\n", name);
}

namespace {

// docs/cli.md.
std::string help_markdown(const CommandLine& line) {
  std::string text = "# The commands of `ladder`\n";
  const auto describe = [&](const Command& command) {
    const bool whole = &command == &line.app;
    for (const std::string& paragraph : paragraphs(command.words.about))
      text += "\n" + markdown_with_code(paragraph) + "\n";
    text += "\n    " + usage(command) + "\n";
    for (const auto& [title, items] : sections_of(command)) {
      if (!whole && title == command.get_help_ptr()->get_group()) continue;  // the same everywhere
      text += "\n**" + title + "**\n\n";
      for (const auto& [name, words] : items) text += fmt::format("- `{}`: {}\n", name, markdown_with_code(words));
    }
    text += whole ? "\n**Begin with**\n" : "\n**Examples**\n";
    for (const auto& [example, shows] : command.words.examples) {
      text += fmt::format("\n{}\n\n    {}\n", markdown_with_code(shows), example);
    }
  };
  describe(line.app);
  text += "\n" + markdown_with_code(exit_statuses) + "\n";
  std::string heading;
  for (const auto& [group, name, summary] : listed_commands) {
    if (group != heading) text += "\n## " + (heading = group) + "\n";
    text += fmt::format("\n### ladder {}\n\n*{}*\n", name, markdown_with_code(summary));
    describe(*line.find(name));
  }
  return text + "\n<!-- Made by: build/release/ladder help --markdown > docs/cli.md -->\n";
}

struct HelpFlags {
  std::string topic;
  bool markdown = false, techniques = false, claims = false;
};

int help(const CommandLine& line, const HelpFlags& flags) {
  if (!flags.topic.empty()) return print_help_on(line, flags.topic);
  if (flags.markdown && line.other) return line.other();  // which has every command
  const auto page = [](const char* name) { return files::read_file(files::resource_root() / "docs" / name); };
  fmt::print("{}", flags.techniques ? line.gpt2.techniques_page ? line.gpt2.techniques_page() : page("techniques.md")
                   : flags.claims ? page("claims.md")
                   : flags.markdown ? help_markdown(line)
                                    : program_help(line, standard_output()));
  return 0;
}

}  // namespace

void add_help(CommandLine& line) {
  Command& command = line.add(
      {.name = "help",
       .about = "Of a command it prints the same as `ladder COMMAND --help`; of an optimization, how it works and what "
                "it costs. With a flag it prints a page of docs in Markdown.",
       .examples = {{"ladder help ablate", "The help of `ladder ablate`."},
                    {"ladder help flash", "What is flash attention?"},
                    {"ladder help --techniques", "Every optimization, with its text, and the fields of a recipe."},
                    {"ladder help --claims", "What others claim of each, and what was measured."}}});
  auto& flags = command.runs<HelpFlags>([&line](const HelpFlags& given) { return help(line, given); });
  command.heading("Arguments");
  command.add_option("topic", flags.topic, "a command, or the name of an optimization (default: the commands)");
  command.heading("What to print");
  command.add_flag("--markdown", flags.markdown, "docs/cli.md: every command");
  command.add_flag("--techniques", flags.techniques, "docs/techniques.md: every optimization");
  command.add_flag("--claims", flags.claims, "docs/claims.md: what others claim of them, and what was measured");
  command.exclude("topic", {"--markdown", "--techniques", "--claims"});
  command.exclude("--markdown", {"--techniques", "--claims"});
  command.exclude("--techniques", {"--claims"});
}

}  // namespace cli
