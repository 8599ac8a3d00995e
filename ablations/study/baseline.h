// What is kept of earlier measurements to judge later ones by, one file for each device and recipe:
//
//   FOLDER/DEVICE/HASH.json        a baseline: the records of one program's runs in one session, and what it took in
//                                  others (results/schemas/baseline.v1.json)
//   FOLDER/DEVICE/HASH.noise.json  how small a change can be shown there (results/schemas/noise.v1.json)
#pragma once

#include "ablations/study/side.h"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace ablations {

// DEVICE/HASH.json of an arm or a record under `folder`.
std::filesystem::path baseline_file(const std::filesystem::path& folder, const harness::Json& record);
std::filesystem::path noise_file(const std::filesystem::path& folder, const harness::Json& record);

// The same for such a document itself, wherever it says it was to go.
std::filesystem::path kept_file(const std::filesystem::path& folder, const harness::Json& document);

// What differs between the circumstances (ablations/run/setting.h) of such a file and those of a record; empty where
// the file says something of the record. Throws std::invalid_argument for a file that cannot be read. kind: "baseline"
// or "noise".
std::vector<std::string> other_circumstances(const std::filesystem::path& file, const char* kind,
                                             const harness::Json& record);

// The same of what a baseline's runs did and a record's: steps, seed and text.
std::vector<std::string> other_steps(const std::filesystem::path& baseline, const harness::Json& record);

harness::Json baseline_json(const Arm& arm);

// Why runs of a baseline's own program are no further session of it: disturbed, other steps, too few runs, too soon
// after one that it knows. Empty: they are. Throws as read_baseline.
std::string why_no_session(const std::filesystem::path& baseline, const Arm& arm);

// The baseline that baseline_json made, with the arm's runs as one more session.
harness::Json with_session(const std::filesystem::path& baseline, const Arm& arm);

// Whether two records are known to be one program's (ablations/run/setting.h), with the same libraries, on the same
// text.
bool is_same_program(const harness::Json& record, const harness::Json& other);

// The arm that baseline_json stored. Throws std::invalid_argument for a file that cannot be read or contradicts itself,
// or whose records are of several recipes.
Arm read_baseline(const std::filesystem::path& file);

// From an A/A comparison: `differences` of the logarithms of paired runs of one program, at least 6 of them, and a
// record of that program.
harness::Json noise_json(std::span<const double> differences, const harness::Json& record, const std::string& label);

// The floor (harness/verdict.h) at `pairs` that a noise_json published; between its entries, the next smaller number of
// pairs'.
double floor_at(const harness::Json& noise, int64_t pairs);

}  // namespace ablations
