// `ladder completion`: a script that completes commands and flags in bash, and in zsh by its bashcompinit. Bash splits
// words at "=", so "--mode=x" arrives as three words. compgen expands its arguments as the shell does. So values may
// hold only letters, digits and harmless signs.
#include "cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace cli {
namespace {

constexpr const char* script_begin = R"(# Completes `ladder` in bash: source <(ladder completion bash)
_ladder() {
  local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]} before='' values='' kind='' flags=''
  COMPREPLY=()
  if [[ $word == '=' ]]; then
    word=''
  elif [[ $flag == '=' ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $word == --*=* ]]; then  # where COMP_WORDBREAKS has no "="
    flag=${word%%=*} before=${word%%=*}= word=${word#*=}
  fi
  local command=${COMP_WORDS[1]}
  ((COMP_CWORD > 1)) || command=''
  case "$command" in
)";

constexpr const char* zsh_begin = R"(autoload -U +X compinit bashcompinit && compinit && bashcompinit
)";

constexpr const char* script_end = R"(  esac
  if [[ $word == -* && -z $before ]] && [[ $kind == argument* ]]; then
    values=$flags kind=''
  elif [[ $kind == argument && -z $values ]]; then
    values=$flags
  fi
  if [[ $kind == list* && $word == *,* ]]; then
    before+=${word%,*},
    word=${word##*,}
  fi
  local IFS=$' \t\n' reply
  while IFS= read -r reply; do
    [[ -n $reply ]] && COMPREPLY+=("$before$reply")
  done < <(
    compgen -W "$values" -- "$word"
    case "$kind" in
      *file) compgen -f -- "$word" ;;
      *folder) compgen -d -- "$word" ;;
    esac
  )
  case "$kind" in  # outside of a completion, as in a test, there are no options to set
    *file | *folder) compopt -o filenames 2>/dev/null ;;
    list) compopt -o nospace 2>/dev/null ;;
  esac
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _ladder ladder
)";

bool harmless(std::string_view value) {
  return std::ranges::all_of(value, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.=+").find(c) != std::string_view::npos;
  });
}

// What is offered for a flag's value or an argument: known values, and files, folders or a list.
struct Offer {
  std::string values, kind;
};

Offer offer_of(const Command& command, const CLI::Option& option) {
  Offer offer;
  if (const auto known = command.values.find(&option); known != command.values.end()) {
    std::vector<std::string> values = known->second;
    std::erase_if(values, [](const std::string& value) { return !harmless(value); });
    offer.values = fmt::format("{}", fmt::join(values, " "));
  }
  const std::string type = option.get_type_name();
  const auto has = [&](const char* word) { return type.find(word) != std::string::npos; };
  offer.kind = has("FILE") || has("PATH") || has("RECORD") ? "file" : has("FOLDER") ? "folder" : has(",") ? "list" : "";
  return offer;
}

// One command's branch of the script. Sets `flags`, and `values` and `kind` for the completed word.
std::string branch(const Command& command) {
  std::string flags, cases;
  Offer argument;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    const Offer offer = offer_of(command, *option);
    if (option->get_positional()) {
      argument = offer;
      continue;
    }
    flags += (flags.empty() ? "" : " ") + fmt::format("{}", fmt::join(names_of(*option), " "));
    if (option->get_items_expected_max() == 0) continue;
    cases += fmt::format("        {}) values='{}' kind='{}' ;;\n", fmt::join(names_of(*option), " | "), offer.values,
                         offer.kind);
  }
  return fmt::format(
      "    {})\n      flags='{}'\n      case \"$flag\" in\n{}        *) values='{}' kind='argument{}' ;;\n      esac\n "
      "     "
      ";;\n",
      command.words.name, flags, cases, argument.values, argument.kind);
}

std::string bash_completion(const CommandLine& line) {
  std::string text = script_begin;
  std::vector<std::string> names;
  for (const Command* command : line.commands()) {
    names.push_back(command->words.name);
    text += branch(*command);
  }
  return text +
         fmt::format("    '') values='{}' flags='-h --help --help-all -V --version' kind='argument' ;;\n",
                     fmt::join(names, " ")) +
         script_end;
}

}  // namespace

void add_completion(CommandLine& line) {
  auto shell = std::make_shared<std::string>("bash");
  Command& command = line.add(
      {.group = "Help",
       .name = "completion",
       .summary = "a script that completes commands and flags in bash and zsh",
       .about =
           "Prints a script. To have it in every shell, add the line of the first example to ~/.bashrc, or that of "
           "the second to ~/.zshrc.",
       .examples = {{"source <(ladder completion bash)", "From then on, in this shell: ladder ab<Tab> --mo<Tab>"},
                    {"source <(ladder completion zsh)", "The same in zsh."},
                    {"ladder completion bash > ladder.bash", "The script in a file."}}});
  command.heading("Arguments");
  auto* option = command.add_option("shell", *shell, "bash (default) or zsh");
  command.values[option] = {"bash", "zsh"};
  command.run = [&line, shell] {
    if (*shell != "bash" && *shell != "zsh") {
      throw std::invalid_argument(fmt::format("completion must be for bash or zsh, got {}", *shell));
    }
    fmt::print("{}{}", *shell == "zsh" ? zsh_begin : "", bash_completion(line));
    return 0;
  };
}

}  // namespace cli
