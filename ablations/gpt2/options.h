// What a run is asked for, and what follows from it alone: its text, its threads, its work.
#pragma once

#include "model/config.h"
#include "model/data.h"
#include "model/recipe.h"
#include "results/common.h"
#include "results/record.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

struct RunOptions {
  std::string id = "run";
  std::string model = "gpt2-124m";
  int64_t B = 1, T = 256, accumulation = 1;
  std::optional<int64_t> ranks = {};  // that share each step, with B sequences of their own; none: one process
  int64_t positions = 0;              // of the model; 0: as many as it has
  int64_t warmup_steps = 5, timed_steps = 10;
  double least_window_s = 0;  // on a GPU so many timed steps more that they last as long (harness/clock/clock.h)
  uint64_t seed = 1;
  bool random_windows = false;             // each sequence begins anywhere
  int64_t threads = 0;                     // 0: one for each core it may use
  std::filesystem::path data, vocabulary;  // text or token file; needed for text only
  std::filesystem::path tokens;            // the token file made of data, which is then only named
  model::Marks marks = model::Marks::text;
  bool cold_cache = false;  // without the data in the page cache
  model::Recipe recipe;
  std::vector<std::string> applied;                 // names of the optimizations, for the record
  std::vector<ProductTiming> product_timings = {};  // that chose the recipe, for the record
};

model::Config config_of(const RunOptions& options);

// Throws std::invalid_argument if a timed step would not be representative. It would capture a graph, or get the memory
// that the process keeps.
void check_warmup(const model::Recipe& recipe, int64_t warmup_steps);

// The environment's number of ranks for a data parallel recipe; none for another. Throws std::invalid_argument if
// another recipe has several ranks, and as model::ranks_of_environment.
std::optional<int64_t> ranks_under(const model::Recipe& recipe);

// How many of the `threads` are busy at the same time. A step on a GPU is prepared by one: the main one, and autograd's
// for the backward pass.
int busy_threads(model::Device device, int threads);

// The run's tokens, in memory if its batches need that. Throws std::invalid_argument if the file cannot be read or the
// model's vocabulary lacks a token.
model::TokenStream tokens_of(const RunOptions& options);

// sha256, tokens: of the text.
Workload workload_of(const RunOptions& options, const std::string& sha256, int64_t tokens);

Work least_work_of(const RunOptions& options);

}  // namespace ablations
