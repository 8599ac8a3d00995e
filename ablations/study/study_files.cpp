#include "ablations/study/study_files.h"

#include "ablations/run/study_folder.h"
#include "ablations/study/analysis.h"
#include "ablations/study/measured.h"
#include "ablations/study/verify.h"
#include "files/files.h"
#include "files/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace ablations {

namespace fs = std::filesystem;
using files::printable;
using harness::Json;

namespace {

constexpr size_t largest_file = size_t{64} << 20;

std::vector<Json> traces_in(const fs::path& folder) {
  std::set<fs::path> found;
  if (fs::is_directory(folder / "traces")) {
    for (const auto& entry : fs::directory_iterator(folder / "traces")) {
      if (entry.path().filename().string().ends_with(".trace.json")) found.insert(entry.path());
    }
  }
  std::vector<Json> traces;
  traces.reserve(found.size());
  for (const fs::path& file : found) traces.push_back(harness::read_json(file, "trace"));
  return traces;
}

// The record at a place within the study's folder; null where there is no such file.
Json record_at(const fs::path& folder, const std::string& place, const std::string& where) {
  const fs::path relative = fs::path(place).lexically_normal();
  if (relative.empty() || relative.is_absolute() || *relative.begin() == "..") {
    throw std::invalid_argument(
        fmt::format("{}: the record {} is outside the study's folder", where, files::in_quotes(place)));
  }
  return fs::exists(folder / relative) ? harness::read_json(folder / relative, "record") : Json();
}

struct Lines {
  std::multimap<std::string, Json> records;  // by the run's id: a disturbed run has two
  std::vector<Json> traces;
};

// One record, trace or counters document on a line.
Lines read_lines(const fs::path& file) {
  Lines lines;
  const std::string text = files::read_file(file, largest_file);
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const std::string where = fmt::format("{}: line {}", file.string(), ++number);
    begin = end + 1;
    if (line.empty()) continue;
    Json document = harness::parse_json(line, where);
    const Json kind = harness::kind_of(document);
    if (kind == "trace") {
      harness::check_schema(document, "trace", where);
      lines.traces.push_back(std::move(document));
    } else if (kind == "counters") {  // kept beside them; no page shows it
      harness::check_schema(document, "counters", where);
    } else {
      harness::check_schema(document, "record", where);
      std::string id = document.at("id");
      lines.records.emplace(std::move(id), std::move(document));
    }
  }
  return lines;
}

// Whether the record is the one from which the study has the run's time.
bool is_record_of(const Json& record, const Json& run) {
  if (record.is_null() || record.at("status") != "ok" || run.at("status") != "ok") return false;
  const double stated = run.at("median_ms").is_null() ? NAN : run.at("median_ms").get<double>();
  return record.at("id") == run.at("id") && std::abs(run_data(record).median_ms / stated - 1) < 1e-9;
}

void note_what_is_lacking(StudyFiles& files, size_t missing, size_t others) {
  if (missing > 0) {
    files.notes.push_back(fmt::format("{}: the records of {} of {} runs are not there; their steps are not shown",
                                      files.source, missing, files.records.size()));
  }
  if (others > 0) {
    files.notes.push_back(
        fmt::format("{}: {} records are not those that the study was made from; their steps are not "
                    "shown",
                    files.source, others));
  }
}

}  // namespace

std::string last_part(const fs::path& path) {
  return printable(fs::weakly_canonical(fs::absolute(path)).filename().string());
}

StudyFiles computed_study(const Plan& plan, const fs::path& folder) {
  StudyFiles files{.source = last_part(folder), .computed_again = true, .study = sealed(analyse(plan, folder), folder)};
  for (const Json& run : files.study.at("runs")) {
    files.records.push_back(run.at("status") == "ok" ? harness::read_json(folder / run.at("record"), "record")
                                                     : Json());
  }
  for (const Rung& rung : plan.rungs) {
    if (const fs::path file = trace_file(folder, rung); fs::exists(file)) {
      files.traces.push_back(harness::read_json(file, "trace"));
    }
  }
  return files;
}

StudyFiles stored_study(const fs::path& path) {
  const bool is_folder = fs::is_directory(path);
  const fs::path file = is_folder ? path / "study.json" : path;
  StudyFiles files{.source = last_part(path), .computed_again = false, .study = harness::read_json(file, "study")};
  check_study(files.study, file.string());
  complete_study(files.study);
  files.notes.push_back(
      fmt::format("{}: shown as its study.json says; without its plan nothing was computed again", files.source));
  Lines lines;
  if (is_folder) {
    files.traces = traces_in(path);
  } else {
    const std::string name = file.filename().string();
    const fs::path beside = file.parent_path() / (name.substr(0, name.size() - 11) + ".records.jsonl");
    if (fs::exists(beside)) lines = read_lines(beside);
    files.traces = std::move(lines.traces);
  }
  size_t missing = 0, others = 0;
  for (const Json& run : files.study.at("runs")) {
    files.records.emplace_back();
    if (run.at("record").is_null() || run.at("status") != "ok") continue;
    std::vector<Json> candidates;
    if (is_folder) {
      Json record = record_at(path, run.at("record"), file.string());
      if (!record.is_null()) candidates.push_back(std::move(record));
    } else {
      const auto [begin, end] = lines.records.equal_range(run.at("id"));
      for (auto at = begin; at != end; ++at) candidates.push_back(at->second);
    }
    const auto own = std::ranges::find_if(candidates, [&](const Json& record) { return is_record_of(record, run); });
    if (own != candidates.end()) {
      files.records.back() = *own;
    } else {
      ++(candidates.empty() ? missing : others);
    }
  }
  note_what_is_lacking(files, missing, others);
  return files;
}

void complete_study(Json& study) {
  if (!study.contains("mode")) study["mode"] = "cumulative";
  if (!study.contains("attribution")) study["attribution"] = Json::array();
  Json& rungs = study["rungs"];
  const auto first = std::ranges::find_if(rungs, [](const Json& rung) {
    return rung.at("status") == "measured" && rung.at("guard").is_null() && !rung.contains("peer");
  });
  for (Json& rung : rungs) {
    const bool plain = rung.at("index") == 0 || rung.contains("peer");
    if (!rung.contains("label")) rung["label"] = (plain ? "" : "+ ") + rung.at("title").get<std::string>();
    if (first == rungs.end() || rung.at("guard").is_null() || rung["guard"].contains("guarded_by")) continue;
    rung["guard"]["guarded_by"] = first - rungs.begin();
  }
}

void check_study(const Json& study, const std::string& where) {
  const Json& rungs = study.at("rungs");
  const auto refuse = [&](const std::string& what) { throw std::invalid_argument(where + ": " + what); };
  const auto check_rung = [&](const Json& rung, const std::string& who) {
    if (rung.get<int64_t>() < 0 || rung.get<size_t>() >= rungs.size()) {
      refuse(fmt::format("{} refers to rung {}; there are {}, counted from 0", who, rung.dump(), rungs.size()));
    }
  };
  for (size_t i = 0; i < rungs.size(); ++i) {
    const Json& rung = rungs[i];
    const std::string who = fmt::format("field [rungs][{}]", i);
    if (rung.at("index") != i) refuse(fmt::format("{} has the index {}", who, rung.at("index").dump()));
    if (!rung.at("ms_per_step").is_null() && rung.at("tokens_per_s").is_null()) {
      refuse(who + " has a time and no \"tokens_per_s\"");
    }
    if (const Json mfu = rung.value("mfu", Json());
        !mfu.is_null() && !mfu.at("value").is_null() &&
        (mfu.at("peak_flops").is_null() || mfu.at("peak_source").is_null())) {
      refuse(who + " has an MFU without its peak");
    }
    if (study.contains("swept") && !rung.contains("workload")) refuse(who + " of a sweep has no \"workload\"");
    if (rung.contains("against")) check_rung(rung.at("against"), who);
    for (const Json& peer : rung.value("peers", Json::array())) check_rung(peer.at("rung"), who);
    if (const Json& guard = rung.at("guard"); guard.contains("guarded_by")) check_rung(guard.at("guarded_by"), who);
  }
  if (const Json& headline = study.at("headline"); !headline.is_null()) {
    for (const char* end : {"first", "last"}) check_rung(headline.at(end), "field [headline]");
  }
  for (size_t i = 0; i < study.at("runs").size(); ++i) {
    const Json& run = study.at("runs")[i];
    const std::string who = fmt::format("field [runs][{}]", i);
    check_rung(run.at("rung"), who);
    for (const char* field : {"repeat", "position"}) {
      if (run.at(field).get<int64_t>() < 0) refuse(fmt::format("{}: \"{}\" is {}", who, field, run.at(field).dump()));
    }
  }
}

}  // namespace ablations
