// What is said of a comparison, by the terminal, by Markdown and by the pages alike.
#pragma once

#include "ablations/documents/comparison.h"

#include <string>
#include <vector>

namespace ablations {

// What the sides of a comparison are called, and what begins a line about circumstances that differ.
struct SideNames {
  const char *base, *head;
  const char* article;  // before a name in a sentence, but not before that of a run: "first r1-02-flash"
  const char* differs;
};

constexpr SideNames sides_of_programs{"base", "head", "", "FORCED: measured under different circumstances"};
constexpr SideNames sides_of_studies{"first", "second", "the ", "Differs"};

// "median difference of the losses 0.0012 nats (limit 0.02)"
std::string losses_words(const ComparedLoss& loss);

// "2 of the runs were disturbed: base r1-02-flash throttled: ..."; empty: none was.
std::string disturbed_words(const ComparedRecipe& entry, const SideNames& names);

// "head took longer in 5 of 6 pairs"
std::string pairs_words(const ComparedRecipe& entry, const SideNames& names);

// Of a baseline: "base: the mean of 4 sessions"; empty: base's runs are from one.
std::string sessions_words(const ComparedRecipe& entry, const SideNames& names);

// "head/base, paired in order: ...", as a sentence.
std::string how_compared(const Comparison& comparison, const SideNames& names);

// A line for each circumstance that differs.
std::vector<std::string> difference_lines(const Comparison& comparison, const SideNames& names);

// A line for each side that has runs without a number.
std::vector<std::string> left_out_lines(const Comparison& comparison, const SideNames& names);

// The comparison with its words and those of its entries, in place of those that it had.
Comparison with_words(Comparison comparison, const SideNames& names);

}  // namespace ablations
