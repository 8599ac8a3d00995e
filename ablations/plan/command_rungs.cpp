#include "ablations/plan/command_rungs.h"

#include "files/printable.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <set>
#include <stdexcept>
#include <string_view>

namespace ablations {

namespace {

// Whether it begins with "NAME=".
bool assigns(std::string_view text) {
  const size_t end = std::min(text.find('='), text.size());
  const auto is_of_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return end > 0 && end < text.size() && !(text[0] >= '0' && text[0] <= '9') &&
         std::ranges::all_of(text.substr(0, end), is_of_name);
}

// Where sh's word that begins there ends. A word with "$(" or "`" goes to the end.
size_t end_of_word(std::string_view text, size_t at) {
  char quote = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '`' || (c == '$' && text.substr(at).starts_with("$("))) {
      if (quote != '\'') return text.size();
    } else if (c == '\\' && quote != '\'') {
      ++at;
    } else if (quote != 0) {
      quote = c == quote ? 0 : quote;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      break;
    }
  }
  return std::min(at, text.size());
}

// Behind every "export NAME=value; " that a command begins with.
size_t end_of_exports(std::string_view command) {
  constexpr std::string_view exports = "export ";
  size_t at = 0;
  while (command.substr(at).starts_with(exports)) {
    size_t end = end_of_word(command, at + exports.size());
    while (end < command.size() && command[end - 1] != ';') end = end_of_word(command, end + 1);
    if (end + 1 >= command.size()) break;
    at = end + 1;
  }
  return at;
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\n"), end = text.find_last_not_of(" \t\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

constexpr std::string_view for_flags = "{flags}";  // in a command: where flags go

// The text with an x in place of what sh does not take as a mark: quoted, escaped, in brackets, of a redirection.
std::string without_quoted(const std::string& text) {
  std::string plain;
  char quote = 0;
  int depth = 0;  // of brackets
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool escapes = c == '\\' && quote != '\'',
               redirects = c == '&' && (plain.ends_with('>') || text[at + 1] == '>');
    const bool in_word = c == '#' && !plain.empty() && plain.back() != ' ' && plain.back() != '\n';
    if (quote != 0 ? c == quote : c == '\'' || c == '"' || c == '`') quote = quote != 0 ? char{0} : c;
    if (quote == 0 && (c == '(' || c == ')')) depth += c == '(' ? 1 : -1;
    plain += quote != 0 || depth > 0 || escapes || redirects || in_word ? 'x' : c;
    if (escapes && ++at < text.size()) plain += 'x';
  }
  return plain;
}

// The mark behind which flags at the command's end would reach another program, or none; empty: they reach its program.
std::string mark_before_end(const std::string& command) {
  constexpr const char* prepare[] = {"cd ", "export ", ". ", "source ", "set ", "unset ", "ulimit ", "module "};
  std::string rest = trimmed(without_quoted(command));
  for (size_t mark = 0; (mark = rest.find_first_of(";|&#\n")) != std::string::npos;) {
    const size_t bytes = rest.substr(mark).starts_with("&&") ? 2 : 1;
    const std::string then = trimmed(rest.substr(mark + bytes));
    const bool goes_on = (bytes == 2 || rest[mark] == ';' || rest[mark] == '\n') && !then.empty();
    if (!goes_on || std::ranges::none_of(prepare, [&](const char* word) { return rest.starts_with(word); })) {
      return rest.substr(mark, bytes);
    }
    rest = then;
  }
  return rest.find("sh -c ") == std::string::npos ? "" : "sh -c";
}

struct Typed {
  std::string title, text;  // text: of a piece, without its "+"
  bool adds = false;
};

Typed typed_from(const std::string& typed) {
  static const std::regex titled(R"(([^\s'"$=:/+-][^\n'"$=:/]{0,59}): +)");  // of a text's beginning: std::regex recurs
  if (files::valid_utf8(typed) != typed) {
    throw std::invalid_argument(fmt::format("command {}: is not UTF-8, which the study's files need",
                                            files::in_quotes(files::printable(typed))));
  }
  Typed command;
  std::string text = trimmed(typed);
  if (std::smatch match; std::regex_search(text, match, titled, std::regex_constants::match_continuous)) {
    command.title = trimmed(match[1]);
    text = trimmed(match.suffix());
  }
  command.adds = text.starts_with('+');
  if (command.adds) text = trimmed(text.substr(1));
  if (text.empty() || text.find('\0') != std::string::npos) {
    throw std::invalid_argument(fmt::format("command {}: there is nothing to run in it", files::in_quotes(typed)));
  }
  if (command.title.empty()) command.title = text;
  command.text = text;
  return command;
}

// A run's id is made of it.
std::string name_from(const std::string& title, std::set<std::string>& taken) {
  std::string name;
  for (const char c : title) {
    const bool is_kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
    if (is_kept) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
    if (name.size() == 40) break;
  }
  name.erase(0, name.find_first_not_of(".-"));
  while (!name.empty() && (name.back() == '-' || name.back() == '.')) name.pop_back();
  if (name.empty()) name = "command";
  const std::string first = name;
  for (int i = 2; !taken.insert(name).second; ++i) name = fmt::format("{}-{}", first, i);
  return name;
}

Rung rung_of(const Typed& typed, const std::string& text, std::set<std::string>& taken) {
  Rung rung;
  rung.title = typed.title;
  rung.name = name_from(typed.title, taken);
  rung.command = TypedCommand{.text = replaced(replaced(text, fmt::format(" {}", for_flags), ""), for_flags, ""),
                              .typed = (typed.adds ? "+ " : "") + typed.text,
                              .directory = "",
                              .trial = {}};
  return rung;
}

// The base with these pieces, in their order.
std::string with_pieces(const Typed& base, const std::vector<Typed>& pieces, auto is_on) {
  std::string text = base.text;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (is_on(i)) text = added_to(text, pieces[i].text);
  }
  return text;
}

// All but the cumulative mode: a base and pieces.
std::vector<Rung> subsets_of(const Typed& base, const std::vector<Typed>& pieces, Mode mode) {
  std::set<std::string> taken, taken_pieces;
  std::vector<std::string> names;
  for (const Typed& piece : pieces) names.push_back(name_from(piece.title, taken_pieces));
  std::vector<Rung> rungs{rung_of(base, base.text, taken)};
  const auto add = [&](const std::string& title, auto is_on) -> Rung& {
    Rung rung = rung_of({.title = title, .text = title, .adds = false}, with_pieces(base, pieces, is_on), taken);
    rung.command->typed = rung.command->text;
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (is_on(i)) rung.applied.push_back(names[i]);
    }
    rung.reference = 0;
    rungs.push_back(rung);
    return rungs.back();
  };
  if (mode == Mode::factorial) {
    if (pieces.size() > most_factors) {
      throw std::invalid_argument(
          fmt::format("--mode factorial: at most {} pieces with \"+\", got {}, which have {} "
                      "subsets",
                      most_factors, pieces.size(), size_t{1} << std::min<size_t>(pieces.size(), 30)));
    }
    for (size_t subset = 1; subset < size_t{1} << pieces.size(); ++subset) {
      std::vector<std::string> titles;
      for (size_t i = 0; i < pieces.size(); ++i) {
        if ((subset >> i & 1) != 0) titles.push_back(pieces[i].title);
      }
      Rung& rung = add(fmt::format("{}", fmt::join(titles, " + ")), [&](size_t i) { return (subset >> i & 1) != 0; });
      if (rung.applied.size() == 1) rung.optimization = rung.applied.front();
    }
    return rungs;
  }
  const bool leaves_out = mode == Mode::leave_one_out;
  if (leaves_out) add("everything on", [](size_t) { return true; });
  for (size_t piece = 0; piece < pieces.size(); ++piece) {
    Rung& rung =
        add((leaves_out ? "without " : "") + pieces[piece].title, [&](size_t i) { return (i == piece) != leaves_out; });
    rung.optimization = names[piece];
    rung.against = leaves_out ? 1 : 0;
  }
  return rungs;
}

}  // namespace

std::string added_to(const std::string& command, const std::string& piece) {
  size_t flags = 0;  // where they begin
  while (assigns(std::string_view(piece).substr(flags))) {
    flags = std::min(piece.find_first_not_of(" \t\n", end_of_word(piece, flags)), piece.size());
  }
  std::string text = command;
  if (const std::string added = piece.substr(flags); command.find(for_flags) != std::string::npos) {
    text = replaced(command, for_flags, trimmed(fmt::format("{} {}", added, for_flags)));
  } else if (!added.empty()) {
    if (const std::string mark = mark_before_end(command); !mark.empty()) {
      throw std::invalid_argument(
          fmt::format("+ {}: would stand behind {} in {}; write {} in that command where its flags go", added,
                      files::in_quotes(mark), files::in_quotes(command), for_flags));
    }
    text += " " + added;
  }
  if (flags == 0) return text;
  const size_t begin = end_of_exports(text);  // of two values of a variable the later one counts
  return fmt::format("{}export {}; {}", text.substr(0, begin), trimmed(piece.substr(0, flags)), text.substr(begin));
}

std::vector<Rung> rungs_of_commands(const std::vector<std::string>& typed, Mode mode) {
  std::vector<Typed> commands;
  for (const std::string& one : typed) commands.push_back(typed_from(one));
  if (commands.empty() || commands.front().adds) {
    throw std::invalid_argument("the first command must not begin with \"+\": there is nothing to add to");
  }
  if (mode != Mode::cumulative) {
    const std::vector<Typed> pieces(commands.begin() + 1, commands.end());
    if (pieces.empty() || !std::ranges::all_of(pieces, &Typed::adds)) {
      throw std::invalid_argument(
          fmt::format("--mode {}: needs one command and then only pieces with \"+\"", name_of(mode)));
    }
    return subsets_of(commands.front(), pieces, mode);
  }
  std::set<std::string> taken;
  std::vector<Rung> rungs;
  std::string text;
  for (const Typed& command : commands) {
    text = command.adds ? added_to(text, command.text) : command.text;
    Rung rung = rung_of(command, text, taken);
    if (!rungs.empty()) {
      if (command.adds) {
        rung.applied = rungs.back().applied;
        rung.optimization = rung.name;
        rung.applied.push_back(rung.name);
      } else {
        rung.against = 0;
      }
    }
    rungs.push_back(rung);
  }
  return rungs;
}

}  // namespace ablations
