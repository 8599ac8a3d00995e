// Checks that a study follows from its records. Computes every number and text of study.json again from the plan, the
// records and the traces. Computes the derived values of each record from its steps. Compares every file with its
// SHA-256 in study.json (study/archive/seal.h).
#pragma once

#include "files/json_file.h"
#include "study/archive/seal.h"

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace study {

// Parts of a good record that follow from its recipe and observations, by their names in it: "proofs". `where` begins
// the message of std::invalid_argument. Null: this program cannot compute them.
using ComputeAgain = std::function<files::Json(const Record& record, const std::string& where, bool is_this_program)>;

// What study.json must say. Throws std::invalid_argument for a plan, record or trace that cannot be read.
struct Recomputed {
  files::Json study;                          // without hashes
  std::map<std::string, std::string> hashes;  // of the files as they are now
  std::vector<Finding> findings;              // in records, by themselves and against the plan
  std::vector<std::string> unchecked;         // in words
  size_t records = 0;
};

// `stored`: the study.json, for the environment of a study that has no records.
Recomputed recompute(const std::filesystem::path& folder, const Study& stored, const ComputeAgain& compute_again);

// Where study.json differs from what it must say.
std::vector<Finding> compare_study(const files::Json& study, const Recomputed& recomputed);

struct Verification {
  std::vector<Finding> findings;
  std::vector<std::string> unchecked;  // in words
  std::string made_by;                 // the program's commit, where it is another one than this
  size_t records = 0, files = 0, values = 0;
};

// The whole of it. Throws std::invalid_argument for a folder without plan.json or study.json; what is there and cannot
// be read is a finding.
Verification verify_study(const std::filesystem::path& folder, const ComputeAgain& compute_again);

}  // namespace study
