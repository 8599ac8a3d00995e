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

// Below each chart: what it leaves out, and what stands behind its marks. By the chart's name.
using ChartNotes = std::map<std::string, std::vector<std::string>>;

// What a chart is of.
struct Origin {
  std::string subject;   // before its title: "Training GPT-2 124M on an AMD EPYC (2 threads)"
  std::string source;    // at its foot: what was measured, where and when
  std::string warnings;  // at its foot, by name; may be empty

  bool operator==(const Origin&) const = default;

  static void fields(auto&& field) {
    field("subject", &Origin::subject);
    field("source", &Origin::source);
    field("warnings", &Origin::warnings);
  }
};

struct RungWords {
  std::string status;                     // in words
  std::string reason;                     // why it has no number; empty: it has one
  std::string figures;                    // what stands behind its number; empty: it has none
  std::string clock;                      // "1,785 of 1,980 MHz" at the power limit; empty: not there
  std::vector<std::string> disturbances;  // of its runs
  std::vector<size_t> proofs;             // places of those that are about it
  std::string other_proofs;               // of the others; empty: there are none
  std::string guard;                      // empty: its losses were not compared
  std::vector<std::string> commands;      // that run it by itself
  std::string compiling;                  // how long a peer's compiling took; empty: it compiles nothing

  static void fields(auto&& field) {
    field("status", &RungWords::status);
    field("reason", &RungWords::reason);
    field("figures", &RungWords::figures, None::defaulted);
    field("clock", &RungWords::clock, None::defaulted);
    field("disturbances", &RungWords::disturbances, None::defaulted);
    field("proofs", &RungWords::proofs, None::defaulted);
    field("other_proofs", &RungWords::other_proofs, None::defaulted);
    field("guard", &RungWords::guard);
    field("commands", &RungWords::commands);
    field("compiling", &RungWords::compiling, None::default_absent);
  }
};

// The fields that older reports do not have are `defaulted`. Their pages are not drawn, but they are read.
struct StudyWords {
  std::string headline;
  std::string evidence;  // what stands behind a speedup in the headline: its interval, its pairs; empty: it has none
  std::string change;    // from which time to which, of which rungs; empty as `evidence`
  std::string remedy;    // what to do about a study that is not usable; empty: it is
  std::string measured;  // what, on which device, and when
  Origin origin;
  std::vector<std::string> remarks;  // with `code`
  std::vector<RungWords> rungs;      // one for each of the study's
  std::vector<Card> trust;
  std::string disturbance;                     // empty: nobody knows
  std::string vs_previous, vs_first;           // heads of the columns of speedups; empty: there is no such column
  std::string runs;                            // what a rung's number is of: "median of 5 runs"
  std::string ranges;                          // what the intervals are
  std::map<std::string, std::string> methods;  // of its worths: by its name, in words
  std::vector<std::string> mfu;                // how it is computed, or why there is none; empty: an older study
  // Empty: its page has no worths, no parts of memory, no predictions, no other program, nothing about batches.
  std::string worth, memory, prediction, peers, batches;
  std::vector<Term> how_to_read;
  std::string plan;     // what was planned, before the command
  std::string command;  // that makes the study again
  Findings findings;
  ChartNotes chart_notes;

  static void fields(auto&& field) {
    field("headline", &StudyWords::headline);
    field("evidence", &StudyWords::evidence, None::defaulted);
    field("change", &StudyWords::change, None::defaulted);
    field("remedy", &StudyWords::remedy, None::default_absent);
    field("measured", &StudyWords::measured, None::defaulted);
    field("origin", &StudyWords::origin, None::defaulted);
    field("remarks", &StudyWords::remarks);
    field("rungs", &StudyWords::rungs);
    field("trust", &StudyWords::trust);
    field("disturbance", &StudyWords::disturbance);
    field("vs_previous", &StudyWords::vs_previous, None::defaulted);
    field("vs_first", &StudyWords::vs_first, None::defaulted);
    field("runs", &StudyWords::runs, None::defaulted);
    field("ranges", &StudyWords::ranges, None::defaulted);
    field("methods", &StudyWords::methods, None::defaulted);
    field("mfu", &StudyWords::mfu, None::defaulted);
    field("worth", &StudyWords::worth);
    field("memory", &StudyWords::memory);
    field("prediction", &StudyWords::prediction, None::default_absent);
    field("peers", &StudyWords::peers, None::default_absent);
    field("batches", &StudyWords::batches, None::default_absent);
    field("how_to_read", &StudyWords::how_to_read);
    field("plan", &StudyWords::plan, None::defaulted);
    field("command", &StudyWords::command);
    field("findings", &StudyWords::findings, None::defaulted);
    field("chart_notes", &StudyWords::chart_notes, None::defaulted);
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
  Origin origin;
  std::string pairs;               // how to read the chart of the pairs; empty: there is none
  std::string pairs_note;          // below that chart; may be empty
  std::vector<std::string> noise;  // one for each calibration
  std::vector<Term> how_to_read;

  static void fields(auto&& field) {
    field("mood", &GateWords::mood);
    field("meaning", &GateWords::meaning);
    field("trust", &GateWords::trust);
    field("findings", &GateWords::findings);
    field("origin", &GateWords::origin, None::defaulted);
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
  Origin origin;  // not in older documents

  static void fields(auto&& field) {
    field("headline", &TrainingWords::headline);
    field("remarks", &TrainingWords::remarks);
    field("cards", &TrainingWords::cards);
    field("how_to_read", &TrainingWords::how_to_read);
    field("findings", &TrainingWords::findings);
    field("origin", &TrainingWords::origin, None::default_absent);
  }
};

// Compiled once, in the source beside this.
extern template files::Json json_of(const StudyWords&);
extern template StudyWords value_from(const files::Json&, const std::string&);

}  // namespace ablations
