// Two sides' records against each other, recipe by recipe: time, loss and memory of `head` over those of `base`.
// Whether the two may be compared at all is asked first.
#pragma once

#include "ablations/style.h"
#include "harness/json_file.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

// All good records of one recipe at one size, in the order in which they were made.
struct Arm {
  std::string label;  // "+ bf16 autocast"
  std::vector<harness::Json> records;
};

struct Side {
  std::string source;  // as the user named it
  std::vector<Arm> arms;
};

// Puts a record that ended well into the side's arm of that label and recipe. Throws std::invalid_argument for one that
// contradicts itself.
void add_record(Side& side, const std::string& label, const harness::Json& record);

// A record, a study's folder or its study.json, or any folder with records. Runs of peers and runs that failed are left
// out. Throws std::invalid_argument where no good record is left, or one cannot be read.
Side read_side(const std::filesystem::path& path);

struct CompareOptions {
  double min_effect = 0.02;  // the least ratio minus 1 that matters
  bool force = false;
};

// The comparison (results/schemas/comparison.v1.json). Arms are matched by recipe and size, then by recipe alone; where
// each side has one only, those two. Runs are paired in order, as many as both have. Throws std::invalid_argument where
// nothing matches, harness::Unfit where what was measured under different circumstances (setting.h) was matched and
// `force` is not given: with it they stand in the result under "forced".
harness::Json compare_sides(const Side& base, const Side& head, const CompareOptions& options);

// For a terminal, 80 columns; and for a page.
std::string comparison_table(const harness::Json& comparison, const Look& look = {});
std::string comparison_markdown(const harness::Json& comparison);

}  // namespace ablations
