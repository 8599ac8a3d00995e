// The files of a study's folder; a gate's folder has the same layout.
//
//   FOLDER/plan.json           what was planned; never changed
//   FOLDER/records/ID.json     one for each run that has ended, well or not; in a shard's folder, of its own runs
//   FOLDER/records/ID.flagged.json   what it was at first, where the machine disturbed it and it was made again
//   FOLDER/logs/ID.log         what the child printed
//   FOLDER/traces/NAME.*.json  where a rung's steps went, if asked for
//   FOLDER/with/*.json         put there to be shown beside it: noise floors, verdicts, traces, micro benchmarks
//   FOLDER/study.json          the results (study/analysis.h)
//
// A folder may have been prepared by a stranger, and may hold files of the user's own. So a study begins in an empty
// folder, only files listed here are replaced or removed, nothing is written through a link (files::Links), and a
// record counts only for the plan that it names.
#pragma once

#include "ablations/plan/plan.h"
#include "results/record.h"

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace ablations {

inline constexpr const char* study_file = "study.json";

// What is written into a study's or a gate's folder itself after its plan, and the folders in it that are written into.
const std::set<std::string>& files_of_study();
const std::set<std::string>& folders_of_study();

// Before a folder becomes that of a study or a training, `what`, which it holds already if there is `document` in it.
// Throws std::invalid_argument where there is anything in the folder.
void check_holds_nothing(const std::filesystem::path& folder, const std::string& document, std::string_view what);

// Before anything is measured for it. Throws std::invalid_argument where there is anything in the folder.
void check_may_begin(const std::filesystem::path& folder);

// Creates the folder with the plan in it. Throws as check_may_begin, std::system_error when it cannot be written.
void create_study(const Plan& plan, const std::filesystem::path& folder);

// Before anything is written into these folders of an existing study's. Throws std::invalid_argument where one of them
// is a link.
void check_has_no_links(const std::filesystem::path& folder, const std::set<std::string>& names = folders_of_study());

// Reads the plan of an existing study. Throws std::invalid_argument when there is none.
Plan open_study(const std::filesystem::path& folder);

std::filesystem::path record_file(const std::filesystem::path& folder, const std::string& run_id);

// Where the first record of a run is kept that was made again, by the path of the second.
std::filesystem::path flagged_file(const std::filesystem::path& record);

// Empty when a record is that of the run, ended well and is whole; else what is wrong with it.
std::string fault_of(const Record& record, const Plan& plan, const PlannedRun& run);

// Throws std::invalid_argument where a record in the folder was made for another plan than this. One that does not say
// for which, as older ones do not, counts where a study is read, and not where it is gone on with.
enum class Unnamed { counts, refused };
void check_records_are_of(const Plan& plan, const std::filesystem::path& folder, Unnamed unnamed);

// The plan's own.
PlanIdentity plan_identity(const Plan& plan);

// Why a record is not of the plan of that identity, by its own account; empty where it is.
std::string another_plan_of(const Record& record, const PlanIdentity& identity);

// The run's record in the folder where fault_of finds nothing; none where there is none such.
std::optional<Record> good_record(const std::filesystem::path& folder, const Plan& plan, const PlannedRun& run);

std::filesystem::path trace_file(const std::filesystem::path& folder, const Rung& rung);

// Removes what writers of these files who were killed left in the folder. Nobody else may be at work in it.
void remove_unfinished_files(const std::filesystem::path& folder, const std::set<std::string>& names);
// The same of all files of a plan's runs.
void remove_unfinished_files(const Plan& plan, const std::filesystem::path& folder);

// Where the run's child writes its record.
std::filesystem::path child_file(const std::filesystem::path& folder, const std::string& run_id);

}  // namespace ablations
