// Whether a study is what its records say: every number and text of study.json computed again from the plan, the
// records and the traces, every record's own derived values from its steps, and every file against the SHA-256 that
// study.json gives for it. Hashes show that something changed, not who changed it: whoever edits a record and then
// analyses anew has made another study, whose numbers follow from its records.
#pragma once

#include "ablations/plan/plan.h"
#include "harness/json_file.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ablations {

// Something that is not as it must be.
struct Finding {
  std::string file;    // within the study's folder
  std::string field;   // JSON pointer; empty: the file as a whole
  std::string stored;  // JSON, or words
  std::string expected;
};

// The study with `hashes` (of plan.json and of every record and trace in the folder) and its own `sha256`: of its
// compact dump without that field. Throws std::invalid_argument for a file that cannot be read.
harness::Json sealed(harness::Json study, const std::filesystem::path& folder);

// {relative path: SHA-256}: plan.json, records/*.json, traces/*.trace.json, as they are now.
std::map<std::string, std::string> hashes_of(const std::filesystem::path& folder);

// Files that are gone, new or changed since the study was sealed. None for a study without hashes.
std::vector<Finding> changed_files(const harness::Json& study, const std::map<std::string, std::string>& now);

// The same of a folder's study.json; none where it cannot be read.
std::vector<Finding> changes_since(const std::filesystem::path& folder);

// Whether a record is another one than the study was made from: its study.json bears witness to that and must stay.
bool has_edited_records(const std::vector<Finding>& changes, const std::filesystem::path& folder);

// Throws std::invalid_argument where a good record of the plan is another one than study.json was made from: a new
// study.json would have what was edited pass for measured. New records, and those that --resume made in place of a
// failed or disturbed one, are no edits.
void check_not_edited(const Plan& plan, const std::filesystem::path& folder);

// What study.json must say. Throws std::invalid_argument for a plan, record or trace that cannot be read.
struct Recomputed {
  harness::Json study;                        // without hashes
  std::map<std::string, std::string> hashes;  // of the files as they are now
  std::vector<Finding> findings;              // in records, by themselves and against the plan
  std::vector<std::string> unchecked;         // in words
  size_t records = 0;
};

// `stored`: the study.json, for the environment of a study that has no records.
Recomputed recompute(const std::filesystem::path& folder, const harness::Json& stored);

// Where study.json differs from what it must say. A study from before hashes may lack fields that are computed today.
std::vector<Finding> compare(const harness::Json& study, const Recomputed& recomputed);

struct Verification {
  std::vector<Finding> findings;
  std::vector<std::string> unchecked;  // in words
  bool sealed = false;                 // study.json has hashes
  std::string made_by;                 // the program's commit, where it is another one than this
  size_t records = 0, files = 0, values = 0;
};

// The whole of it. Throws std::invalid_argument for a folder without plan.json or study.json; what is there and cannot
// be read is a finding.
Verification verify_study(const std::filesystem::path& folder);

}  // namespace ablations
