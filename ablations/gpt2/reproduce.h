// Makes a record's run again. Reads its options from the record, checks the program, and compares the losses. Losses
// are float32 values that JSON holds with all their digits, so equal numbers are equal bits.
#pragma once

#include "ablations/gpt2/options.h"
#include "results/record.h"

#include <string>
#include <vector>

namespace ablations {

// Everything but the files: data, vocabulary and tokens stay empty. Throws std::invalid_argument, `where` first, for a
// run that failed, a peer's, and a record that contradicts itself.
RunOptions options_of(const Record& record, const std::string& where);

// What a good record of ours must say of its sizes ("workload"), computed again. If it is of this program, what follows
// from its recipe and observations, too: "least_work", "proofs". Throws as options_of.
files::Json computed_again(const Record& record, const std::string& where, bool is_this_program);

struct ProgramComparison {
  std::vector<std::string> differences;  // "torch: 2.11.0 against 2.10.0"
  std::vector<std::string> unknown;      // why it is not known whether they are the same program
};

// Compares what decides a loss's bits: commit, torch, compiler, flags, MKL and oneDNN; on a GPU CUDA and cuDNN. Passes
// over what one environment does not say. An uncommitted change is unknown.
ProgramComparison compare_programs(const Environment& environment, const Environment& other, bool cuda);

// `again` is a record of options_of(record). Several CPU threads may add in another order. They excuse a difference
// that the guard allows; one thread excuses nothing.
Reproduction compare_losses(const Record& record, const Record& again);

// One sentence: "losses of 7 steps: identical to the bit to those of `original`", the record's file.
std::string describe(const Reproduction& reproduction, const std::string& original);

}  // namespace ablations
