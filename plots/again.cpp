#include "plots/again.h"

#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <set>
#include <string_view>

namespace plots {

namespace {

using Words = std::vector<std::string>;

std::string command_line(Words words) {
  for (std::string& word : words) word = for_shell(word);
  return fmt::format("{}", fmt::join(words, " "));
}

void add(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

// Those of these names, with their values.
Words flags_named(const Words& flags, const std::set<std::string>& names) {
  Words chosen;
  bool is_chosen = false;
  for (const std::string& word : flags) {
    if (word.starts_with("--")) is_chosen = names.contains(word);
    if (is_chosen) chosen.push_back(word);
  }
  return chosen;
}

}  // namespace

std::string for_shell(const std::string& given) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_";
  const std::string word = files::printable(given);
  if (!word.empty() && word.find_first_not_of(letters) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\"'\"'" : std::string(1, c);
  return quoted + "'";
}

std::string command_again(const Study& study) {
  if (!study.typed) return "";
  Words words{"ladder", study.from_logs ? "read" : study.rungs.front().command ? "measure" : "ablate"};
  for (const std::string& word : study.typed->flags) {
    if (word != "--quick" || study.quick) words.push_back(word);  // the whole ladder followed
  }
  add(words, study.typed->arguments);
  return command_line(words);
}

std::string command_of_row(const Study& study, const StudyRung& rung) {
  if (!study.typed || !rung.command) return "";
  Words words{"ladder", "measure"};
  add(words, flags_named(study.typed->flags, {"--steps", "--warmup", "--metric", "--better", "--until", "--steps-from",
                                              "--tokens", "--hook", "--terminal", "--as-is"}));
  words.push_back(rung.command->text);  // with what --within puts around it
  return command_line(words);
}

std::string gate_command(const TypedLine& typed) {
  Words words{"ladder", "gate"};
  add(words, typed.flags);
  if (!typed.arguments.empty()) words.emplace_back("--");
  add(words, typed.arguments);
  return command_line(words);
}

std::string resume_command(const TypedLine& typed, const std::string& folder) {
  Words words{"ladder", "measure", "--resume", "--out", folder};
  add(words, flags_named(typed.flags, {"--within", "--look", "--no-look"}));  // a folder does not decide these
  add(words, typed.arguments);
  return command_line(words);
}

std::vector<std::string> commands_of_rung(const Study& study, const StudyRung& rung) {
  if (study.mode != Mode::cumulative || rung.peer || rung.command || !study.typed ||
      rung.status == RungStatus::not_applicable) {
    return {};
  }
  const std::set<std::string> of_step{"--ladder",        "--model", "--batch",  "--context",       "--positions",
                                      "--accumulation",  "--steps", "--warmup", "--seed",          "--threads",
                                      "--deterministic", "--data",  "--vocab",  "--random-windows"},
      of_text{"--repeat-to", "--cold-cache"};  // that `ladder profile` does not have
  const Words flags = flags_named(study.typed->flags, of_step);
  Words run{"ladder", "run"}, trace{"ladder", "profile", "--trace"};
  for (Words* words : {&run, &trace}) {
    add(*words, {"--rung", rung.optimization.value_or("start")});
    add(*words, flags);
  }
  add(run, flags_named(study.typed->flags, of_text));
  return {command_line(run), command_line(trace)};
}

}  // namespace plots
