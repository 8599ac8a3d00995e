// The commands, as the command line calls them. Each returns its exit status and throws std::invalid_argument for input
// that cannot be used.
#pragma once

#include "ablations/modes.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace ablations {

// Flags that several commands share. Zero, negative or empty: not given.
struct WorkloadFlags {
  std::string model;
  int64_t B = 0, T = 0, accumulation = 0, positions = 0;
  int64_t steps = 0, warmup = -1;
  int64_t seed = 1;
  int64_t threads = 0;
  std::string data, vocabulary;
};

struct AblateFlags {
  WorkloadFlags workload;
  std::string ladder, out;
  DesignFlags design;
  int64_t repeats = 0, order_seed = -1, limit_s = 900, budget_s = 0;
  bool resume = false, json = false;
};

struct RunFlags {
  WorkloadFlags workload;
  std::string recipe, ladder, rung, plan, run_id, record;
  bool json = false;
  bool report_steps = false;  // to file descriptor 3, for the runner
};

struct ReportFlags {
  std::string study, out;
};

struct TrainFlags {
  WorkloadFlags workload;
  std::string recipe = "{}", weights, save;
  bool json = false;
};

struct TokenizeFlags {
  std::string data, vocabulary, out;
};

int doctor(bool json, bool peaks);
int ablate(const AblateFlags& flags);
int run(const RunFlags& flags);
int report(const ReportFlags& flags);
int train(const TrainFlags& flags);
int tokenize(const TokenizeFlags& flags);

// What setup/data.py fetched.
std::filesystem::path default_vocabulary();
std::filesystem::path default_text();
// The same text's tokens, which a bundle brings; the default where the text is not there.
std::filesystem::path bundled_tokens();

}  // namespace ablations
