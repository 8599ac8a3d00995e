// The commands that measure and train: their flags, and what carries them out. `ladder-gpt2` has the bodies
// (cli/gpt2), which need PyTorch; in `ladder` each becomes that program. Each returns its exit status and throws
// std::invalid_argument for input that cannot be used.
#pragma once

#include "cli/flags.h"
#include "harness/stats/verdict.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cli {

struct DoctorFlags {
  bool json = false, peaks = false;
  std::string plan;        // a rung or a recipe, whose step's memory is asked for
  std::string ladder;      // whose rungs are shown, or that has the rung
  WorkloadFlags workload;  // its size
  int64_t memory = 0;      // bytes of another device
};
int doctor(const DoctorFlags& flags);

struct AblateFlags : StudyFlags {
  std::string out;
  int64_t budget_s = 0;
  bool resume = false, json = false, verbose = false;
  bool force = false;    // start although a run is expected to fail
  bool dry_run = false;  // only print what would be run
  bool explain = false;  // trace every rung, too, and say what changed
  ToLossFlags to_loss;
};
int ablate(const AblateFlags& flags);

// Whether the folder holds a study of --to-loss.
bool holds_to_loss(const std::string& folder);
// Whether the flags ask for, or the folder to resume holds, a study of --to-loss.
bool is_to_loss(const AblateFlags& flags);

struct RunFlags : StepFlags {
  std::string record;
  bool json = false, verbose = false;
  bool report_steps = false;  // to file descriptor 3, for the runner
  std::string time_against;   // a recipe: only time its operation beside this recipe's (timed_here.h)
};
int run(const RunFlags& flags);

struct ProfileFlags {
  StepFlags step;  // what to profile
  bool trace = false, counters = false, list_metrics = false, json = false;
  bool roofline = false;          // of the trace
  std::vector<std::string> diff;  // one rung, two rungs, or two files with traces
  std::string metrics, chip;
  int64_t max_passes = 16;
  std::string out;

  // --diff names two files of traces, not rungs.
  [[nodiscard]] bool compares_files() const {
    return diff.size() == 2 && diff[0].ends_with(".json") && diff[1].ends_with(".json");
  }
};
int profile(const ProfileFlags& flags);

constexpr const char* usual_baselines = "results/baselines";  // of a gate of ladder programs

struct GateFlags {
  WorkloadFlags workload;
  std::string base, head;  // a bundle's folder or a program; head empty: this program
  std::string baselines;   // compared with if base is empty, and saved into
  std::string ladder, out;
  std::vector<std::string> rungs;  // empty: the last that applies here
  double min_effect = harness::usual_min_effect;
  int64_t pairs = 0;    // 0: 8, or 16 to calibrate
  int64_t top_up = -1;  // more pairs if those are inconclusive; -1: as many again
  int64_t limit_s = 900;
  bool calibrate = false;  // head against itself: what this machine can show
  bool save = false;       // store what was measured as the new baseline or noise floor
  bool blocked = false;    // all of base's runs, then all of head's
  bool force = false, resume = false, json = false;
  bool wait = false;  // until no other ladder measures on the device

  std::vector<std::string> command;  // of any program, after "--": then base and head are commits
  std::string prepare;               // for sh, once in each commit's worktree
  std::string steps_from;
  double catches = 0;  // the slowdown that 95 % of gates are to find; 0: min_effect says what matters
  int64_t budget_s = 0, tokens = 0;
};
int gate_of_commits(const GateFlags& flags);
int gate(const GateFlags& flags);

struct TrainFlags : TrainingFlags {
  std::string lr_sweep;  // "1e-5:1e-1:9": a training for each of these rates instead
  std::string save;
  int64_t log_every = 0;
  bool is_child = false;  // of a runner, with which it ends
};
int train(const TrainFlags& flags);

struct SampleFlags {
  std::string weights, prompt, vocabulary;
  int64_t tokens = 200, count = 1;
  double temperature = 1, top_p = 1;  // model/sampler.h
  int64_t top_k = 0;
  int64_t seed = 1, threads = 0;
  bool ignore_eos = false, end_of_text = false, json = false;
};
int sample(const SampleFlags& flags);

// `ladder ablate --to-loss` trains each rung with each seed, and compares time to a loss, and quality. Returns the exit
// status: 1 if a training failed or diverged, 130 if interrupted.
int to_loss(const ToLossFlags& flags);

// `ladder train --lr-sweep` trains once for each rate of "1e-5:1e-1:9", and says which are too low, good and too high.
// Returns the exit status: 1 if all diverged, 130 if interrupted.
int lr_sweep(const TrainingFlags& flags, const std::string& range);

}  // namespace cli
