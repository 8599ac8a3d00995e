// `ladder gate --expect`: pairs are made until it is clear whether head is kept, and a ledger keeps the error of all
// experiments of a night.
#pragma once

#include "cli/gate_run.h"
#include "cli/worktrees.h"
#include "results/plan.h"

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace cli {

// Throws std::invalid_argument that names the flag, or that says why the ledger cannot be read.
void check_experiment(const GateFlags& flags);

// Makes a gate's plan one of an experiment of these sides: what is expected of head, and by which metric.
void make_experiment(const GateFlags& flags, const std::vector<CommitSide>& sides, Plan& plan);

// Makes the experiment of a plan whose two commands were tried, and enters it into the ledger. `code`: what the trials
// read. Returns the exit status.
int run_experiment(Plan plan, const std::filesystem::path& out, const GateFlags& flags,
                   const std::vector<std::set<std::filesystem::path>>& code);

// With --json: says that an experiment ended before its first run, and why.
void tell_no_run(const GateFlags& flags, harness::Decision verdict, const std::string& why);

}  // namespace cli
