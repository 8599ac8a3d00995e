// What is shown of a document: its table here, its pictures by a script of plots/.
#pragma once

#include "ablations/study/study_files.h"
#include "harness/json_file.h"

#include <filesystem>
#include <string_view>

namespace ablations {

// Draws `document`, a report or a history as `what` says, into `out` by plots/render.py and prints what it wrote. The
// script's exit status.
int draw(std::string_view what, const std::filesystem::path& document, const std::filesystem::path& out);

// Prints a study as a table or as JSON. Exit status 1 where a rung failed, was not proven or is void.
int show_study(const harness::Json& study, bool json);

// What is to be said about a report, on standard error.
void show_notes(const harness::Json& report);

// Writes report.json and its exports into `out`, prints their names and draws them. The drawing's exit status.
int draw_report(const harness::Json& report, const std::filesystem::path& out);

// The report of a study by itself. False where it could not be done, and standard error says why: what was measured
// counts all the same.
bool try_draw_report(const StudyFiles& study, const std::filesystem::path& out);

}  // namespace ablations
