#include "ablations/run/command_files.h"

#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "files/printable.h"
#include "files/sha256.h"
#include "harness/process/unfit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace ablations {

namespace fs = std::filesystem;

std::map<std::string, std::string> files_of_commands(const Plan& plan) {
  constexpr uintmax_t most_bytes = uintmax_t{64} << 20;  // of code; larger ones are data
  std::map<std::string, std::string> found{{".", files::sha256_hex(fs::current_path().string())}};
  std::vector<fs::path> folders{""};
  const auto add = [&](const fs::path& file) {
    std::error_code none;
    const std::string name = files::valid_utf8(file.string());
    if (found.contains(name)) return true;
    if (!fs::is_regular_file(file, none) || fs::file_size(file, none) > most_bytes) return false;
    try {
      found[name] = files::sha256_of_file(file);
    } catch (const std::invalid_argument&) {  // cannot be read, or is gone
    }
    return true;
  };
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    std::string text = plan.rungs[i].command->text;
    for (char& c : text) c = std::string_view("'\"=;|&<>()").find(c) == std::string::npos ? c : ' ';
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      std::error_code none;
      if (fs::is_directory(word, none)) folders.emplace_back(word);  // of a cd
      std::string module = word;                                     // of python -m
      std::ranges::replace(module, '.', '/');
      for (const fs::path& folder : folders) {
        for (const fs::path& file : {folder / word, folder / (module + ".py"), folder / module / "__main__.py"}) {
          if (!add(file) || file.extension() != ".py") continue;
          const fs::path around = file.has_parent_path() ? file.parent_path() : fs::path(".");
          for (const auto& entry : fs::directory_iterator(around, none)) {
            if (entry.path().extension() == ".py") add(file.parent_path() / entry.path().filename());
          }
        }
      }
    }
  }
  return found;
}

void check_has_its_files(const Plan& plan, const fs::path& folder) {
  const auto now = plan.commands->files.empty() ? plan.commands->files : files_of_commands(plan);
  for (const auto& [name, sha256] : plan.commands->files) {
    if (const auto found = now.find(name); found != now.end() && found->second == sha256) continue;
    throw harness::Unfit(fmt::format(
        "{}: its runs were made under other circumstances: {}; resume there, or begin a new study", folder.string(),
        name == "." ? "in another working folder" : files::printable(name) + " has changed since the study was begun"));
  }
}

std::vector<std::string> written_since(const fs::path& directory, fs::file_time_type since, const fs::path& out) {
  std::vector<std::string> written;
  std::error_code error;
  int64_t looked_at = 0;
  fs::recursive_directory_iterator entry(directory, fs::directory_options::skip_permission_denied, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end && ++looked_at < 20000;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory(error)) {
      const bool is_ours = fs::equivalent(entry->path(), out, error);
      if (is_ours || name.starts_with('.') || name == "__pycache__" || entry->is_symlink(error)) {
        entry.disable_recursion_pending();
      }
      error.clear();
    } else if (entry->is_regular_file(error) && fs::last_write_time(entry->path(), error) >= since && !error) {
      written.push_back(files::valid_utf8(entry->path().lexically_relative(directory).string()));
      if (written.size() == 20) break;
    }
    error.clear();
  }
  std::ranges::sort(written);
  return written;
}

BegunFolder::BegunFolder(fs::path folder, std::vector<std::string> parts, bool resumes)
    : folder_(std::move(folder)), parts_(std::move(parts)) {
  make_study_folder(folder_);
  if (!resumes) {
    lock_.emplace(folder_);
    check_may_begin(folder_);  // nobody else can begin one now
    for (const char* part : {"logs", "runs"}) fs::remove_all(folder_ / part);
  }
  fs::create_directory(folder_ / "logs");
  for (const std::string& part : parts_) fs::create_directory(folder_ / part);
}

BegunFolder::~BegunFolder() {
  std::error_code ignored;  // what cannot be removed stays
  for (const std::string& part : parts_) {
    if (part != "logs" || !fs::exists(folder_ / "plan.json", ignored)) fs::remove_all(folder_ / part, ignored);
  }
  fs::remove(folder_ / "logs", ignored);  // likewise
  fs::remove(folder_, ignored);           // if nothing is left in it
}

}  // namespace ablations
