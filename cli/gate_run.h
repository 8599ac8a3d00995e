// From a gate's plan to its verdict: makes the runs in one look or two, judges them, and shows and keeps what came of
// it. What is compared, two programs or two commits, only differs in who makes the runs.
#pragma once

#include "ablations/run/runner.h"
#include "cli/command.h"
#include "cli/draw.h"
#include "harness/stats/verdict.h"
#include "results/comparison.h"
#include "study/gate/gate_verdict.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace cli {

constexpr const char* usual_baselines = "results/baselines";  // of a gate of ladder programs

struct GateFlags {
  WorkloadFlags workload;
  std::string base, head;  // a bundle's folder or a program; head empty: this program
  std::string baselines;   // compared with if base is empty, and saved into
  std::string ladder, out;
  TypedLine typed;
  std::vector<std::string> rungs;  // empty: the last that applies here
  double min_effect = harness::usual_min_effect;
  std::optional<int64_t> pairs;   // 8, or 16 to calibrate
  std::optional<int64_t> top_up;  // more pairs if those are inconclusive; as many again
  int64_t limit_s = 900;
  bool calibrate = false;  // head against itself: what this machine can show
  bool save = false;       // store what was measured as the new baseline or noise floor
  bool blocked = false;    // all of base's runs, then all of head's
  bool force = false, resume = false, json = false, markdown = false;
  bool wait = false;     // until no other ladder measures on the device
  bool bisects = false;  // for git bisect run
  bool no_look = false;  // of an experiment

  std::vector<std::string> command;  // of any program, after "--": then base and head are commits
  std::string prepare;               // for sh, once in each commit's worktree
  std::string steps_from;
  std::optional<double> catches;  // the slowdown that 95 % of gates are to find; else min_effect says what matters
  std::optional<int64_t> budget_s, tokens;
  std::string expect, ledger, metric, better, until;  // of an experiment (cli/experiment.h); expect empty: it is none
};

// The pairs that the flags ask for, without the top-up, and what the gate declares before its first run.
int64_t pairs_of(const GateFlags& flags);
GateTerms terms_of(const GateFlags& flags, int64_t pairs);

// Returns the exit status. `maker`: of a part of the plan. failures: what an earlier attempt left, as warnings.
// `interrupted`: what an interrupted gate says after "completed runs are saved; ".
int run_gate(const Plan& plan, const std::filesystem::path& out, const std::function<RunMaker(const Plan&)>& maker,
             const std::vector<std::string>& failures, const std::string& interrupted, Printed as);

// The plan with its first pairs only.
Plan first_pairs(Plan plan, int64_t pairs);

// Writes the files that later gates judge by.
void save(const std::vector<study::KeptFile>& files);

// Prints JSON, or a table with its files and page. A page that is not drawn does not change the exit status.
int show(const GateResult& result, const std::filesystem::path& out, Printed as);

// Exists from before a verdict is written until its baselines are saved, so that an interrupted gate saves them later.
// The baselines follow from the records. The file holds none, because anybody may have prepared the folder.
constexpr const char* unsaved_file = "unsaved.json";

struct Unsaved {
  std::string verdict_of;  // when that was created

  LADDER_FIELDS(Unsaved, verdict_of)
};

}  // namespace cli
