#include "plots/export.h"

#include "files/printable.h"
#include "harness/stats/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
  return value.is_number() && std::isfinite(value.get<double>()) ? value.dump() : "";
}

// Cells in order, with what they are called.
using Row = std::vector<std::pair<std::string, Json>>;

class Table {
 public:
  explicit Table(const Row& columns) {
    for (const auto& [name, ignored] : columns) text_ += (text_.empty() ? "" : ",") + name;
    text_ += line_end;
  }
  void add(const Row& row) {
    for (size_t i = 0; i < row.size(); ++i) text_ += (i == 0 ? "" : ",") + cell(row[i].second);
    text_ += line_end;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

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

void add_bounded(Row& row, const std::string& name, const char* center, const std::optional<double>& value,
                 const Bounds& bounds) {
  row.emplace_back(name + "_" + center, or_null(value));
  row.emplace_back(name + "_lo", or_null(bounds.lo));
  row.emplace_back(name + "_hi", or_null(bounds.hi));
}

void add_ratio(Row& row, const std::string& name, const std::optional<Ratio>& ratio) {
  add_bounded(row, name, "ratio", ratio ? std::optional(ratio->ratio) : std::nullopt, ratio.value_or(Ratio{}));
  row.emplace_back(name + "_pairs", ratio ? Json(ratio->pairs) : Json());
}

// Columns that a table has only where one of the report's studies is about batches.
bool has_batches(const Report& report) {
  return std::ranges::any_of(report.studies, [](const ReportedStudy& entry) { return is_about_batches(entry.study); });
}

void add_batches(Row& row, const std::optional<RungBatches>& batches) {
  const RungBatches known = batches.value_or(RungBatches{});
  add_bounded(row, "data_ms", "median", batches ? std::optional(known.ms.median) : std::nullopt, known.ms);
  row.emplace_back("data_share", batches ? Json(known.share) : Json());
  row.emplace_back("data_bytes_read", or_null(known.bytes_read));
  row.emplace_back("data_storage_bytes", or_null(known.storage_bytes));
  row.emplace_back("data_major_faults", batches ? Json(known.major_faults) : Json());
  row.emplace_back("data_resident_bytes", or_null(known.resident_bytes));
  row.emplace_back("data_file_bytes", batches ? Json(known.file_bytes) : Json());
  row.emplace_back("data_cached_before", or_null(known.cached_before));
  row.emplace_back("data_cached_after", or_null(known.cached_after));
}

// The cells of a rung by their columns' names. An empty study and rung give the names alone.
Row rung_row(const std::string& source, const Study& study, const StudyRung& rung, bool with_batches) {
  Row row{{"study", source},
          {"index", rung.index},
          {"optimization", or_null(rung.optimization)},
          {"title", rung.title},
          {"label", short_label(rung)},
          {"peer", or_null(rung.peer)},
          {"status", name_of(rung.status)},
          {"reason", rung.reason},
          {"runs_ok", rung.runs_ok}};
  const auto& ms = rung.ms_per_step;
  const auto of_steps = [&](double RungTimes::*field) { return ms ? Json((*ms).*field) : Json(); };
  add_bounded(row, "ms_per_step", "median", ms ? std::optional(ms->median) : std::nullopt, ms.value_or(RungTimes{}));
  row.emplace_back("ms_per_step_q1", of_steps(&RungTimes::q1));
  row.emplace_back("ms_per_step_q3", of_steps(&RungTimes::q3));
  row.emplace_back("ms_per_step_min", of_steps(&RungTimes::min));
  row.emplace_back("ms_per_step_max", of_steps(&RungTimes::max));
  const auto& tokens = rung.tokens_per_s;
  add_bounded(row, "tokens_per_s", "median", tokens ? std::optional(tokens->median) : std::nullopt,
              tokens.value_or(Median{}));
  add_ratio(row, "speedup_previous", rung.speedup_against);
  add_ratio(row, "speedup_first", rung.speedup_first);
  row.emplace_back("peak_memory_bytes", or_null(rung.peak_memory_bytes));
  const RunMemory memory = rung.memory.value_or(RunMemory{});
  row.emplace_back("reserved_peak_bytes", or_null(memory.reserved_peak_bytes));
  row.emplace_back("weights_bytes", or_null(memory.weights_bytes));
  row.emplace_back("gradients_bytes", or_null(memory.gradients_bytes));
  row.emplace_back("optimizer_bytes", or_null(memory.optimizer_bytes));
  row.emplace_back("weight_copies_bytes", or_null(memory.weight_copies_bytes));
  row.emplace_back("activations_bytes", or_null(memory.activations_bytes));
  if (with_batches) {
    row.emplace_back("page_faults_per_step", or_null(rung.page_faults_per_step));
    add_batches(row, rung.batches);
  }
  row.emplace_back("mfu", rung.mfu ? or_null(rung.mfu->value) : Json());
  row.emplace_back("joules_per_token", or_null(rung.joules_per_token));
  const RungGuard guard = rung.guard.value_or(RungGuard{});
  row.emplace_back("guard", rung.guard ? Json(guard.passed ? "passed" : "failed") : Json());
  row.emplace_back("guard_deviation", or_null(guard.deviation));
  row.emplace_back("guard_max_deviation", or_null(guard.max_deviation));
  row.emplace_back("guard_tolerance", rung.guard ? Json(guard.tolerance) : Json());
  row.emplace_back("proofs_passed", std::ranges::count(rung.proofs, true, &Proof::passed));
  row.emplace_back("proofs", rung.proofs.size());
  row.emplace_back("device", study.device.name);
  row.emplace_back("model", study.workload.model);
  const StepSize size = size_of(study, rung);
  row.emplace_back("B", size.B);
  row.emplace_back("T", size.T);
  row.emplace_back("accumulation", size.accumulation);
  row.emplace_back("study_id", study.id);
  return row;
}

// The cells of a step by their columns' names. An empty run and rung give the names alone.
Row step_row(const std::string& source, const ReportedRun& run, const StudyRung& rung, size_t step, bool with_batches) {
  Row row{{"study", source},
          {"run", run.id},
          {"rung", run.rung},
          {"label", short_label(rung)},
          {"repeat", run.repeat},
          {"position", run.position},
          {"step", step + 1},
          {"warmup", std::cmp_less(step, run.warmup_steps) ? 1 : 0},
          {"ms", step < run.step_ms.size() ? Json(run.step_ms[step]) : Json()},
          {"loss", step < run.loss.size() ? or_null(run.loss[step]) : Json()},
          {"disturbed", run.flags.empty() ? 0 : 1}};
  if (with_batches) row.emplace_back("data_ms", step < run.data_ms.size() ? Json(run.data_ms[step]) : Json());
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
      double mean = 0, squares = 0;
      for (const double value : values) mean += value / static_cast<double>(values.size());
      for (const double value : values) squares += (value - mean) * (value - mean);
      const double deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
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

}  // namespace

std::string rungs_csv(const Report& report) {
  const bool with_batches = has_batches(report);
  Table table(rung_row({}, {}, {}, with_batches));
  for (const ReportedStudy& entry : report.studies) {
    for (const StudyRung& rung : entry.study.rungs) {
      table.add(rung_row(entry.source, entry.study, rung, with_batches));
    }
  }
  return table.text();
}

std::string steps_csv(const Report& report) {
  const bool with_batches = has_batches(report);
  Table table(step_row({}, {}, {}, 0, with_batches));
  for (const ReportedStudy& entry : report.studies) {
    for (const ReportedRun& run : entry.runs) {
      const StudyRung& rung = entry.study.rungs.at(run.rung);
      for (size_t step = 0; step < run.step_ms.size(); ++step) {
        table.add(step_row(entry.source, run, rung, step, with_batches));
      }
    }
  }
  return table.text();
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

}  // namespace plots
