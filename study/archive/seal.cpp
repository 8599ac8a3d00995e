#include "study/archive/seal.h"

#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "files/sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace study {

namespace fs = std::filesystem;
using files::Json;

std::string dumped(const Json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

namespace {

bool holds_disturbed(const fs::path& record) {
  try {
    return read_document<Record>(record).is_disturbed();
  } catch (const std::invalid_argument&) {
    return false;
  }
}

}  // namespace

std::map<std::string, std::string> hashes_of(const fs::path& folder) {
  std::map<std::string, std::string> hashes;
  const auto add = [&](const std::string& name) {
    hashes[name] =
        files::sha256_hex(files::read_file(folder / name, size_t{64} << 20));  // larger ones are no documents
  };
  if (fs::exists(folder / "plan.json")) add("plan.json");
  for (const auto& [part, ending] : {std::pair{"records", ".json"}, std::pair{"traces", ".trace.json"}}) {
    if (!fs::is_directory(folder / part)) continue;
    for (const auto& entry : fs::directory_iterator(folder / part)) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(ending)) add(fmt::format("{}/{}", part, name));
    }
  }
  return hashes;
}

std::string own_sha256(Json study) {
  study.erase("sha256");
  return files::sha256_hex(dumped(study));
}

Study sealed(Study study, const fs::path& folder) {
  study.hashes = hashes_of(folder);
  study.sha256 = own_sha256(json_of(study));
  return study;
}

std::vector<Finding> changed_files(const std::map<std::string, std::string>& then,
                                   const std::map<std::string, std::string>& now) {
  std::vector<Finding> findings;
  for (const auto& [name, hash] : then) {
    const auto found = now.find(name);
    if (found == now.end()) {
      findings.push_back({name, "", "no such file", "SHA-256 " + hash});
    } else if (found->second != hash) {
      findings.push_back({name, "", "SHA-256 " + found->second, "SHA-256 " + hash});
    }
  }
  for (const auto& [name, hash] : now) {
    if (!then.contains(name)) findings.push_back({name, "", "SHA-256 " + hash, "no such file when the study was made"});
  }
  return findings;
}

std::vector<Finding> edits_since(const Plan& plan, const fs::path& folder) {
  Study study;
  try {
    study = read_document<Study>(folder / study_file);
  } catch (const std::exception&) {
    return {};
  }
  const auto &then = *study.hashes, now = hashes_of(folder);
  const auto name_of = [&](const fs::path& file) { return file.lexically_relative(folder).string(); };
  std::map<std::string, std::string> again;  // records that may be made again, and the name under which the first stays
  for (const PlannedRun& run : plan.runs) {
    const fs::path file = record_file(folder, run.id);
    again[name_of(file)] = name_of(flagged_file(file));
  }
  const auto goes_on = [&](const Finding& change) {
    const auto was = then.find(change.file);
    if (was == then.end()) return true;  // it is new
    const auto record = again.find(change.file);
    if (record == again.end() || !now.contains(change.file)) return false;
    const auto kept = now.find(record->second);
    const bool was_disturbed =
        kept != now.end() && kept->second == was->second && holds_disturbed(folder / record->second);
    const bool had_failed = std::ranges::any_of(study.runs, [&](const StudyRun& run) {
      return run.status != RunStatus::ok && name_of(record_file(folder, run.id)) == change.file;
    });
    return was_disturbed || had_failed;
  };
  std::vector<Finding> edits = changed_files(then, now);
  std::erase_if(edits, goes_on);
  return edits;
}

bool has_edited_records(const std::vector<Finding>& edits, const fs::path& folder) {
  return std::ranges::any_of(
      edits, [&](const Finding& edit) { return edit.file.starts_with("records/") && fs::exists(folder / edit.file); });
}

void check_not_edited(const Plan& plan, const fs::path& folder) {
  const std::vector<Finding> edits = edits_since(plan, folder);
  for (const PlannedRun& run : plan.runs) {
    const fs::path file = record_file(folder, run.id);
    const auto is_of_run = [&](const Finding& edit) { return folder / edit.file == file; };
    // A run whose record is no longer good is made again.
    if (std::ranges::none_of(edits, is_of_run) || !good_record(folder, plan, run)) continue;
    throw std::invalid_argument(fmt::format(
        "{}: has changed since study.json was made; if it is right, delete study.json and resume", file.string()));
  }
}

}  // namespace study
