// The flags that several commands share: a struct for each group, and the function that adds it to a command.
#pragma once

#include "ablations/plan/modes.h"
#include "text/text.h"

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class Option;
}

namespace cli {

struct Command;

// Size and circumstances of the work. Zero, negative or empty means that the flag is not given.
struct WorkloadFlags {
  std::string model;
  int64_t B = 0, T = 0, accumulation = 0, positions = 0;
  int64_t steps = 0, warmup = -1;
  int64_t seed = 1;
  int64_t threads = 0;
  std::string data, vocabulary;
  int64_t repeat_to = 0;       // bytes of text, made of whole copies
  bool deterministic = false;  // on every rung
  bool cold_cache = false;     // each run begins without its data in the page cache
  bool end_of_text = false;    // "<|endoftext|>" in a text is one token
};

// The heading names the default size.
void add_size_flags(Command& command, WorkloadFlags& flags, const std::string& default_model,
                    const std::string& default_size);
// The size, and also steps, seed, threads, data and vocabulary.
void add_workload_flags(Command& command, WorkloadFlags& flags, const std::string& default_model,
                        const std::string& default_size);
void add_data_flags(Command& command, WorkloadFlags& flags);  // --repeat-to and --cold-cache
void add_deterministic_flag(Command& command, WorkloadFlags& flags);
void add_end_of_text_flag(Command& command, bool& end_of_text);
void add_wait_flag(Command& command, bool& wait);
// Completion offers the ladders, and the rungs.
CLI::Option* add_ladder_flag(Command& command, std::string& ladder, const std::string& help);
CLI::Option* add_rung_flag(Command& command, std::string& rung);
CLI::Option* add_rungs_flag(Command& command, const std::string& name, std::vector<std::string>& rungs,
                            const std::string& help, Repeats repeats = Repeats::refused);
CLI::Option* add_min_effect_flag(Command& command, double& min_effect, const std::string& difference);

inline const std::vector<std::string> size_flags{"--model", "--batch", "--context", "--positions", "--accumulation"};
inline const std::vector<std::string> workload_flags{"--model",        "--batch", "--context", "--positions",
                                                     "--accumulation", "--steps", "--warmup",  "--seed",
                                                     "--threads",      "--data",  "--vocab"};

// What a study measures and how often; make_plan() makes a plan of it.
struct StudyFlags {
  WorkloadFlags workload;
  std::string ladder;
  DesignFlags design;
  int64_t repeats = 0, order_seed = -1, limit_s = 900;
  bool quick = false;  // the first and the last rung, four repeats
  std::string shard;   // "2/4": that part of the runs
  bool wait = false;   // until a device in use is free
};

// The step that a process runs; run_options() makes the options of a run of it.
struct StepFlags {
  WorkloadFlags workload;
  std::string recipe, ladder, rung, plan, run_id;
  std::string from;          // a record to run again; the flags say where its data is
  bool any_program = false;  // with from: also if another program made the record
  bool wait = false;
};

inline constexpr int64_t most_training_steps = 1000000;  // as the schema of a training has it

// A training; prepared_training() makes a training of it. Negative means not given where zero has a meaning.
struct TrainingFlags {
  WorkloadFlags workload;
  std::string recipe, weights;
  int64_t tokens = 0, epochs = 0;  // one of these, or workload.steps
  int64_t batch_tokens = 0;
  double lr = -1, min_lr = -1, weight_decay = -1, clip = -1;
  int64_t warmup_steps = -1, decay_steps = 0;
  double validation_share = -1;
  std::string validation_data;
  int64_t validation_every = 0, validation_batches = 0;
  int64_t validations = 10;                       // if validation_every is not given
  int64_t sample_every = 0, sample_tokens = 100;  // 0: no samples
  std::string sample_prompt;
  int64_t save_every = 0, keep = 0;
  std::string out;
  bool resume = false, json = false;
};

// The length in tokens or epochs, besides --steps.
void add_length_flags(Command& command, TrainingFlags& flags);
// The learning rate and the update.
void add_learning_flags(Command& command, TrainingFlags& flags);
// `usual`: the default number of steps between two validation losses. `more` continues that help.
void add_validation_flags(Command& command, TrainingFlags& flags, const std::string& usual,
                          const std::string& more = "");
inline const std::vector<std::string> training_flags{"--tokens",
                                                     "--epochs",
                                                     "--lr",
                                                     "--min-lr",
                                                     "--warmup-steps",
                                                     "--decay-steps",
                                                     "--weight-decay",
                                                     "--clip",
                                                     "--validation-share",
                                                     "--validation-data",
                                                     "--validation-every",
                                                     "--validation-batches"};

// `ladder ablate --to-loss`: trainings instead of runs.
struct ToLossFlags {
  TrainingFlags training;  // each of them; out, resume and json are of all together
  std::string ladder;
  std::vector<std::string> rungs;
  double loss = 0, margin = 0.02;
  int64_t seeds = 3;
  bool wait = false;
};

// --resume continues what --out holds; `what`: "study". Throws std::invalid_argument if --resume comes without --out,
// or with a flag that is not `allowed`.
void check_resume(const Command& command, const std::vector<std::string>& allowed, const std::string& what);

}  // namespace cli
