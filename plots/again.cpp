#include "plots/again.h"

#include "files/json_file.h"
#include "files/printable.h"
#include "model/config.h"
#include "plots/sentences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace plots {

using files::field_or_null;
using files::Json;

namespace {

using Words = std::vector<std::string>;

std::string command_line(Words words) {
  for (std::string& word : words) word = for_shell(word);
  return fmt::format("{}", fmt::join(words, " "));
}

void add(Words& words, Words more) { std::ranges::move(more, std::back_inserter(words)); }

// Each once, in their order.
void add_once(Words& words, const std::string& word) {
  if (std::ranges::find(words, word) == words.end()) words.push_back(word);
}

// How many a model has by itself.
int64_t positions_of(const std::string& name) {
  const auto names = model::preset_names();
  if (std::ranges::find(names, name) == names.end()) return std::numeric_limits<int64_t>::max();
  return model::preset(name).n_positions;
}

// Of the cache and of a bundle: what every command takes without --data.
bool is_usual_text(const std::string& source) { return source == "shakespeare.txt" || source == "shakespeare.bin"; }

bool is_deterministic(const Study& study) {
  const auto is_set = [](const StudyRung& rung) { return field_or_null(rung.recipe, "deterministic") == true; };
  return !study.rungs.empty() && std::ranges::all_of(study.rungs, is_set);
}

// A ladder of one's own is known by its file only.
Words ladder_flags(const Study& study) { return {"--ladder", study.ladder.file.value_or(study.ladder.name)}; }

// What makes any command measure the study's sizes, whatever the ladder's own are.
Words workload_flags(const Study& study) {
  const Workload& workload = study.workload;
  Words flags{"--model", workload.model};
  if (study.swept != Swept::batch) add(flags, {"-B", std::to_string(workload.B)});
  if (study.swept != Swept::context) add(flags, {"-T", std::to_string(workload.T)});
  if (study.swept != Swept::accumulation && workload.accumulation != 1) {
    add(flags, {"--accumulation", std::to_string(workload.accumulation)});
  }
  if (study.swept != Swept::context && workload.positions > positions_of(workload.model)) {
    add(flags, {"--positions", std::to_string(workload.positions)});
  }
  if (workload.seed != 1) add(flags, {"--seed", std::to_string(workload.seed)});
  add(flags, {"--warmup", std::to_string(study.plan.warmup_steps)});
  if (study.plan.least_window_s == 0) add(flags, {"--steps", std::to_string(study.plan.timed_steps)});
  const std::optional<int64_t> threads = study.environment.threads;
  if (study.device.kind == model::Device::cpu && threads && *threads != 0 &&
      threads != study.environment.cpu.logical_cores) {
    add(flags, {"--threads", std::to_string(*threads)});
  }
  const std::string& source = study.plan.repeated ? study.plan.repeated->source : workload.data.source;
  if (!source.empty() && !is_usual_text(source)) add(flags, {"--data", source});
  if (is_deterministic(study)) flags.emplace_back("--deterministic");
  return flags;
}

// What `ladder ablate` and `ladder run` do to the text; `ladder profile` does not.
Words text_flags(const Study& study) {
  Words flags;
  if (study.plan.repeated) add(flags, {"--repeat-to", std::to_string(study.plan.repeated->bytes)});
  if (study.plan.cold_cache) flags.emplace_back("--cold-cache");
  return flags;
}

std::string flag_name(const StudyRung& rung) { return rung.optimization.value_or("start"); }

// Whether PyTorch ran beside this rung because a flag asked for that.
bool has_chosen_peer(const Study& study, const StudyRung& rung) {
  const auto peers = rung.peers.value_or(std::vector<PeerRatio>{});
  const auto is_compiled = [&](const PeerRatio& peer) { return study.rungs[peer.rung].peer != "pytorch-eager"; };
  const Json execution = field_or_null(rung.recipe, "execution");
  const bool is_eager = execution.is_null() || execution == "eager";
  return std::ranges::any_of(peers, is_compiled) || (!peers.empty() && !is_eager);
}

// Empty where it is the last rung alone, as without the flag.
Words peer_rung_flags(const Study& study) {
  std::vector<const StudyRung*> chosen;
  const StudyRung* last = nullptr;
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer || is_left_out(rung)) continue;
    last = &rung;
    if (has_chosen_peer(study, rung)) chosen.push_back(&rung);
  }
  if (chosen.size() == 1 && chosen.front() == last) return {};
  Words flags;
  for (const StudyRung* rung : chosen) add(flags, {"--peer-rung", flag_name(*rung)});
  return flags;
}

Words peer_flags(const Study& study) {
  Words modes;
  for (const StudyRung& rung : study.rungs) {
    if (!rung.peer) continue;
    constexpr std::string_view prefix = "pytorch-";
    add_once(modes, rung.peer->starts_with(prefix) ? rung.peer->substr(prefix.size()) : *rung.peer);
  }
  if (modes.empty()) return {};
  Words flags{"--with-peer", "pytorch", "--peer-modes", fmt::format("{}", fmt::join(modes, ","))};
  if (study.mode == Mode::cumulative) add(flags, peer_rung_flags(study));
  return flags;
}

Words mode_flags(const Study& study) {
  if (study.swept) {
    Words sizes, names, flags;
    for (const StudyRung& rung : study.rungs) {
      add_once(sizes, std::to_string(swept_size(*study.swept, rung)));
      if (!rung.peer) add_once(names, flag_name(rung));
    }
    flags = {"--sweep", fmt::format("{}={}", name_of(*study.swept), fmt::join(sizes, ","))};
    for (const std::string& name : names) add(flags, {"--rung", name});
    return flags;
  }
  if (study.mode == Mode::cumulative) return {};
  Words flags{"--mode", name_of(study.mode)};
  if (study.mode == Mode::factorial) {
    Words factors;
    for (const Worth& worth : study.attribution) add_once(factors, worth.optimization);
    add(flags, {"--factors", fmt::format("{}", fmt::join(factors, ","))});
  }
  return flags;
}

// The commands as they were typed. In other modes than the cumulative one the rungs with one piece have it.
std::string measured_again(const Study& study, const std::string& resumed) {
  Words words{"ladder", "measure"};
  if (study.mode != Mode::cumulative && resumed.empty()) add(words, {"--mode", name_of(study.mode)});
  add(words, !resumed.empty()
                 ? Words{"--resume", "--out", resumed}
                 : Words{"--repeats", std::to_string(study.plan.repeats), "--steps",
                         std::to_string(study.plan.timed_steps), "--warmup", std::to_string(study.plan.warmup_steps)});
  const std::string left_out = "without ";
  for (const StudyRung& rung : study.rungs) {
    const bool is_first = rung.index == 0;
    if (study.mode != Mode::cumulative && !is_first && !rung.optimization) continue;
    const std::string& typed = rung.command->typed;
    if (study.mode == Mode::cumulative || is_first) {
      const std::string bare = typed.starts_with("+ ") ? typed.substr(2) : typed;
      words.push_back((bare == rung.title ? "" : rung.title + ": ") + typed);
    } else {
      words.push_back("+ " + (rung.title.starts_with(left_out) ? rung.title.substr(left_out.size()) : rung.title));
    }
  }
  return command_line(words);
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

std::string command_again(const Study& study, const std::string& resumed) {
  if (study.rungs.front().command) return measured_again(study, resumed);
  Words words{"ladder", "ablate"};
  add(words, ladder_flags(study));
  add(words, mode_flags(study));
  add(words, peer_flags(study));
  add(words, workload_flags(study));
  add(words, text_flags(study));
  add(words, study.quick ? Words{"--quick"} : Words{"--repeats", std::to_string(study.plan.repeats)});
  add(words, {"--order-seed", std::to_string(study.plan.order_seed)});
  return command_line(words);
}

std::vector<std::string> commands_of_rung(const Study& study, const StudyRung& rung) {
  if (study.mode != Mode::cumulative || rung.peer || rung.command || rung.status == RungStatus::not_applicable)
    return {};
  std::vector<std::string> commands;
  for (const Words& begin : {Words{"ladder", "run"}, Words{"ladder", "profile", "--trace"}}) {
    Words words = begin;
    add(words, ladder_flags(study));
    add(words, {"--rung", flag_name(rung)});
    add(words, workload_flags(study));
    if (begin[1] == "run") add(words, text_flags(study));
    commands.push_back(command_line(words));
  }
  return commands;
}

}  // namespace plots
