// One side of a comparison: its records with valid numbers, by recipe.
#pragma once

#include "results/record.h"
#include "results/study.h"

#include <filesystem>
#include <string>
#include <vector>

namespace study {

// All good records of one recipe at one size, in the order in which they were made.
struct Sample {
  std::string label;  // "+ bf16 autocast"
  std::vector<Record> records;
  std::vector<double> sessions;  // a baseline's: what its program took in each, the records' first; ms
};

struct Side {
  std::string source;  // as the user named it
  std::vector<Sample> samples;
  std::vector<std::string> left_out;  // "r1-03-bf16: autocast is not proven: ...": records that are no numbers
};

// Puts a record into the side's sample of that label and recipe, or among those that are left out. `rung`: the
// record's, as its study judged it (judge.h). Without a number of the rung, none of its records counts. Throws
// std::invalid_argument for a record that contradicts itself.
void add_record(Side& side, const std::string& label, const Record& record, const StudyRung* rung = nullptr);

// A record, a study (StudyPlace in study_files.h), a baseline, or any folder with records. Runs of peers are not looked
// at. Throws std::invalid_argument for a gate's folder, where no number is left, or where a record cannot be read.
Side read_side(const std::filesystem::path& path);

// recipe_hash of a record's recipe at its size (ablations/run/run_setting.h); of a command command_hash.
std::string recipe_hash_of(const Record& record);

}  // namespace study
