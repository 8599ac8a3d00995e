// The commands, as the command line calls them. Each returns its exit status and throws std::invalid_argument for input
// that cannot be used.
#pragma once

#include "ablations/commands/request.h"

#include <string>
#include <vector>

namespace ablations {

struct CompareFlags {
  std::string base, head;
  double min_effect = 0.02;
  bool force = false, json = false, markdown = false;
};

struct ReportFlags {
  std::vector<std::string> studies, with;  // files or folders
  std::string out;
  bool published = false;
};

struct HistoryFlags {
  std::string folder, out;
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
int profile(const ProfileFlags& flags);
int compare(const CompareFlags& flags);
int report(const ReportFlags& flags);
int history(const HistoryFlags& flags);
int verify(const VerifyFlags& flags);
int merge(const MergeFlags& flags);
int train(const TrainFlags& flags);
int tokenize(const TokenizeFlags& flags);

}  // namespace ablations
