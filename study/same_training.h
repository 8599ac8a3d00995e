// Whether two commands are the same training: their first steps beside each other, by sketches (client/look).
//
// How far rounding may take a gradient is measured. The first command's looks with random rounding errors
// (LADDER_LOOK_ROUNDING) are as far from its plain look as a correct program with that number type may be. Both are
// estimated from eight random sums. docs/same-training.md has how often the verdict is right.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/study.h"
#include "study/sketch.h"

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace study {

// The first command's looks with the type's rounding: so many.
constexpr int looks_with_rounding = 2;

// again: the first command's, with rounding. `type` names its number type. known: by which share gradients are known to
// differ beside rounding, as those of a padded vocabulary are.
SameTraining same_training(const Sketch& first, std::span<const Sketch> again, const Sketch& other,
                           const std::string& type, double known = 0);

// FOLDER/looks/NAME.TYPE-1.json, the look at a rung with rounding; `again` counts from 1.
std::filesystem::path rounding_file(const std::filesystem::path& folder, const Rung& rung, const NumberType& type,
                                    int again);

// A look with rounding that the comparison of a rung with its reference needs.
struct NeededLook {
  size_t rung = 0;  // the reference
  NumberType type;
  int again = 1;
};

// Of a rung and its reference; none where one of them has no sketch.
std::vector<NeededLook> needed_looks(const Plan& plan, size_t rung, const std::filesystem::path& folder);

// What the looks in a folder say of a rung beside its reference. None: one of them has no sketch.
std::optional<SameTraining> same_training_in(const std::filesystem::path& folder, const Plan& plan, size_t rung);

}  // namespace study
