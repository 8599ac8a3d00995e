#include "ablations/study/study_files.h"

#include "ablations/run/study_folder.h"
#include "ablations/study/analysis.h"
#include "files/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace ablations {

namespace fs = std::filesystem;
using files::printable;
using harness::Json;

namespace {

// What the record beside it was at first; null where there is no such file.
Json first_of(const fs::path& record) {
  const fs::path file = flagged_file(record);
  return fs::exists(file) ? harness::read_json(file, "record") : Json();
}

}  // namespace

std::string last_part(const fs::path& path) {
  return printable(fs::weakly_canonical(fs::absolute(path)).filename().string());
}

StudyFiles computed_study(const Plan& plan, const fs::path& folder) {
  check_records_are_of(plan, folder, Unnamed::counts);
  StudyFiles files{.source = last_part(folder), .study = sealed(analyse(plan, folder), folder)};
  files.edits = edits_since(plan, folder);
  for (const Json& run : files.study.at("runs")) {
    const bool ok = run.at("status") == "ok";
    const fs::path file = ok ? folder / run.at("record").get<std::string>() : fs::path();
    files.records.push_back(ok ? harness::read_json(file, "record") : Json());
    files.first_records.push_back(ok ? first_of(file) : Json());
  }
  for (const Rung& rung : plan.rungs) {
    if (const fs::path file = trace_file(folder, rung); fs::exists(file)) {
      files.traces.push_back(harness::read_json(file, "trace"));
    }
  }
  if (fs::is_directory(folder / "with")) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / "with")) {
      if (entry.path().extension() == ".json") files.with.push_back(entry.path());
    }
    std::ranges::sort(files.with);
  }
  return files;
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
    for (const char* end : {"first", "last", "fastest", "planned"}) {
      if (headline.contains(end)) check_rung(headline.at(end), "field [headline]");
    }
    if (headline.contains("fastest")) {
      const Json& rung = rungs.at(headline.at("fastest").get<size_t>());
      if (rung.at("speedup_first").is_null()) refuse("field [headline] calls a rung the fastest that has no speedup");
      if (rung.at("ms_per_step").is_null()) refuse("field [headline] calls a rung the fastest that has no time");
    }
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
