#include "ablations/report/report.h"

#include "ablations/documents/gate.h"
#include "ablations/gate/compare.h"
#include "ablations/report/techniques_page.h"
#include "ablations/run/setting.h"
#include "ablations/study/guard.h"
#include "ablations/study/measured.h"
#include "ablations/techniques/techniques.h"
#include "files/printable.h"
#include "files/resources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

namespace ablations {

namespace fs = std::filesystem;
using files::Json;
using files::printable;

namespace {

std::vector<RunsByRepeat> runs_by_rung(const StudyFiles& files) {
  std::vector<RunsByRepeat> runs(files.study.rungs.size());
  for (size_t i = 0; i < files.records.size(); ++i) {
    if (files.records[i].is_null()) continue;
    const StudyRun& run = files.study.runs[i];
    runs[run.rung][run.repeat] = run_data(files.records[i]);
  }
  return runs;
}

Json losses_json(size_t rung, size_t guarded_by, const Guard& verdict, const RunData& run, const RunData& reference) {
  Json json{{"rung", rung}, {"guarded_by", guarded_by}, {"repeat", verdict.repeat}};
  for (const char* field : {"loss", "reference", "lo", "hi", "deviation"}) json[field] = Json::array();
  const Band band = band_of(reference.losses, verdict.known_offset, run.skipped_steps);
  const std::vector<double> off = deviations(run.losses, band);
  for (size_t i = 0; i < off.size(); ++i) {
    json["loss"].push_back(files::finite_or_null(run.losses[i]));
    json["reference"].push_back(files::finite_or_null(reference.losses[i]));
    json["lo"].push_back(files::finite_or_null(band.lo[i]));
    json["hi"].push_back(files::finite_or_null(band.hi[i]));
    json["deviation"].push_back(files::finite_or_null(off[i]));
  }
  return json;
}

// Each guarded rung's losses beside those that it has to follow.
Json losses_of(const StudyFiles& files) {
  const auto runs = runs_by_rung(files);
  Json list = Json::array();
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto& stated = files.study.rungs[i].guard;
    if (!stated || runs[i].empty()) continue;
    const RunsByRepeat& reference = runs[stated->guarded_by];
    const Guard verdict = worst_of(runs[i], reference, stated->tolerance, stated->known_offset);
    list.push_back(
        losses_json(i, stated->guarded_by, verdict, runs[i].at(verdict.repeat), partner_of(verdict.repeat, reference)));
  }
  return list;
}

Json runs_of(const StudyFiles& files) {
  std::vector<Json> list;
  for (size_t i = 0; i < files.records.size(); ++i) {
    const Json& record = files.records[i];
    if (record.is_null()) continue;
    const StudyRun& run = files.study.runs[i];
    const Json& timing = record.at("timing");
    list.push_back({{"id", run.id},
                    {"rung", run.rung},
                    {"repeat", run.repeat},
                    {"position", run.position},
                    {"status", name_of(run.status)},
                    {"started", record.at("started")},
                    {"warmup_steps", timing.at("warmup_steps")},
                    {"step_ms", timing.at("step_ms")},
                    {"loss", timing.at("loss")},
                    {"flags", record.value("flags", Json::array())},
                    {"processor_lost", files::field_or_null(timing, "processor_lost")},
                    {"conditions", record.value("monitor", Json())}});
    if (const Json& first = files.first_records[i]; !first.is_null()) {
      list.back()["first_flags"] = first.value("flags", Json::array());
    }
  }
  std::ranges::stable_sort(list, {}, [](const Json& run) { return run.at("position").get<int64_t>(); });
  return list;
}

// The texts of its optimizations, by name.
Json techniques_of(const Study& study) {
  Json list = Json::object();
  for (const StudyRung& rung : study.rungs) {
    const Optimization* known = rung.optimization ? find_optimization(*rung.optimization) : nullptr;
    if (known != nullptr) list[known->name] = technique_json(*known, study);
  }
  return list;
}

Side side_of(const StudyFiles& files) {
  Side side{.source = files.source, .samples = {}, .left_out = {}};
  std::vector<size_t> order;
  for (size_t i = 0; i < files.records.size(); ++i) {
    if (!files.records[i].is_null()) order.push_back(i);
  }
  const auto rung_of = [&](size_t i) { return files.study.runs[i].rung; };
  std::ranges::stable_sort(order, {}, rung_of);
  for (const size_t i : order) {
    const StudyRung& rung = files.study.rungs[rung_of(i)];
    if (!rung.peer) add_record(side, rung.label, files.records[i], &rung);
  }
  return side;
}

std::optional<Comparison> comparison_of(const StudyFiles& base, const StudyFiles& head,
                                        std::vector<std::string>& notes) {
  const Side sides[] = {side_of(base), side_of(head)};
  for (const Side& side : sides) {
    if (!side.samples.empty()) continue;
    notes.push_back(fmt::format("the two are not compared: {} has no record of a run that is a number", side.source));
    return std::nullopt;
  }
  try {
    return compare_sides(sides[0], sides[1], {.force = true});
  } catch (const std::invalid_argument& error) {
    notes.push_back(fmt::format("the two are not compared: {}", error.what()));
    return std::nullopt;
  }
}

// Google Benchmark's document without the machine's name and paths, and without what its own program did not measure.
Json micro_from(const Json& document, const fs::path& file, std::vector<std::string>& notes) {
  static const std::set<std::string> bookkeeping{
      "family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads", "iterations",
      "cpu_time"};
  static const std::set<std::string> units{"ns", "us", "ms", "s"};
  const Json& entries = document.at("benchmarks");
  const auto refuse = [&](size_t i, const char* what) {
    throw std::invalid_argument(
        fmt::format("{}: field [benchmarks][{}]: {}; Google Benchmark writes {{\"name\", "
                    "\"real_time\", \"time_unit\": ns, us, ms or s, ...}}",
                    file.string(), i, what));
  };
  if (!document.at("context").is_object() || !entries.is_array()) {
    throw std::invalid_argument(
        fmt::format("{}: \"context\" is not an object or \"benchmarks\" not a list, as Google Benchmark writes them",
                    file.string()));
  }
  Json micro{{"context", document.at("context")}, {"benchmarks", Json::array()}};
  micro["context"].erase("host_name");
  micro["context"].erase("executable");
  size_t failed = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Json& entry = entries[i];
    if (!entry.is_object()) refuse(i, "not an object");
    if (entry.value("error_occurred", Json()) == true) {
      ++failed;
      continue;
    }
    if (entry.value("run_type", Json("iteration")) == "aggregate") continue;
    const Json unit = entry.value("time_unit", Json());
    if (!entry.value("name", Json()).is_string()) refuse(i, "no \"name\"");
    if (!entry.value("real_time", Json()).is_number()) refuse(i, "no \"real_time\"");
    if (!unit.is_string() || !units.contains(unit)) refuse(i, "no \"time_unit\"");
    Json kept{{"name", entry.at("name")}, {"time_unit", unit}};
    for (const auto& [key, value] : entry.items()) {
      if (value.is_number() && !bookkeeping.contains(key)) kept[key] = value;
    }
    const double flops = kept.value("flops", 0.0), bytes = kept.value("bytes", 0.0);
    if (flops > 0 && bytes > 0) kept["flops_per_byte"] = flops / bytes;
    micro["benchmarks"].push_back(kept);
  }
  if (failed > 0) {
    notes.push_back(
        fmt::format("{}: {} of {} benchmarks failed and are not shown", last_part(file), failed, entries.size()));
  }
  return micro;
}

void add_file(const fs::path& file, Json& report, std::vector<TraceDocument>& traces, std::vector<std::string>& notes) {
  static const std::map<std::string, const char*> places{
      {"gate", "gates"}, {"history", "histories"}, {"noise", "noise"}};
  const Json document = files::read_any_json(file);
  const Json kind = files::kind_of(document);
  if (kind == TraceDocument::kind) {
    traces.push_back(value_from<TraceDocument>(document, file.string()));
    if (!traces.back().roofline) {
      notes.push_back(
          fmt::format("nothing is shown of {}: its trace has no roofline; ladder profile --trace --roofline "
                      "makes one that has",
                      file.filename().string()));
    }
  } else if (kind.is_string() && places.contains(kind)) {
    if (kind == GateResult::kind) {
      (void)value_from<GateResult>(document, file.string());  // with what stands in it
    } else {
      files::check_schema(document, kind.get<std::string>(), file.string());
    }
    report[places.at(kind)].push_back(document);
  } else if (kind.is_null() && document.is_object() && document.contains("context") &&
             document.contains("benchmarks")) {
    report["micro"].push_back(micro_from(document, file, notes));
  } else {
    throw std::invalid_argument(fmt::format(
        "{}: \"kind\" is {}; --with takes gate, history, noise and trace, and Google Benchmark's JSON (micro --out)",
        file.string(), kind.is_null() ? "absent" : files::shortened(printable(kind.dump()), 60)));
  }
}

// Noise floors say something of a study that was measured under the same circumstances only: each study's, by their
// places in the report's list. The others are noted.
void match_noise(Json& report, std::vector<std::string>& notes) {
  for (size_t i = 0; i < report.at("noise").size(); ++i) {
    const auto noise = value_from<Noise>(report.at("noise")[i], "the report");
    std::vector<std::string> differing;
    bool matched = false;
    for (Json& entry : report["studies"]) {
      const Json& study = entry.at("study");
      differing = differences(setting_of(study.at("environment"), study.at("workload"), noise.recipe), noise.setting);
      if (!differing.empty()) continue;
      entry["noise"].push_back(i);
      matched = true;
    }
    if (matched) continue;
    notes.push_back(fmt::format("the noise floor of {} is not shown: it was measured under other circumstances ({})",
                                noise.label, fmt::join(differing, "; ")));
  }
}

// A trace is shown whatever it is of; that it was taken on another machine than the studies is said.
void note_other_machines(const std::vector<TraceDocument>& traces, const Json& studies,
                         std::vector<std::string>& notes) {
  for (const TraceDocument& trace : traces) {
    const bool cuda = trace.device.kind == model::Device::cuda;
    const Setting setting = machine_setting(trace.environment, cuda);
    std::vector<std::string> differing;
    for (const Json& entry : studies) {
      differing = differences(machine_setting(entry.at("study").at("environment"), cuda), setting);
      if (differing.empty()) break;
    }
    if (differing.empty()) continue;
    notes.push_back(fmt::format("the trace of {} was taken under other circumstances ({})", trace.title,
                                fmt::join(differing, "; ")));
  }
}

}  // namespace

Json report_document(const std::vector<StudyFiles>& studies, const std::vector<fs::path>& with, bool published) {
  Json report{{"kind", "report"}, {"schema_version", 1}, {"comparison", nullptr}};
  for (const char* list : {"studies", "gates", "histories", "noise", "traces", "micro", "published", "notes"}) {
    report[list] = Json::array();
  }
  std::vector<TraceDocument> traces;
  std::vector<std::string> notes;
  for (const StudyFiles& files : studies) {
    report["studies"].push_back({{"source", files.source},
                                 {"study", json_of(files.study)},
                                 {"runs", runs_of(files)},
                                 {"losses", losses_of(files)},
                                 {"techniques", techniques_of(files.study)},
                                 {"noise", Json::array()}});
    std::ranges::copy(files.traces, std::back_inserter(traces));
  }
  if (studies.size() == 2) report["comparison"] = json_of(comparison_of(studies[0], studies[1], notes));
  std::vector<fs::path> files_beside;
  for (const StudyFiles& files : studies) std::ranges::copy(files.with, std::back_inserter(files_beside));
  for (const fs::path& file : with) {
    const auto is_it = [&](const fs::path& other) { return fs::exists(file) && fs::equivalent(file, other); };
    if (std::ranges::none_of(files_beside, is_it)) files_beside.push_back(file);
  }
  for (const fs::path& file : files_beside) add_file(file, report, traces, notes);
  match_noise(report, notes);
  note_other_machines(traces, report.at("studies"), notes);
  report["traces"] = json_of(traces);
  if (published) {
    report["published"] =
        files::read_json(files::resource_root() / "results" / "published.json", "published").at("entries");
  }
  report["notes"] = notes;
  check_report(report, "the report");
  return report;
}

Study study_of(const Json& entry) { return value_from<Study>(entry.at("study"), "the report's study"); }

Json read_report(const fs::path& file) {
  Json report = files::read_any_json(file);
  check_report(report, file.string());
  return report;
}

void check_report(const Json& report, const std::string& where) {
  files::check_schema(report, "report", where);
  const auto check_each = [&](const char* list, const char* kind) {
    for (size_t i = 0; i < report.at(list).size(); ++i) {
      files::check_schema(report.at(list)[i], kind, fmt::format("{}: field [{}][{}]", where, list, i));
    }
  };
  for (size_t i = 0; i < report.at("studies").size(); ++i) {
    const Json& entry = report.at("studies")[i];
    const std::string place = fmt::format("{}: field [studies][{}]", where, i);
    const size_t rungs = value_from<Study>(entry.at("study"), place + "[study]").rungs.size();
    for (const Json& noise : entry.at("noise")) {
      if (noise.get<size_t>() < report.at("noise").size()) continue;
      throw std::invalid_argument(
          fmt::format("{}[noise]: {} is asked for; the report has {}", place, noise.dump(), report.at("noise").size()));
    }
    for (const auto& [list, field] : {std::pair{"runs", "rung"}, {"losses", "rung"}, {"losses", "guarded_by"}}) {
      for (const Json& item : entry.at(list)) {
        if (item.at(field).get<size_t>() < rungs) continue;
        throw std::invalid_argument(fmt::format("{}[{}]: \"{}\" is {}; the study has {} rungs", place, list, field,
                                                item.at(field).dump(), rungs));
      }
    }
  }
  (void)value_from<std::optional<Comparison>>(report.at("comparison"), where + ": field [comparison]");
  (void)value_from<std::vector<GateResult>>(report.at("gates"), where + ": field [gates]");
  (void)value_from<std::vector<Noise>>(report.at("noise"), where + ": field [noise]");
  check_each("histories", "history");
  check_each("traces", "trace");
  files::check_schema({{"kind", "published"}, {"schema_version", 1}, {"entries", report.at("published")}}, "published",
                      where + ": field [published]");
}

}  // namespace ablations
