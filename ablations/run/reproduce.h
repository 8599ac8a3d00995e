// Makes a record's run again: reads its options from the record, checks whether this is the same program, and compares
// the losses. Losses are float32 values that JSON holds with all their digits, so equal numbers are equal bits.
#pragma once

#include "ablations/run/workload.h"
#include "files/json_file.h"

#include <optional>
#include <string>
#include <vector>

namespace ablations {

// Everything but the files: data, vocabulary and tokens stay empty. Throws std::invalid_argument, `where` first, for a
// run that failed, a peer's, and a record that contradicts itself.
RunOptions options_of(const files::Json& record, const std::string& where);

struct ProgramComparison {
  std::vector<std::string> differences;  // "torch: 2.11.0 against 2.10.0"
  std::vector<std::string> unknown;      // why it is not known whether they are the same program
};

// Two environments of records, by what decides a loss's bits: commit, torch, compiler and its flags, MKL and oneDNN, on
// a GPU CUDA and cuDNN. What one of them does not say is passed over; an uncommitted change is unknown.
ProgramComparison compare_programs(const files::Json& environment, const files::Json& other, model::Device device);

struct Reproduction {
  bool identical = false;                   // every step's loss, to the bit
  std::optional<double> largest_deviation;  // nats per token; none where only one of two losses is finite
  size_t steps = 0;
  // Why losses may differ though nothing is wrong: another processor or GPU, or a recipe that is not deterministic on a
  // GPU. Empty: they must be identical.
  std::vector<std::string> excuses;
};

// `again` is a record of options_of(record).
Reproduction compare_losses(const files::Json& record, const files::Json& again);

files::Json to_json(const Reproduction& reproduction);

// One sentence: "losses of 7 steps: identical to the bit to those of `original`", the record's file.
std::string describe(const Reproduction& reproduction, const std::string& original);

}  // namespace ablations
