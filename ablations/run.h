// One run: a recipe, a fresh process, clean timing, one record. Timing first; observing starts after the last timed
// step. What is looked at meanwhile is the machine, from outside: a run that it disturbed is flagged.
#pragma once

#include "harness/json_file.h"
#include "model/recipe.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ablations {

struct RunOptions {
  std::string id = "run";
  std::string model = "gpt2-124m";
  int64_t B = 1, T = 256, accumulation = 1;
  int64_t positions = 0;  // of the model; 0: as many as it has
  int64_t warmup_steps = 5, timed_steps = 10;
  uint64_t seed = 1;
  int64_t threads = 0;                     // 0: one for each core
  std::filesystem::path data, vocabulary;  // text or token file; needed for text only
  std::filesystem::path tokens;            // the token file made of data, which is then only named
  model::Recipe recipe;
  std::vector<std::string> applied;  // names of the optimizations, for the record
};

// Throws std::invalid_argument for sizes out of range, before anything is allocated. Returns a record with status "ok",
// also where a proof failed: judging is the study's; or one with status "failed" and failure kind "out_of_memory",
// whose message says what was asked for and what was there. on_step: how many steps are done, of warm-up and timed ones
// together.
harness::Json execute_run(const RunOptions& options, const std::function<void(int64_t)>& on_step);

// A record for a run that left none. failure_kind: "signal", "timeout", "exit", "rubbish", "spawn", "out_of_memory".
harness::Json failed_record(const std::string& id, const std::string& failure_kind, const std::string& message,
                            double seconds);

}  // namespace ablations
