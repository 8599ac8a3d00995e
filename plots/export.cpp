#include "plots/export.h"

#include "files/printable.h"
#include "harness/stats/stats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace plots {

using files::Json;

namespace {

constexpr const char* line_end = "\r\n";

// Line ends stay; all other characters that are not text are spelled out.
std::string text_cell(const std::string& text) {
  std::string shown;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    shown += (begin == 0 ? "" : "\n") + files::printable(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (shown.find_first_of("=+-@") == 0) shown.insert(0, 1, ' ');
  if (shown.find_first_of(",\"\n") == std::string::npos) return shown;
  std::string quoted = "\"";
  for (const char c : shown) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string cell(const Json& value) {
  if (value.is_string()) return text_cell(value);
  if (value.is_boolean()) return value.dump();
  return value.is_number() && std::isfinite(value.get<double>()) ? value.dump() : "";
}

// A row's cells by their columns' names.
using Row = std::map<std::string, Json>;

// Rows that may lack columns: those of `columns` come first, others behind them by the alphabet.
std::string table(std::vector<std::string> columns, const std::vector<Row>& rows) {
  std::set<std::string> more;
  for (const Row& row : rows) {
    for (const auto& [name, ignored] : row) more.insert(name);
  }
  for (const std::string& name : columns) more.erase(name);
  columns.insert(columns.end(), more.begin(), more.end());
  std::vector<std::string> heads;
  for (const std::string& name : columns) heads.push_back(text_cell(name));
  std::string text = fmt::format("{}{}", fmt::join(heads, ","), line_end);
  for (const Row& row : rows) {
    std::string separator;
    for (const std::string& name : columns) {
      const auto found = row.find(name);
      text += std::exchange(separator, ",") + (found == row.end() ? "" : cell(found->second));
    }
    text += line_end;
  }
  return text;
}

// The numbers, texts and truths of a document, each called by the way to it: "speedup_first_ratio". Lists are left out.
void add_cells(Row& row, const std::string& name, const Json& value) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) add_cells(row, name.empty() ? key : name + "_" + key, inner);
  } else if (!value.is_array() && !value.is_null()) {
    row[name] = value;
  }
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// A rung's label without the "+ " by which a ladder shows that it adds to others.
std::string short_label(const StudyRung& rung) {
  return rung.label.starts_with("+ ") ? rung.label.substr(2) : rung.label;
}

// The size of the rung's step; where the rung has none, of the study's.
StepSize size_of(const Study& study, const StudyRung& rung) {
  if (rung.workload) return *rung.workload;
  const Workload& workload = study.workload;
  return {{.B = workload.B, .T = workload.T, .accumulation = workload.accumulation}, workload.tokens_per_step};
}

Row rung_row(const std::string& source, const Study& study, const StudyRung& rung) {
  Json told = json_of(rung);
  for (const char* prose : {"summary", "text", "recipe_diff", "explanation", "changed"}) told.erase(prose);
  Row row;
  add_cells(row, "", told);
  row["study"] = source;
  row["study_id"] = study.id;
  row["label"] = short_label(rung);
  row["proofs"] = rung.proofs.size();
  row["proofs_passed"] = std::ranges::count(rung.proofs, true, &Proof::passed);
  row["device"] = study.device.name;
  row["model"] = study.workload.model;
  return row;
}

Row step_row(const std::string& source, const ReportedRun& run, const StudyRung& rung, size_t step) {
  Row row{{"study", source},         {"run", run.id},
          {"rung", run.rung},        {"label", short_label(rung)},
          {"repeat", run.repeat},    {"position", run.position},
          {"step", step + 1},        {"warmup", std::cmp_less(step, run.warmup_steps) ? 1 : 0},
          {"ms", run.step_ms[step]}, {"disturbed", run.flags.empty() ? 0 : 1}};
  if (step < run.loss.size()) row["loss"] = or_null(run.loss[step]);
  if (step < run.data_ms.size()) row["data_ms"] = run.data_ms[step];
  return row;
}

std::vector<double> timed_ms(const ReportedRun& run) {
  const auto warmup = std::min(run.warmup_steps, std::ssize(run.step_ms));
  return {run.step_ms.begin() + warmup, run.step_ms.end()};
}

// The name that a rung has in any study: the optimization that it adds. A rung that leaves one out, or has several, is
// "start" or its title.
std::string name_in(const Study& study, const StudyRung& rung) {
  if (rung.peer) return fmt::format("{}-{}", name_in(study, study.rungs[*rung.against]), *rung.peer);
  if (rung.optimization && study.mode != Mode::leave_one_out) return *rung.optimization;
  return rung.recipe == study.rungs.front().recipe ? "start" : rung.title;
}

// A name for each rung, unique within the study, in the letters of a benchmark's name.
std::vector<std::string> names_of(const Study& study, const std::string& prefix) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const StudyRung& rung : study.rungs) {
    std::string name = name_in(study, rung);
    for (char& c : name) c = c == ' ' || c == '/' ? '_' : c;
    name = files::printable(name).insert(0, prefix);
    if (study.swept) name += fmt::format("/{}:{}", name_of(*study.swept), swept_size(*study.swept, rung));
    if (!taken.insert(name).second) {
      name += fmt::format("/{}", names.size());
      taken.insert(name);
    }
    names.push_back(name);
  }
  return names;
}

// Mean, median, standard deviation and coefficient of variation over a benchmark's runs, as Google Benchmark has them.
void add_aggregates(const std::vector<Json>& runs, Json& benchmarks) {
  if (runs.size() < 2) return;
  for (const char* aggregate : {"mean", "median", "stddev", "cv"}) {
    const std::string_view kind = aggregate;
    Json entry = runs.front();
    entry.erase("repetition_index");
    entry["name"] = fmt::format("{}_{}", runs.front().at("run_name").get<std::string>(), aggregate);
    entry.update({{"run_type", "aggregate"},
                  {"aggregate_name", aggregate},
                  {"aggregate_unit", kind == "cv" ? "percentage" : "time"},
                  {"iterations", runs.size()}});
    for (const char* field : {"real_time", "cpu_time", "items_per_second", "tokens_per_second"}) {
      std::vector<double> values;
      values.reserve(runs.size());
      for (const Json& run : runs) values.push_back(run.at(field));
      const auto [mean, deviation] = harness::moments(values);
      entry[field] = files::finite_or_null(kind == "mean"     ? mean
                                           : kind == "median" ? harness::median(values)
                                           : kind == "stddev" ? deviation
                                                              : deviation / mean);
    }
    benchmarks.push_back(entry);
  }
}

void add_benchmarks(const ReportedStudy& entry, const std::string& prefix, int64_t& family, Json& benchmarks,
                    std::string& left_out) {
  const Study& study = entry.study;
  const std::vector<std::string> names = names_of(study, prefix + study.ladder.name + "/");
  std::map<size_t, std::vector<const ReportedRun*>> runs_of;
  for (const ReportedRun& run : entry.runs) {
    if (run.status == RunStatus::ok && !timed_ms(run).empty()) runs_of[run.rung].push_back(&run);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const StudyRung& rung = study.rungs[i];
    Json common{{"name", names[i]},         {"run_name", names[i]},
                {"family_index", family++}, {"per_family_instance_index", 0},
                {"run_type", "iteration"},  {"threads", 1},
                {"time_unit", "ms"},        {"label", files::printable(rung.label)}};
    if (!rung.is_measured()) {
      left_out += fmt::format("{}{}: {}", left_out.empty() ? "" : "; ", names[i], name_of(rung.status));
      continue;
    }
    const auto& runs = runs_of[i];
    const auto tokens = static_cast<double>(size_of(study, rung).tokens_per_step);
    std::vector<Json> made;
    for (size_t repetition = 0; repetition < runs.size(); ++repetition) {
      const std::vector<double> ms = timed_ms(*runs[repetition]);
      const double median = harness::median(ms);
      const double rate = 1000 * tokens / median;
      Json run = common;
      run.update({{"repetitions", runs.size()},
                  {"repetition_index", repetition},
                  {"iterations", ms.size()},
                  {"real_time", median},
                  {"cpu_time", median},
                  {"items_per_second", rate},
                  {"tokens_per_second", rate}});
      benchmarks.push_back(run);
      made.push_back(run);
    }
    add_aggregates(made, benchmarks);
  }
}

// "2026-11-21T11:05:00Z" as Google Benchmark writes it.
std::string date_of(std::string created) {
  if (created.ends_with('Z')) created.replace(created.size() - 1, 1, "+00:00");
  return created;
}

// hyperfine's --export-json, in seconds: of a rung a time for each run that ended well.
Json hyperfine_json(const Report& report) {
  Json results = Json::array();
  for (const ReportedStudy& entry : report.studies) {
    for (const StudyRung& rung : entry.study.rungs) {
      std::vector<double> times;
      for (const ReportedRun& run : entry.runs) {
        const bool is_its = run.rung == rung.index && run.status == RunStatus::ok && !timed_ms(run).empty();
        if (is_its) times.push_back(harness::median(timed_ms(run)) / 1000);
      }
      if (!rung.is_measured() || times.empty()) continue;
      const auto [mean, deviation] = harness::moments(times);
      results.push_back({{"command", files::printable(rung.command ? rung.command->typed : rung.label)},
                         {"mean", mean},
                         {"stddev", files::finite_or_null(deviation)},
                         {"median", harness::median(times)},
                         {"min", std::ranges::min(times)},
                         {"max", std::ranges::max(times)},
                         {"times", times}});
    }
  }
  return {{"results", results}};
}

}  // namespace

std::string rungs_csv(const Report& report) {
  std::vector<Row> rows;
  for (const ReportedStudy& entry : report.studies) {
    for (const StudyRung& rung : entry.study.rungs) rows.push_back(rung_row(entry.source, entry.study, rung));
  }
  return table({"study", "index", "optimization", "title", "label", "status", "reason", "runs_ok"}, rows);
}

std::string steps_csv(const Report& report) {
  std::vector<Row> rows;
  for (const ReportedStudy& entry : report.studies) {
    for (const ReportedRun& run : entry.runs) {
      for (size_t step = 0; step < run.step_ms.size(); ++step) {
        rows.push_back(step_row(entry.source, run, entry.study.rungs.at(run.rung), step));
      }
    }
  }
  return table({"study", "run", "rung", "label", "repeat", "position", "step", "warmup", "ms", "loss", "disturbed"},
               rows);
}

Json benchmark_json(const Report& report) {
  const std::vector<ReportedStudy>& studies = report.studies;
  const Study& first = studies.front().study;
  const Environment& environment = first.environment;
  Json context{
      {"date", date_of(first.created)},
      {"host_name", ""},
      {"executable", "ladder"},
      {"num_cpus", or_null(environment.cpu.logical_cores)},
      {"mhz_per_cpu", 0},
      {"caches", Json::array()},
      {"load_avg", environment.load_average.value_or(std::vector<double>{})},
      {"library_version", environment.git_commit.value_or("")},
      {"library_build_type",
       environment.compiler_flags.value_or("").find("-DNDEBUG") == std::string::npos ? "debug" : "release"},
      {"json_schema_version", 1},
      {"not_measured", "cpu_time: the time of a step by the wall clock stands there. mhz_per_cpu: 0 stands there"},
      {"real_time", "the median of a run's timed steps; a run is one repetition, in a process of its own"},
      {"device", first.device.name},
      {"study", first.id}};
  if (const std::optional<std::string> governor = environment.governor.value_or(std::nullopt)) {
    context["cpu_scaling_enabled"] = *governor != "performance";
  }
  if (studies.size() == 2) context["second_study"] = studies[1].study.id;
  Json benchmarks = Json::array();
  int64_t family = 0;
  std::string left_out;
  for (const ReportedStudy& entry : studies) {
    add_benchmarks(entry, studies.size() == 1 ? "" : entry.source + "/", family, benchmarks, left_out);
  }
  if (!left_out.empty()) context["left_out"] = left_out;
  return {{"context", context}, {"benchmarks", benchmarks}};
}

const std::vector<Export> exports{{"rungs.csv", "a table", rungs_csv},
                                  {"steps.csv", "another", steps_csv},
                                  {"benchmark.json", "for Google Benchmark's compare.py",
                                   [](const Report& report) { return benchmark_json(report).dump(1) + "\n"; }},
                                  {"hyperfine.json", "for hyperfine's scripts",
                                   [](const Report& report) { return hyperfine_json(report).dump(1) + "\n"; }}};

}  // namespace plots
