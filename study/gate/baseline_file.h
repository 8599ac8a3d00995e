// Earlier measurements that later ones are judged by, one file for each device and recipe:
//
//   FOLDER/DEVICE/HASH.json        a baseline: the records of one program's runs in one session, and what it took in
//                                  others (results/schemas/baseline.v1.json)
//   FOLDER/DEVICE/HASH.noise.json  how small a change can be shown there (results/schemas/noise.v1.json)
#pragma once

#include "results/comparison.h"
#include "study/gate/side.h"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace study {

// DEVICE/HASH.json of a record under `folder`.
std::filesystem::path baseline_file(const std::filesystem::path& folder, const Record& record);
std::filesystem::path noise_file(const std::filesystem::path& folder, const Record& record);

// Throws std::invalid_argument for one that contradicts itself, or whose records are of several recipes.
void check_baseline(const Baseline& baseline, const std::filesystem::path& file);

// Read and checked.
Baseline read_baseline(const std::filesystem::path& file);

// The baseline as a side of a comparison.
Sample sample_of(const Baseline& baseline);

// What differs between the circumstances of a kept document and of a record. Empty if the document applies to the
// record.
std::vector<std::string> other_circumstances(const Kept& kept, const Record& record);

// Why a noise floor says nothing of a record: other circumstances, or figures that are not those of its differences.
// Empty if it does.
std::string why_no_noise(const Noise& noise, const Record& record);

// What differs between the steps, seed and text of a baseline and of a record.
std::vector<std::string> other_steps(const Baseline& baseline, const Record& record);

Baseline baseline_of(const Sample& sample);

// Why runs of a baseline's own program cannot be its next session: disturbed, other steps, too few, or too soon. Empty
// if they can.
std::string why_no_session(const Baseline& baseline, const Sample& sample);

// The baseline with the sample's runs as one more session.
Baseline with_session(Baseline baseline, const Sample& sample);

// Whether two records are known to be one program's (ablations/run/run_setting.h), with the same libraries, on the same
// text.
bool is_same_program(const Record& record, const Record& other);

// The noise floor of an A/A comparison. `differences`: of the logarithms of paired runs, at least 6. `record`: one of
// that program.
Noise noise_of(std::span<const double> differences, const Record& record, const std::string& label);

// The floor (harness/stats/verdict.h) at `pairs` that a noise floor's file published; between its entries, the next
// smaller number of pairs'.
const Floor& floor_at(const Noise& noise, int64_t pairs);

}  // namespace study
