#include "plots/verify_exports.h"

#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "plots/export.h"
#include "plots/predictions.h"
#include "plots/remarks.h"
#include "plots/report.h"
#include "study/archive/study_files.h"
#include "study/archive/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

namespace ablations {

namespace fs = std::filesystem;
using files::Json;

namespace {

constexpr uint64_t most_bytes = uint64_t{256} << 20;

// The first line in which two texts differ.
std::vector<Finding> compare_texts(const std::string& file, const std::string& stored, const std::string& expected) {
  if (stored == expected) return {};
  const auto [left, right] = std::ranges::mismatch(stored, expected);
  const auto begin = static_cast<size_t>(left - stored.begin());
  const auto line = 1 + std::count(stored.begin(), left, '\n');
  const auto rest = [&](const std::string& text) {
    const size_t start = begin == 0 ? 0 : text.rfind('\n', begin - 1) + 1;  // npos + 1 is 0
    return text.substr(start, std::min(text.find_first_of("\r\n", begin), text.size()) - start);
  };
  return {{file, "", fmt::format("line {}: {}", line, rest(stored)), rest(expected)}};
}

// The study's own part of a report. Where the folder lay when it was drawn belongs to the report. So does what is shown
// beside the study.
std::vector<Finding> compare_report(const Json& report, const fs::path& folder, const Study& study) {
  Json stored = report.at("studies").at(0);
  if (stored.at("study").at("sha256") != *study.sha256) {  // everything else would follow
    return {{"report.json", "/studies/0/study/sha256", dumped(stored.at("study").at("sha256")),
             dumped(*study.sha256) + ", as study.json has it (ladder report draws it again)"}};
  }
  StudyFiles files = computed_study(open_study(folder), folder);
  files.study = study;
  Report document = report_document({files});
  const auto whole = value_from<Report>(report, "report.json");
  document.noise = whole.noise;  // which the remarks tell of
  document.studies.at(0).noise = whole.studies.at(0).noise;
  document.studies.at(0).predictions = predictions_of(study, whole.traces);  // which follow from traces beside it, too
  Json expected = json_of(with_said(std::move(document)).studies.at(0));
  for (const char* field : {"source", "noise"}) {
    stored.erase(field);
    expected.erase(field);
  }
  // There and back, so that numbers have the types that JSON gives them.
  return compare_documents("report.json", stored, Json::parse(dumped(expected)), "/studies/0");
}

// All of the folder's files but study.json and those that it has hashes of.
std::vector<std::string> files_without_hash(const fs::path& folder, const Study& study) {
  std::vector<std::string> files;
  const auto is_without = [&](const fs::path& file) {
    const std::string name = file.lexically_relative(folder).generic_string();
    return name != study_file && !study.hashes->contains(name);
  };
  for (const fs::path& file : files::files_below(folder, is_without)) {
    files.push_back(file.lexically_relative(folder).generic_string());
  }
  return files;
}

}  // namespace

ExportVerification verify_exports(const fs::path& folder, const Study& study) {
  ExportVerification result{.findings = {}, .not_covered = files_without_hash(folder, study)};
  const auto cover = [&](const std::string& name, const std::function<std::vector<Finding>()>& compare) {
    const auto file = std::ranges::find(result.not_covered, name);
    if (file == result.not_covered.end()) return;
    result.not_covered.erase(file);
    std::vector<Finding> findings;
    try {
      findings = compare();
    } catch (const std::exception& error) {  // a file that cannot be read
      findings.push_back({name, "", error.what(), "what ladder report writes there"});
    }
    std::ranges::move(findings, std::back_inserter(result.findings));
  };
  const fs::path report_file = folder / "report.json";
  std::optional<Report> report;
  if (fs::exists(report_file)) {
    try {
      report = read_document<Report>(report_file);
    } catch (const std::exception&) {  // said below
    }
    if (report && report->studies.size() != 1) return result;
  }
  cover("report.json", [&] {
    // As it is written, with what a report does not have.
    const Json stored = files::read_any_json(report_file);
    (void)value_from<Report>(stored, report_file.string());
    return compare_report(stored, folder, study);
  });
  if (!report) return result;
  const std::pair<const char*, std::function<std::string()>> tables[] = {
      {"rungs.csv", [&] { return rungs_csv(*report); }},
      {"steps.csv", [&] { return steps_csv(*report); }},
      {"benchmark.json", [&] { return benchmark_json(*report).dump(1) + "\n"; }}};
  for (const auto& [name, make] : tables) {
    cover(name, [&, name = name, &make = make] {
      return compare_texts(name, files::read_file(folder / name, most_bytes), make());
    });
  }
  return result;
}

}  // namespace ablations
