#include "ablations/report/export.h"

#include "files/printable.h"
#include "harness/stats.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace ablations {

using harness::Json;

namespace {

constexpr const char* line_end = "\r\n";

// What stands at a place of the document; null where something on the way is not there.
Json at(const Json& document, std::initializer_list<const char*> place) {
  const Json* value = &document;
  for (const char* key : place) {
    if (!value->is_object() || !value->contains(key)) return {};
    value = &value->at(key);
  }
  return *value;
}

// Lines stay lines; everything else that is no text is spelled out.
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

// A rung's label without the "+ " by which a ladder shows that it adds to others.
Json label_of(const Json& rung) {
  const Json label = at(rung, {"label"});
  if (!label.is_string() || !label.get_ref<const std::string&>().starts_with("+ ")) return label;
  return label.get_ref<const std::string&>().substr(2);
}

// A size of the rung's step, or of the study's.
Json size_of(const Json& study, const Json& rung, const char* field) {
  const Json own = at(rung, {"workload", field});
  return own.is_null() ? at(study, {"workload", field}) : own;
}

// A row of nulls tells the columns' names.
Row rung_row(const Json& source, const Json& study, const Json& rung) {
  Row row{{"study", source},
          {"index", at(rung, {"index"})},
          {"optimization", at(rung, {"optimization"})},
          {"title", at(rung, {"title"})},
          {"label", label_of(rung)},
          {"peer", at(rung, {"peer"})},
          {"status", at(rung, {"status"})},
          {"reason", at(rung, {"reason"})},
          {"runs_ok", at(rung, {"runs_ok"})}};
  for (const char* field : {"median", "lo", "hi", "q1", "q3", "min", "max"}) {
    row.emplace_back(fmt::format("ms_per_step_{}", field), at(rung, {"ms_per_step", field}));
  }
  for (const char* field : {"median", "lo", "hi"}) {
    row.emplace_back(fmt::format("tokens_per_s_{}", field), at(rung, {"tokens_per_s", field}));
  }
  for (const char* speedup : {"speedup_previous", "speedup_first"}) {
    for (const char* field : {"ratio", "lo", "hi", "pairs"}) {
      row.emplace_back(fmt::format("{}_{}", speedup, field), at(rung, {speedup, field}));
    }
  }
  row.emplace_back("peak_memory_bytes", at(rung, {"peak_memory_bytes"}));
  for (const char* part : {"reserved_peak_bytes", "weights_bytes", "gradients_bytes", "optimizer_bytes",
                           "weight_copies_bytes", "activations_bytes"}) {
    row.emplace_back(part, at(rung, {"memory", part}));
  }
  row.emplace_back("mfu", at(rung, {"mfu", "value"}));
  row.emplace_back("joules_per_token", at(rung, {"joules_per_token"}));
  const Json guard = at(rung, {"guard", "passed"});
  row.emplace_back("guard", guard.is_null() ? Json() : Json(guard == true ? "passed" : "failed"));
  row.emplace_back("guard_deviation", at(rung, {"guard", "deviation"}));
  row.emplace_back("guard_max_deviation", at(rung, {"guard", "max_deviation"}));
  row.emplace_back("guard_tolerance", at(rung, {"guard", "tolerance"}));
  int64_t passed = 0;
  const Json proofs = at(rung, {"proofs"});
  for (const Json& proof : proofs) passed += proof.at("passed") == true ? 1 : 0;
  row.emplace_back("proofs_passed", passed);
  row.emplace_back("proofs", proofs.size());
  row.emplace_back("device", at(study, {"device", "name"}));
  row.emplace_back("model", at(study, {"workload", "model"}));
  row.emplace_back("B", size_of(study, rung, "batch"));
  row.emplace_back("T", size_of(study, rung, "context"));
  row.emplace_back("accumulation", size_of(study, rung, "accumulation"));
  row.emplace_back("study_id", at(study, {"id"}));
  return row;
}

Row step_row(const Json& source, const Json& run, const Json& rung, size_t step) {
  const Json ms = at(run, {"step_ms"}), losses = at(run, {"loss"}), flags = at(run, {"flags"});
  return {{"study", source},
          {"run", at(run, {"id"})},
          {"rung", at(run, {"rung"})},
          {"label", label_of(rung)},
          {"repeat", at(run, {"repeat"})},
          {"position", at(run, {"position"})},
          {"step", step + 1},
          {"warmup", at(run, {"warmup_steps"}) > step ? 1 : 0},
          {"ms", step < ms.size() ? ms[step] : Json()},
          {"loss", step < losses.size() ? losses[step] : Json()},
          {"disturbed", flags.empty() ? 0 : 1}};
}

std::vector<double> timed_ms(const Json& run) {
  const auto all = run.at("step_ms").get<std::vector<double>>();
  const auto warmup = std::min(run.at("warmup_steps").get<size_t>(), all.size());
  return {all.begin() + static_cast<std::ptrdiff_t>(warmup), all.end()};
}

// What a rung is called wherever it is measured: by the optimization that it adds; where it leaves one out, or has
// several, by its title.
std::string name_of(const Json& study, const Json& rung) {
  const Json& rungs = study.at("rungs");
  if (rung.contains("peer")) {
    const Json& twin = rungs.at(rung.at("against").get<size_t>());
    return fmt::format("{}-{}", name_of(study, twin), rung.at("peer").get<std::string>());
  }
  const bool has_title = rung.at("optimization").is_null() || study.at("mode") == "leave-one-out";
  if (!has_title) return rung.at("optimization");
  return rung.at("recipe") == rungs.at(0).at("recipe") ? "start" : rung.at("title");
}

// One of each: what identifies it among the study's, in the letters of a benchmark's name.
std::vector<std::string> names_of(const Json& study, const std::string& prefix) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const Json& rung : study.at("rungs")) {
    std::string name = name_of(study, rung);
    for (char& c : name) c = c == ' ' || c == '/' ? '_' : c;
    name = files::printable(name).insert(0, prefix);
    if (study.contains("swept")) {
      const std::string swept = study.at("swept");
      name += fmt::format("/{}:{}", swept, rung.at("workload").at(swept).dump());
    }
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
      entry[field] = harness::finite_or_null(kind == "mean"     ? mean
                                             : kind == "median" ? harness::median(values)
                                             : kind == "stddev" ? deviation
                                                                : deviation / mean);
    }
    benchmarks.push_back(entry);
  }
}

void add_benchmarks(const Json& entry, const std::string& prefix, int64_t& family, Json& benchmarks,
                    std::string& left_out) {
  const Json& study = entry.at("study");
  const std::vector<std::string> names =
      names_of(study, prefix + study.at("ladder").at("name").get<std::string>() + "/");
  std::map<size_t, std::vector<const Json*>> runs_of;
  for (const Json& run : entry.at("runs")) {
    if (run.at("status") == "ok" && !timed_ms(run).empty()) runs_of[run.at("rung")].push_back(&run);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const Json& rung = study.at("rungs").at(i);
    const std::string status = rung.at("status");
    Json common{{"name", names[i]},         {"run_name", names[i]},
                {"family_index", family++}, {"per_family_instance_index", 0},
                {"run_type", "iteration"},  {"threads", 1},
                {"time_unit", "ms"},        {"label", files::printable(rung.at("label").get<std::string>())}};
    if (status != "measured") {
      left_out += fmt::format("{}{}: {}", left_out.empty() ? "" : "; ", names[i], status);
      continue;
    }
    const auto& runs = runs_of[i];
    const Json tokens = size_of(study, rung, "tokens_per_step");
    std::vector<Json> made;
    for (size_t repetition = 0; repetition < runs.size(); ++repetition) {
      const std::vector<double> ms = timed_ms(*runs[repetition]);
      const double median = harness::median(ms);
      const double rate = 1000 * tokens.get<double>() / median;
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

Json text_or(const Json& value, const char* otherwise) { return value.is_string() ? value : Json(otherwise); }

}  // namespace

std::string rungs_csv(const Json& report) {
  Table table(rung_row({}, {}, {}));
  for (const Json& entry : report.at("studies")) {
    for (const Json& rung : entry.at("study").at("rungs"))
      table.add(rung_row(entry.at("source"), entry.at("study"), rung));
  }
  return table.text();
}

std::string steps_csv(const Json& report) {
  Table table(step_row({}, {}, {}, 0));
  for (const Json& entry : report.at("studies")) {
    for (const Json& run : entry.at("runs")) {
      const Json& rung = entry.at("study").at("rungs").at(run.at("rung").get<size_t>());
      for (size_t step = 0; step < run.at("step_ms").size(); ++step) {
        table.add(step_row(entry.at("source"), run, rung, step));
      }
    }
  }
  return table.text();
}

Json benchmark_json(const Json& report) {
  const Json& studies = report.at("studies");
  const Json& first = studies.front().at("study");
  const Json environment = at(first, {"environment"});
  const Json load = at(environment, {"load_average"});
  Json context{
      {"date", date_of(first.at("created"))},
      {"host_name", ""},
      {"executable", "ladder"},
      {"num_cpus", at(environment, {"cpu", "logical_cores"})},
      {"mhz_per_cpu", 0},
      {"caches", Json::array()},
      {"load_avg", load.is_array() ? load : Json::array()},
      {"library_version", text_or(at(environment, {"git_commit"}), "")},
      {"library_build_type",
       text_or(at(environment, {"compiler_flags"}), "").get<std::string>().find("-DNDEBUG") == std::string::npos
           ? "debug"
           : "release"},
      {"json_schema_version", 1},
      {"not_measured", "cpu_time: the time of a step by the wall clock stands there. mhz_per_cpu: 0 stands there"},
      {"real_time", "the median of a run's timed steps; a run is one repetition, in a process of its own"},
      {"device", text_or(at(first, {"device", "name"}), "")},
      {"study", first.at("id")}};
  if (const Json governor = at(environment, {"governor"}); governor.is_string()) {
    context["cpu_scaling_enabled"] = governor != "performance";
  }
  if (studies.size() == 2) context["second_study"] = studies[1].at("study").at("id");
  Json benchmarks = Json::array();
  int64_t family = 0;
  std::string left_out;
  for (const Json& entry : studies) {
    std::string prefix = studies.size() == 1 ? "" : entry.at("source").get<std::string>() + "/";
    add_benchmarks(entry, prefix, family, benchmarks, left_out);
  }
  if (!left_out.empty()) context["left_out"] = left_out;
  return {{"context", context}, {"benchmarks", benchmarks}};
}

}  // namespace ablations
