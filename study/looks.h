// What a look at a command saw (client/look), beside a look at another one: which of its means differ.
//
//   FOLDER/looks/NAME.json   of a rung: written by the command's own process, so nothing in it is trusted to be there
#pragma once

#include "ablations/plan/make_plan.h"
#include "files/json_file.h"
#include "results/study.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace study {

std::filesystem::path look_file(const std::filesystem::path& folder, const Rung& rung);

// What a look wrote. None: there is no file, or the look failed, or it is no JSON object.
std::optional<files::Json> look_from(const std::filesystem::path& file);

// "compiled regions 0 -> 2", "products float32 -> bfloat16", ...: the most telling first. Empty: nothing that can be
// seen differs. None: one of the two was not looked at, or its look failed.
std::optional<std::vector<std::string>> seen_to_differ(const std::filesystem::path& before,
                                                       const std::filesystem::path& after);

// How long the program waited for input before the look; none: it was not looked at, or nobody timed that.
std::optional<InputWait> input_wait_in(const std::filesystem::path& look);

}  // namespace study
