// The sentences of a report, made once: report.json holds them, and pages and Markdown place them.
#pragma once

#include "ablations/documents/study.h"
#include "ablations/report/how_to_read.h"
#include "ablations/report/trust.h"
#include "files/json_file.h"

#include <string>
#include <vector>

namespace ablations {

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
  std::string disturbance;    // empty: nobody knows
  std::string worth, memory;  // empty: its page has no worths, no parts of memory
  std::vector<Term> how_to_read;
  std::string command;  // that makes the study again

  static void fields(auto&& field) {
    field("headline", &StudyWords::headline);
    field("remarks", &StudyWords::remarks);
    field("rungs", &StudyWords::rungs);
    field("trust", &StudyWords::trust);
    field("disturbance", &StudyWords::disturbance);
    field("worth", &StudyWords::worth);
    field("memory", &StudyWords::memory);
    field("how_to_read", &StudyWords::how_to_read);
    field("command", &StudyWords::command);
  }
};

StudyWords words_of(const Study& study, const std::vector<WatchedRun>& runs, const std::vector<Noise>& noise);

// A report that was checked, with the words of each of its studies, in place of those that it had.
files::Json with_words(files::Json report);

}  // namespace ablations
