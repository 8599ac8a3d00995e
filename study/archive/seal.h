// A study's seal: the SHA-256 of its plan, records and traces in study.json, and of study.json itself. Hashes show that
// something changed. They do not show who changed it. Somebody may edit a record and compute the study again; its
// numbers then follow from its records. So nothing here seals an edited record without being asked.
#pragma once

#include "ablations/plan/make_plan.h"
#include "files/json_file.h"
#include "results/study.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace study {

// Something that is not as it must be.
struct Finding {
  std::string file;    // within the study's folder
  std::string field;   // JSON pointer; empty: the file as a whole
  std::string stored;  // JSON, or words
  std::string expected;
};

// What is hashed of a JSON value: compact, in ASCII.
std::string dumped(const files::Json& value);

// {relative path: SHA-256}: plan.json, records/*.json, traces/*.trace.json, as they are now.
std::map<std::string, std::string> hashes_of(const std::filesystem::path& folder);

// The hash of a study.json's dump without its own hash.
std::string own_sha256(files::Json study);

// The study with its `hashes` and its own `sha256`. Throws std::invalid_argument for a file that cannot be read.
Study sealed(Study study, const std::filesystem::path& folder);

// Files that are gone, new or changed since a study was sealed; `then` and `now`: SHA-256 by file.
std::vector<Finding> changed_files(const std::map<std::string, std::string>& then,
                                   const std::map<std::string, std::string>& now);

// Compares with the hashes in a folder's study.json. Passes over what resuming a study changes: new files, and records
// that replace failed or disturbed ones. Empty if study.json cannot be read.
std::vector<Finding> edits_since(const Plan& plan, const std::filesystem::path& folder);

// Whether an existing record is among such edits. Then study.json must stay, because it shows the edit.
bool has_edited_records(const std::vector<Finding>& edits, const std::filesystem::path& folder);

// Throws std::invalid_argument if a good record of the plan was edited. A new study.json would make it look measured.
void check_not_edited(const Plan& plan, const std::filesystem::path& folder);

}  // namespace study
