// Where a study keeps what; a gate's folder is laid out the same.
//
//   FOLDER/plan.json           what was planned; never changed
//   FOLDER/records/ID.json     one for each run that has ended, well or not; in a shard's folder, of its own runs
//   FOLDER/records/ID.flagged.json   what it was at first, where the machine disturbed it and it was made again
//   FOLDER/logs/ID.log         what the child printed
//   FOLDER/traces/NAME.*.json  where a rung's steps went, if asked for
//   FOLDER/with/*.json         put there to be shown beside it: noise floors, verdicts, traces, micro benchmarks
//   FOLDER/study.json          what came of it (ablations/study/analysis.h)
#pragma once

#include "ablations/plan/plan.h"
#include "harness/json_file.h"

#include <filesystem>
#include <string>

namespace ablations {

inline constexpr const char* study_file = "study.json";

// Creates the folder with the plan in it. Throws std::invalid_argument when it holds a study already, std::system_error
// when it cannot be written.
void create_study(const Plan& plan, const std::filesystem::path& folder);

// Reads the plan of an existing study. Throws std::invalid_argument when there is none.
Plan open_study(const std::filesystem::path& folder);

std::filesystem::path record_file(const std::filesystem::path& folder, const std::string& run_id);

// Where the first record of a run is kept that was made again, by the path of the second.
std::filesystem::path flagged_file(const std::filesystem::path& record);

// Empty when a record (of the schema) is that of the run, ended well and is whole; else what is wrong with it.
std::string fault_of(const harness::Json& record, const Plan& plan, const PlannedRun& run);

// Whether something on the machine disturbed a run that ended well.
bool is_disturbed(const harness::Json& record);

// The run's record in the folder where fault_of finds nothing; null where there is none such.
harness::Json good_record(const std::filesystem::path& folder, const Plan& plan, const PlannedRun& run);

std::filesystem::path trace_file(const std::filesystem::path& folder, const Rung& rung);

// Removes what writers that were killed left behind in a folder. Nobody else may be at work in it.
void remove_unfinished_files(const std::filesystem::path& folder);

}  // namespace ablations
