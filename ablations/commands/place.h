// Where a command writes: whether it can, and that nothing is lost there that is not its own to replace. Asked before
// the work whose result goes there; each throws std::invalid_argument that names the flag or the file.
#pragma once

#include "ablations/commands/flags.h"
#include "ablations/plan/plan.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ablations {

// A file that a command reads, and the flag that names it.
struct Input {
  std::string flag;
  std::filesystem::path file;
};

// All that a run reads: what its flags name, and what stands for flags that are not given.
std::vector<Input> inputs_of(const RunFlags& flags);
std::vector<Input> inputs_of(const Plan& plan);

void check_can_write(const char* flag, const std::filesystem::path& file);

// Before anything is computed for it: where --out names a file.
void check_folder(const std::filesystem::path& out);
// The same without making it, also where it lies where nothing can be written.
void check_can_make(const std::filesystem::path& out);

// That what a command writes does not take the place of what it reads.
void check_not_read(const char* flag, const std::filesystem::path& written, const std::vector<Input>& inputs);
// The same of all that is written into a study's or a gate's folder.
void check_reads_elsewhere(const std::filesystem::path& folder, const std::vector<Input>& inputs);

// That what is drawn into a folder takes the place of what was drawn there before, and of nothing else. The folder is
// known by the file `mark`, a document of that kind, which is written first; else it has none of `files`.
void check_draws_over_own(const std::filesystem::path& out, const std::string& mark, std::string_view kind,
                          const std::vector<std::string>& files);

// Whether a file is a document of that kind.
bool is_of_kind(const std::filesystem::path& file, std::string_view kind);

}  // namespace ablations
