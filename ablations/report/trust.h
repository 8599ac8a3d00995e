// Whether a study can be trusted: what its page says of its runs, proofs, guards, noise, disturbances and environment.
#pragma once

#include "ablations/documents/baseline.h"
#include "ablations/documents/study.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

enum class Mood { plain, good, warn, bad };
template <>
struct Names<Mood> {
  static constexpr std::array list{"", "good", "warn", "bad"};
};

struct Card {
  std::string what, value;
  Mood mood = Mood::plain;
  std::string words;  // with `code`; may be empty

  static void fields(auto&& field) {
    field("what", &Card::what);
    field("value", &Card::value);
    field("mood", &Card::mood);
    field("words", &Card::words);
  }
};

// What a report tells of a run, as far as trust depends on it.
struct WatchedRun {
  std::string id;
  size_t rung = 0;
  RunStatus status = RunStatus::ok;
  std::vector<std::string> flags;
  std::optional<std::vector<std::string>> first_flags;  // of its first record, where it was made again
  std::optional<double> processor_lost;
  files::Json conditions;

  static void fields(auto&& field) {
    field("id", &WatchedRun::id);
    field("rung", &WatchedRun::rung);
    field("status", &WatchedRun::status);
    field("flags", &WatchedRun::flags);
    field("first_flags", &WatchedRun::first_flags, None::absent);
    field("processor_lost", &WatchedRun::processor_lost);
    field("conditions", &WatchedRun::conditions);
  }
};

// `noise`: the floors measured under the study's circumstances.
std::vector<Card> trust_cards(const Study& study, const std::vector<WatchedRun>& runs, const std::vector<Noise>& noise);

// "2 of 35 runs were disturbed" or "no run was disturbed"; empty where nobody knows.
std::string disturbance_words(const Study& study, const std::vector<WatchedRun>& runs);

}  // namespace ablations
