#include "study/archive/study_place.h"

#include "files/files.h"
#include "files/json_file.h"
#include "files/printable.h"
#include "results/counters.h"
#include "results/gate.h"
#include "results/history.h"
#include "results/plan.h"
#include "results/trace.h"
#include "study/archive/study_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>

namespace ablations {

namespace fs = std::filesystem;
using files::Json;

namespace {

constexpr std::string_view packed_ending = ".study.json";
constexpr size_t largest_file = size_t{64} << 20;

// Below the folder, also where links lead elsewhere: the folder is new.
fs::path place_of(const Json& line, const std::string& where) {
  const Json file = files::field_or_null(line, "file");
  if (!file.is_string() || !line.contains("document")) {
    throw std::invalid_argument(where + R"(: not {"file": "records/ID.json", "document": {...}})");
  }
  fs::path relative = fs::path(file.get<std::string>()).lexically_normal();
  if (relative.empty() || relative.is_absolute() || *relative.begin() == ".." || !relative.has_filename()) {
    throw std::invalid_argument(
        fmt::format("{}: the file {} is outside the study's folder", where, files::in_quotes(file.get<std::string>())));
  }
  return relative;
}

template <class T>
void check_it(const Json& document, const std::string& where) {
  (void)value_from<T>(document, where);
}

void unpack(const fs::path& lines, const fs::path& folder) {
  const std::string text = files::read_file(lines, largest_file);
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string where = fmt::format("{}: line {}", lines.string(), ++number);
    if (end > begin) {
      const Json line = files::parse_json(std::string_view(text).substr(begin, end - begin), where);
      const fs::path place = place_of(line, where);
      const Json& document = line.at("document");
      const Json kind = files::kind_of(document);
      static const std::map<std::string, void (*)(const Json&, const std::string&)> checks{
          {"plan", check_it<Plan>},           {"record", check_it<Record>},
          {"trace", check_it<TraceDocument>}, {"counters", check_it<CountersDocument>},
          {"noise", check_it<Noise>},         {"gate", check_it<GateResult>},
          {"history", check_it<History>}};
      const auto check = checks.find(kind.is_string() ? kind.get<std::string>() : "");
      if (check == checks.end()) {
        throw std::invalid_argument(
            fmt::format("{}: \"kind\" must be one of counters, gate, history, noise, plan, record, trace, got {}",
                        where, files::shown_value(kind)));
      }
      check->second(document, where);
      if (fs::exists(folder / place)) {  // only one of the two would count, unseen
        throw std::invalid_argument(
            fmt::format("{}: the file {} appears twice", where, files::in_quotes(place.string())));
      }
      fs::create_directories((folder / place).parent_path());
      files::write_json(folder / place, document);
    }
    begin = end + 1;
  }
}

// The studies in a folder that is not a study itself.
std::set<std::string> studies_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_packed_study(entry.path()) || fs::exists(entry.path() / "plan.json")) {
      names.insert(files::printable(entry.path().filename().string()));
    }
  }
  return names;
}

}  // namespace

bool is_packed_study(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.size() > packed_ending.size() && name.ends_with(packed_ending);
}

StudyPlace::StudyPlace(const fs::path& path) : folder_(files::named_folder(path)), name_(last_part(path)) {
  if (!fs::exists(path)) throw std::invalid_argument(fmt::format("{}: no such file or folder", path.string()));
  if (path.filename() == "study.json") {
    folder_ = files::named_folder(fs::absolute(path).parent_path());
    name_ = last_part(folder_);
  }
  if (fs::is_directory(folder_)) {
    if (fs::exists(folder_ / "plan.json")) return;
    const auto there = studies_in(folder_);
    const std::string name_one = there.empty() ? "" : fmt::format("; name one in it: {}", fmt::join(there, ", "));
    throw std::invalid_argument(fmt::format("{}: holds no study (no plan.json){}", folder_.string(), name_one));
  }
  if (!is_packed_study(path)) {
    throw std::invalid_argument(
        fmt::format("{}: must be a study: its folder, its study.json, or NAME.study.json", path.string()));
  }
  const std::string name = path.filename().string();
  const fs::path lines = path.parent_path() / (name.substr(0, name.size() - packed_ending.size()) + ".records.jsonl");
  folder_ = unpacked_.emplace("ladder-study").path();
  files::write_file(folder_ / "study.json", files::read_file(path, largest_file));
  unpack(lines, folder_);
  if (!fs::exists(folder_ / "plan.json")) {
    throw std::invalid_argument(fmt::format("{}: has no plan.json, which a study needs", lines.string()));
  }
}

}  // namespace ablations
