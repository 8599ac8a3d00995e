#include "cli/place.h"

#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "files/json_file.h"
#include "plots/export.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace cli {

namespace fs = std::filesystem;

std::vector<Input> inputs_of(const Plan& plan) {
  return {{"--data", plan.workload.data}, {"--vocab", plan.workload.vocabulary}, {"--data", plan.workload.tokens}};
}

void check_can_write(const char* flag, const fs::path& file) {
  if (files::is_standard_output(file)) {
    if (::isatty(STDOUT_FILENO) == 0) return;
    throw std::invalid_argument(
        fmt::format("{} -: standard output is a terminal; send it to a file or a program", flag));
  }
  const fs::path folder = fs::absolute(files::followed(file)).parent_path();
  if (!fs::is_directory(folder) || ::access(folder.c_str(), W_OK) != 0) {
    throw std::invalid_argument(
        fmt::format("{} {}: the folder {} cannot be written", flag, file.string(), folder.string()));
  }
  if (fs::is_directory(file)) throw std::invalid_argument(fmt::format("{} {}: a directory", flag, file.string()));
  if (fs::exists(file) && !fs::is_regular_file(file)) {
    throw std::invalid_argument(fmt::format("{} {}: must be a file, got a device or a pipe", flag, file.string()));
  }
}

void check_folder(const fs::path& out) {
  if (fs::exists(out) && !fs::is_directory(out)) {
    throw std::invalid_argument(fmt::format("--out {}: is not a folder", out.string()));
  }
}

void check_can_make(const fs::path& out) {
  check_folder(out);
  fs::path there = fs::absolute(out);
  while (!fs::exists(there) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there) || ::access(there.c_str(), W_OK) != 0) {
    throw std::invalid_argument(fmt::format("--out {}: the folder {} cannot be written", out.string(), there.string()));
  }
}

void check_not_read(const char* flag, const fs::path& written, const std::vector<Input>& inputs) {
  for (const Input& input : inputs) {
    std::error_code no_file;  // a recipe may be given as text instead of a file
    if (!fs::equivalent(written, input.file, no_file)) continue;
    throw std::invalid_argument(fmt::format("{} {}: is the file that {} names", flag, written.string(), input.flag));
  }
}

void check_reads_elsewhere(const fs::path& folder, const std::vector<Input>& inputs) {
  for (const Input& input : inputs) {
    const fs::path below = fs::weakly_canonical(input.file).lexically_relative(fs::weakly_canonical(folder));
    if (below.empty()) continue;
    const std::string first = *below.begin();
    const bool is_in_it = std::next(below.begin()) == below.end();
    const bool is_export = std::ranges::find(plots::exports, first, &plots::Export::file) != plots::exports.end();
    if (is_in_it ? !is_export && !files_of_study().contains(first) : !folders_of_study().contains(first)) continue;
    throw std::invalid_argument(
        fmt::format("{} {}: lies among the files of --out {} and would be overwritten; copy it elsewhere", input.flag,
                    input.file.string(), folder.string()));
  }
}

void check_draws_over_own(const fs::path& out, const std::string& mark, std::string_view kind,
                          const std::vector<std::string>& files) {
  check_folder(out);
  if (files::is_of_kind(out / mark, kind)) return;
  for (const std::string& name : files) {
    if (!fs::exists(fs::symlink_status(out / name))) continue;
    const std::string why = name == mark ? fmt::format("which is not a {} made by ladder", kind)
                                         : fmt::format("but no {} that shows that ladder drew it", mark);
    throw std::invalid_argument(
        fmt::format("{}: holds {}, {}; name another folder with --out", out.string(), name, why));
  }
}

}  // namespace cli
