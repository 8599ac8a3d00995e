// Two sides' records against each other, recipe by recipe: time, loss and memory of `head` over those of `base`.
// Whether the two may be compared at all is asked first.
#pragma once

#include "harness/json_file.h"
#include "harness/verdict.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

// All good records of one recipe at one size, in the order in which they were made.
struct Arm {
  std::string label;  // "+ bf16 autocast"
  std::vector<harness::Json> records;
  std::vector<double> sessions;  // a baseline's: what its program took in each, the records' first; ms
};

struct Side {
  std::string source;  // as the user named it
  std::vector<Arm> arms;
  std::vector<std::string> left_out;  // "r1-03-bf16: autocast is not proven: ...": records that are no numbers
};

// Puts a record into the side's arm of that label and recipe, or among those that are left out. `rung`: the record's,
// as its study judged it (judge.h): where that has no number, none of its records is one, however good it is by itself.
// Throws std::invalid_argument for a record that contradicts itself.
void add_record(Side& side, const std::string& label, const harness::Json& record, const harness::Json& rung = {});

// A record, a study (StudyPlace in study_place.h), a baseline, or any folder with records. Runs of peers are not looked
// at. Throws std::invalid_argument for a gate's folder, where no number is left, or where a record cannot be read.
Side read_side(const std::filesystem::path& path);

struct CompareOptions {
  double min_effect = harness::usual_min_effect;
  bool force = false;
  bool interleaved = false;  // the two sides' runs were made in turn; else the comparison warns of it
};

inline constexpr const char* not_interleaved =
    "not interleaved: what changed on the machine between the two sides' runs is taken for the program's";

// The comparison (results/schemas/comparison.v1.json). Arms are matched by recipe and size, then by recipe alone; where
// each side has one only, those two. Runs are paired in order, as many as both have. Throws std::invalid_argument where
// nothing matches, harness::Unfit where records that were matched were measured under different circumstances
// (ablations/run/setting.h) and `force` is not given: with it they stand in the result under "forced".
harness::Json compare_sides(const Side& base, const Side& head, const CompareOptions& options);

}  // namespace ablations
