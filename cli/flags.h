// The command line's flags, command by command, as they were given.
#pragma once

#include "ablations/plan/modes.h"
#include "harness/stats/verdict.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ablations {

// Flags that several commands share. Zero, negative or empty: not given.
struct WorkloadFlags {
  std::string model;
  int64_t B = 0, T = 0, accumulation = 0, positions = 0;
  int64_t steps = 0, warmup = -1;
  int64_t seed = 1;
  int64_t threads = 0;
  std::string data, vocabulary;
  int64_t repeat_to = 0;       // bytes of text, from whole copies of it
  bool deterministic = false;  // on every rung
  bool cold_cache = false;     // each run begins without its data in the page cache
  bool end_of_text = false;    // "<|endoftext|>" in a text is that token
};

struct DoctorFlags {
  bool json = false, peaks = false;
  std::string plan;        // a rung or a recipe: how much memory does its step take?
  std::string ladder;      // whose rungs are shown, or that has the rung
  WorkloadFlags workload;  // its size
  int64_t memory = 0;      // bytes of another device
};

struct AblateFlags {
  WorkloadFlags workload;
  std::string ladder, out;
  DesignFlags design;
  int64_t repeats = 0, order_seed = -1, limit_s = 900, budget_s = 0;
  bool resume = false, json = false, verbose = false;
  bool quick = false;    // the first and the last rung, four repeats
  bool force = false;    // start although a run is expected to fail
  bool dry_run = false;  // only print what would be run
  bool explain = false;  // trace every rung, too, and say what changed
  std::string shard;     // "2/4": that part of the runs
  bool wait = false;     // until a device in use is free
};

struct RunFlags {
  WorkloadFlags workload;
  std::string recipe, ladder, rung, plan, run_id, record;
  std::string from;          // a record to run again; it does not say where the data is
  bool any_program = false;  // with from: another program than the record's may run
  bool json = false, verbose = false, wait = false;
  bool report_steps = false;  // to file descriptor 3, for the runner
  std::string time_against;   // only time the recipe's own operation beside this recipe's, for timed_here.h
};

// One of trace, diff, counters and list_metrics is set.
struct ProfileFlags {
  RunFlags run;  // what to profile
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

struct GateFlags {
  WorkloadFlags workload;
  std::string base, head;  // a bundle's folder or a program; head empty: this program
  // Folder (study/gate/baseline.h): what to compare with where base is empty, and what to save into.
  std::string baselines = "results/baselines";
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
};

struct CompareFlags {
  std::string base, head;
  double min_effect = harness::usual_min_effect;
  bool force = false, json = false, markdown = false;
};

struct ReportFlags {
  std::vector<std::string> studies, with;  // files or folders
  std::string out, tensorboard;
  bool published = false, verbose = false;
};

struct HistoryFlags {
  std::string folder, out;
  double min_effect = harness::usual_min_effect;
  bool json = false, fail_on_slowdown = false;
};

struct VerifyFlags {
  std::string study;
  bool json = false;
};

struct MergeFlags {
  std::string out;
  std::vector<std::string> shards;  // folders
  bool group_by_device = false;
};

// Negative where zero has a meaning: not given.
struct TrainFlags {
  WorkloadFlags workload;
  std::string recipe, weights;
  int64_t tokens = 0, epochs = 0;  // one of these, or workload.steps
  int64_t batch_tokens = 0;
  double lr = -1, min_lr = -1, weight_decay = -1, clip = -1;
  std::string lr_sweep;  // "1e-5:1e-1:9": a training for each of these rates, in place of one
  int64_t warmup_steps = -1, decay_steps = 0;
  double validation_share = -1;
  std::string validation_data;
  int64_t validation_every = 0, validation_batches = 0;
  int64_t validations = 10;                       // where validation_every is not given
  int64_t sample_every = 0, sample_tokens = 100;  // 0: no samples
  std::string sample_prompt;
  std::string out, save;
  int64_t log_every = 0, save_every = 0, keep = 0;
  bool resume = false, json = false;
  bool is_child = false;  // of a runner, with which it ends
};

// `ladder ablate --to-loss`: trainings in place of runs.
struct ToLossFlags {
  TrainFlags training;  // each of them; out, resume and json are of all together
  std::string ladder;
  std::vector<std::string> rungs;
  double loss = 0, margin = 0.02;
  int64_t seeds = 3;
  bool wait = false;
};

struct SampleFlags {
  std::string weights, prompt, vocabulary;
  int64_t tokens = 200, count = 1;
  double temperature = 1, top_p = 1;  // model/sampler.h
  int64_t top_k = 0;
  int64_t seed = 1, threads = 0;
  bool ignore_eos = false, end_of_text = false, json = false;
};

struct TokenizeFlags {
  std::string data, vocabulary, out;
  bool end_of_text = false;
};

}  // namespace ablations
