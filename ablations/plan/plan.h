// The plan of a study: which recipes, which runs, in which order. Written before the first run and never changed; a
// study is resumed by reading it again.
#pragma once

#include "ablations/plan/ladder.h"
#include "ablations/plan/modes.h"
#include "harness/stats/verdict.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

struct PlannedRun {
  std::string id;  // "r2-03-bf16": repeat 2, rung 3 (run_of)
  size_t rung;
  int64_t repeat;
};

// What a gate declares before its first run.
struct GateTerms {
  double min_effect = harness::usual_min_effect;
  int64_t top_up = 0;     // of the plan's repeats, so many come only if the others leave it open
  std::string baselines;  // the folder with baselines and noise floors
  bool calibrates = false, saves = false, force = false;
};

// That a plan is a quick look at a ladder, and what goes on from it (quick.h).
struct Quick {
  int64_t repeats;               // of the whole ladder's plan
  std::vector<size_t> left_out;  // rungs
};

// A part of a plan (shard.h).
struct Shard {
  int64_t index, count;  // 1 <= index <= count
};

struct Plan {
  std::string id, created;  // created: UTC, ISO 8601; empty where several machines make the same plan
  std::string ladder_name, ladder_title;
  std::string ladder_file = {};  // its name, where the ladder does not come with the program
  std::string model;
  int64_t B = 1, T = 1, accumulation = 1;
  int64_t positions = 0;  // of the model; 0: as many as it has
  uint64_t seed = 1;
  int64_t threads = 1;
  std::string data, vocabulary;  // files
  std::string tokens;            // the token file made of them, which the runs read
  int64_t warmup_steps = 0, timed_steps = 1, repeats = 1;
  uint64_t order_seed = 0;
  double run_limit_s = 600;
  std::vector<Rung> rungs;
  size_t reference = 0;
  std::vector<PlannedRun> runs;  // in the order in which they are made
  Mode mode = Mode::cumulative;
  std::string swept = {};           // in a sweep: "batch", "context" or "accumulation"
  std::optional<Shard> shard = {};  // the part that is made in this folder; none: all of it
  std::optional<GateTerms> gate = {};
  std::optional<Quick> quick = {};
};

// The size of the plan's and of a rung's steps, and the rung that guards it: of its own, else the plan's. Only a
// cumulative ladder has a reference for every rung; none for the reference itself.
Shape shape_of(const Plan& plan);
Shape shape_of(const Plan& plan, size_t rung);
std::optional<size_t> reference_of(const Plan& plan, size_t rung);

// "+ flash attention" where the rung adds to others. `title`: the rung's, or what its proof has made of it.
std::string label_of(const Plan& plan, size_t rung, const std::string& title);

// A rung's run in a repeat, with its id.
PlannedRun run_of(const std::vector<Rung>& rungs, size_t rung, int64_t repeat);

// Every repeat measures every planned rung once. Orders are rows of a Williams design (Williams 1949), rungs and rows
// shuffled with order_seed, and after each row its mirror image: over every two repeats all rungs have the same mean
// place, so that linear drift cancels; over 2n of them (n for even n) every rung comes equally often at every place and
// after every other one.
std::vector<PlannedRun> interleave(const std::vector<Rung>& rungs, int64_t repeats, uint64_t order_seed);

// Whether a planned rung is on a GPU: that is the study's device, then.
bool uses_cuda(const Plan& plan);

}  // namespace ablations
