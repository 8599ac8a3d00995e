// A comparison of two programs, or of two studies: remarks, and its table on a terminal and in Markdown.
#pragma once

#include "results/common.h"
#include "results/comparison.h"
#include "text/style.h"

#include <string>
#include <vector>

namespace plots {

// What the sides are called, and what begins a remark about circumstances that differ.
struct SideNames {
  const char *base, *head;
  const char* differs;
};

constexpr SideNames sides_of_programs{"base", "head", "FORCED: measured under different circumstances"};
constexpr SideNames sides_of_studies{"A", "B", "This compares two machines or settings, not two programs"};

// "head takes 1.28× base's time (95 %: 0.58× – 2.50×)"
std::string ratio_words(const ComparedRecipe& entry, const SideNames& names, double confidence);

// What makes the ratios doubtful, the worst first.
std::vector<Remark> remarks_of(const Comparison& comparison, const SideNames& names);

std::string comparison_table(const Comparison& comparison, const Look& look = {},
                             const SideNames& names = sides_of_programs);
std::string comparison_markdown(const Comparison& comparison);

}  // namespace plots
