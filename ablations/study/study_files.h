// A study with what its folder holds, for a report. The surprising thing: a study without its plan is shown as its
// study.json says, its records only for what nothing else holds: every step's time and loss. Those that contradict it
// are left out.
#pragma once

#include "ablations/plan/plan.h"
#include "harness/json_file.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

struct StudyFiles {
  std::string source;  // the last part of its name, printable
  bool computed_again;
  harness::Json study;
  std::vector<harness::Json> records;  // one for each of the study's runs; null: none that ended well
  std::vector<harness::Json> traces;
  std::vector<std::string> notes;
};

// The study computed from the records in its folder, sealed. Writes nothing. Throws std::invalid_argument for a record
// or a trace that cannot be read.
StudyFiles computed_study(const Plan& plan, const std::filesystem::path& folder);

// FOLDER with study.json, records/ and traces/, or NAME.study.json with NAME.records.jsonl beside it, a record, a
// trace or counters on each line: the study as it stands. Throws std::invalid_argument for a file that cannot be read,
// or a study that contradicts itself.
StudyFiles stored_study(const std::filesystem::path& path);

// Throws std::invalid_argument for a study whose rungs and runs refer to what it does not have; `where` begins the
// message. What a schema cannot say.
void check_study(const harness::Json& study, const std::string& where);

// Fills in what studies from before these fields lack: the mode, an empty attribution, labels, and which rung a guard
// compares with (the first that counts and has no guard itself). What reads a study afterwards needs no second way.
void complete_study(harness::Json& study);

// The last part of a path, printable: what a page may say of where something was.
std::string last_part(const std::filesystem::path& path);

}  // namespace ablations
