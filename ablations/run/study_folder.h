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
// A stranger may have prepared a folder, or it may hold the user's own files. So a study begins in an empty folder.
// Only files listed here are replaced or removed. Nothing is written through a link (files::Links). A record counts
// only for the plan that it names.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/record.h"

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace ablations {

inline constexpr const char* study_file = "study.json";

// The files that are written into a study's or a gate's folder after its plan, but for those for other programs
// (plots/export.h). The folders in it that are written into.
const std::set<std::string>& files_of_study();
const std::set<std::string>& folders_of_study();

// Throws std::invalid_argument if the folder is not empty. `what` is to begin in it: "study" or "training". If
// `document` is there, the message says that it holds one already.
void check_holds_nothing(const std::filesystem::path& folder, const std::string& document, std::string_view what);

// Throws std::invalid_argument if the folder of a new study is not empty. Call it before anything is measured.
void check_may_begin(const std::filesystem::path& folder);

// Makes a study's folder. A new measured/, studies/ or gates/ around it tells git to leave it alone.
void make_study_folder(const std::filesystem::path& folder);

// Creates the folder with the plan in it. Throws as check_may_begin, std::system_error when it cannot be written.
void create_study(const Plan& plan, const std::filesystem::path& folder);

// Throws std::invalid_argument if one of these folders in a study's folder is a link. Call it before anything is
// written.
void check_has_no_links(const std::filesystem::path& folder, const std::set<std::string>& names = folders_of_study());

// Reads the plan of an existing study. Throws std::invalid_argument when there is none.
Plan open_study(const std::filesystem::path& folder);

std::filesystem::path record_file(const std::filesystem::path& folder, const std::string& run_id);

// The path of a disturbed run's first record, from the path of its second.
std::filesystem::path flagged_file(const std::filesystem::path& record);

// What is wrong with a run's record. Empty if it is of the run, ended well and is whole.
std::string failure_of(const Record& record, const Plan& plan, const PlannedRun& run);

// Throws std::invalid_argument if a record in the folder was made for another plan. Older records do not name their
// plan. They count when a study is read; they are refused when it is resumed.
enum class Unnamed { counts, refused };
void check_records_are_of(const Plan& plan, const std::filesystem::path& folder, Unnamed unnamed);

// The plan's own.
PlanIdentity plan_identity(const Plan& plan);

// Why a record says that it is not of the plan of that identity. Empty if it is.
std::string another_plan_of(const Record& record, const PlanIdentity& identity);

// The run's record if failure_of finds nothing wrong with it; else none.
std::optional<Record> good_record(const std::filesystem::path& folder, const Plan& plan, const PlannedRun& run);

std::filesystem::path trace_file(const std::filesystem::path& folder, const Rung& rung);

// Removes what killed writers of these files left in the folder. No other process may work in it.
void remove_unfinished_files(const std::filesystem::path& folder, const std::set<std::string>& names);
// The same for all files of a plan's runs.
void remove_unfinished_files(const Plan& plan, const std::filesystem::path& folder);

// The end of what a run printed, whatever that was: one line of UTF-8 without control characters. `ends`: characters
// that end a line.
std::string last_line(const std::filesystem::path& log, const char* ends = "\n");

// Where the run's child writes its record.
std::filesystem::path child_file(const std::filesystem::path& folder, const std::string& run_id);

}  // namespace ablations
