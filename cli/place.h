// Checks where a command writes: that it can write there, and that it replaces only its own files. The checks come
// before the work whose result goes there. Each throws std::invalid_argument that names the flag or the file.
#pragma once

#include "ablations/plan/make_plan.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

// A file that a command reads, and the flag that names it.
struct Input {
  std::string flag;
  std::filesystem::path file;
};

std::vector<Input> inputs_of(const Plan& plan);

void check_can_write(const char* flag, const std::filesystem::path& file);

// Throws if --out names a file.
void check_folder(const std::filesystem::path& out);
// Throws if --out names a file, or a folder that cannot be written or made.
void check_can_make(const std::filesystem::path& out);

// Throws if a command would overwrite what it reads.
void check_not_read(const char* flag, const std::filesystem::path& written, const std::vector<Input>& inputs);
// The same for all files of a study's or a gate's folder.
void check_reads_elsewhere(const std::filesystem::path& folder, const std::vector<Input>& inputs);

// Throws if drawing into the folder would replace anything but an earlier drawing. An earlier drawing has the file
// `mark`, a document of that kind. Without it the folder must have none of `files`.
void check_draws_over_own(const std::filesystem::path& out, const std::string& mark, std::string_view kind,
                          const std::vector<std::string>& files);

}  // namespace cli
