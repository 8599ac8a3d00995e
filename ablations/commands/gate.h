// Did the program become slower? Two programs, or a program and what was stored of an earlier one, on the same recipes:
// interleaved runs in fresh processes, one verdict, an exit status that a merge can hang on.
//
//   FOLDER/plan.json, records/, logs/   as a study's (runner.h): rung by rung "base-NAME" and "head-NAME"
//   FOLDER/gate.json                    the verdict (results/schemas/gate.v1.json)
//   FOLDER/summary.md                   the same for people
#pragma once

#include "ablations/commands/request.h"

#include <string>
#include <vector>

namespace ablations {

struct GateFlags {
  WorkloadFlags workload;
  std::string base, head;  // a bundle's folder or a program; head empty: this program
  std::string baselines;  // folder with baselines (baseline.h): what to compare with where base is empty, and save into
  std::string ladder, out;
  std::vector<std::string> rungs;  // empty: the last that applies here
  double min_effect = 0.02;
  int64_t pairs = 0;    // 0: 8, or 16 to calibrate
  int64_t top_up = -1;  // pairs more where those leave it open; -1: as many again
  int64_t limit_s = 900;
  bool calibrate = false;  // head against itself: what this machine can show
  bool save = false;       // store what was measured as the new baseline or noise floor
  bool blocked = false;    // all of base's runs, then all of head's
  bool force = false, resume = false, json = false;
  bool wait = false;  // for the device, where another ladder measures on it
};

// Carries the gate out, writes its files and returns the exit status: 0 the same or faster, 1 slower, losses that
// differ, or a head that fails; 3 inconclusive. Throws std::invalid_argument for what cannot be used, harness::Unfit
// where base fails, there is no baseline, or circumstances differ without --force. 130 when interrupted; --resume goes
// on.
int gate(const GateFlags& flags);

}  // namespace ablations
