// The sentences of a report, of a comparison, of a gate and of a training. They are made once, in ablations/report;
// pages, charts and Markdown only place them.
#pragma once

#include "ablations/documents/fields.h"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace ablations {

// What each chart shows, in one sentence: its title. By the chart's name; none where there is nothing to draw.
using Findings = std::map<std::string, std::string>;

// Whether a study or a gate can be trusted, in cards.
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

// What a word of the page means.
struct Term {
  std::string term, words;  // a sentence: it begins with the term and goes on with the words

  static void fields(auto&& field) {
    field("term", &Term::term);
    field("words", &Term::words);
  }
};

struct RungWords {
  std::string status;                 // in words
  std::string reason;                 // why it has no number; empty: it has one
  std::string guard;                  // empty: its losses were not compared
  std::vector<std::string> commands;  // that run it by itself

  static void fields(auto&& field) {
    field("status", &RungWords::status);
    field("reason", &RungWords::reason);
    field("guard", &RungWords::guard);
    field("commands", &RungWords::commands);
  }
};

struct StudyWords {
  std::string headline;
  std::vector<std::string> remarks;  // with `code`
  std::vector<RungWords> rungs;      // one for each of the study's
  std::vector<Card> trust;
  std::string disturbance;  // empty: nobody knows
  // Empty: its page has no worths, no parts of memory, no predictions, nothing about batches.
  std::string worth, memory, prediction, batches;
  std::vector<Term> how_to_read;
  std::string command;  // that makes the study again
  Findings findings;    // not in older reports

  static void fields(auto&& field) {
    field("headline", &StudyWords::headline);
    field("remarks", &StudyWords::remarks);
    field("rungs", &StudyWords::rungs);
    field("trust", &StudyWords::trust);
    field("disturbance", &StudyWords::disturbance);
    field("worth", &StudyWords::worth);
    field("memory", &StudyWords::memory);
    field("prediction", &StudyWords::prediction, None::default_absent);
    field("batches", &StudyWords::batches, None::default_absent);
    field("how_to_read", &StudyWords::how_to_read);
    field("command", &StudyWords::command);
    field("findings", &StudyWords::findings, None::defaulted);
  }
};

// What is to be known beside the figures of a compared recipe.
struct Remark {
  std::string what;  // in a word or two, for a chart: "disturbed"
  Mood mood = Mood::plain;
  std::string words;

  static void fields(auto&& field) {
    field("what", &Remark::what);
    field("mood", &Remark::mood);
    field("words", &Remark::words);
  }
};

struct ComparedWords {
  std::string verdict;             // of its time: "slower"
  std::vector<std::string> pairs;  // how the pairs of runs agree
  std::vector<Remark> remarks;

  static void fields(auto&& field) {
    field("verdict", &ComparedWords::verdict);
    field("pairs", &ComparedWords::pairs);
    field("remarks", &ComparedWords::remarks);
  }
};

struct ComparisonWords {
  std::string how;                       // the ratios were made, and which way they go
  std::vector<std::string> differences;  // of the circumstances, compared all the same
  std::vector<std::string> remarks;      // warnings, runs left out
  std::vector<std::string> notes;        // all that makes the ratios doubtful, short enough for a chart

  static void fields(auto&& field) {
    field("how", &ComparisonWords::how);
    field("differences", &ComparisonWords::differences);
    field("remarks", &ComparisonWords::remarks);
    field("notes", &ComparisonWords::notes);
  }
};

struct GateWords {
  Mood mood = Mood::plain;
  std::string meaning;  // of the verdict
  std::vector<Card> trust;
  Findings findings;
  // Not in older verdicts.
  std::string pairs;               // how to read the chart of the pairs; empty: there is none
  std::string pairs_note;          // below that chart; may be empty
  std::vector<std::string> noise;  // one for each calibration
  std::vector<Term> how_to_read;

  static void fields(auto&& field) {
    field("mood", &GateWords::mood);
    field("meaning", &GateWords::meaning);
    field("trust", &GateWords::trust);
    field("findings", &GateWords::findings);
    field("pairs", &GateWords::pairs, None::defaulted);
    field("pairs_note", &GateWords::pairs_note, None::defaulted);
    field("noise", &GateWords::noise, None::defaulted);
    field("how_to_read", &GateWords::how_to_read, None::defaulted);
  }
};

// Of a training, and of a sweep of learning rates.
struct TrainingWords {
  std::string headline;
  std::vector<std::string> remarks;  // with `code`
  std::vector<Card> cards;
  std::vector<Term> how_to_read;
  Findings findings;

  static void fields(auto&& field) {
    field("headline", &TrainingWords::headline);
    field("remarks", &TrainingWords::remarks);
    field("cards", &TrainingWords::cards);
    field("how_to_read", &TrainingWords::how_to_read);
    field("findings", &TrainingWords::findings);
  }
};

// Compiled once, in the source beside this.
extern template files::Json json_of(const StudyWords&);
extern template StudyWords value_from(const files::Json&, const std::string&);

}  // namespace ablations
