#include "plots/report_document.h"

#include "ablations/run/run_setting.h"
#include "files/files.h"
#include "files/resources.h"
#include "plots/predictions.h"
#include "plots/sentences.h"
#include "results/comparison.h"
#include "study/gate/compare.h"
#include "study/guard.h"
#include "study/measured.h"
#include "study/trace/roofline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>

namespace plots {

namespace fs = std::filesystem;
using files::Json;
using files::printable;

namespace {

std::vector<RunsByRepeat> runs_by_rung(const StudyFiles& files) {
  std::vector<RunsByRepeat> runs(files.study.rungs.size());
  for (size_t i = 0; i < files.records.size(); ++i) {
    if (!files.records[i]) continue;
    const StudyRun& run = files.study.runs[i];
    runs[run.rung][run.repeat] = run_data(*files.records[i]);
  }
  return runs;
}

std::optional<double> if_finite(double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; }

RungLosses losses_of(size_t rung, size_t guarded_by, const Guard& verdict, const RunData& run,
                     const RunData& reference) {
  RungLosses losses{.rung = rung, .guarded_by = guarded_by, .repeat = verdict.repeat};
  const Band band = band_of(reference.losses, verdict.known_offset, run.skipped_steps);
  const std::vector<double> off = deviations(run.losses, band);
  for (size_t i = 0; i < off.size(); ++i) {
    losses.loss.push_back(if_finite(run.losses[i]));
    losses.reference.push_back(if_finite(reference.losses[i]));
    losses.lo.push_back(if_finite(band.lo[i]));
    losses.hi.push_back(if_finite(band.hi[i]));
    losses.deviation.push_back(if_finite(off[i]));
  }
  return losses;
}

// Whether two commands print their losses at the same steps.
bool same_steps(const RunsByRepeat& runs, const RunsByRepeat& others) {
  return !others.empty() && runs.begin()->second.loss_steps == others.begin()->second.loss_steps;
}

// Each guarded rung's losses beside those that it has to follow.
std::vector<RungLosses> losses_of(const StudyFiles& files) {
  const auto runs = runs_by_rung(files);
  std::vector<RungLosses> list;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto& stated = files.study.rungs[i].guard;
    if (!stated || runs[i].empty()) continue;
    if (files.study.rungs[i].command && !same_steps(runs[i], runs[stated->guarded_by])) continue;
    const RunsByRepeat& reference = runs[stated->guarded_by];
    const Guard verdict = worst_of(runs[i], reference, stated->tolerance, stated->known_offset);
    list.push_back(
        losses_of(i, stated->guarded_by, verdict, runs[i].at(verdict.repeat), partner_of(verdict.repeat, reference)));
  }
  return list;
}

std::vector<ReportedRun> runs_of(const StudyFiles& files) {
  const bool about_batches = is_about_batches(files.study);
  std::vector<ReportedRun> list;
  for (size_t i = 0; i < files.records.size(); ++i) {
    if (!files.records[i]) continue;
    const Record& record = *files.records[i];
    const StudyRun& run = files.study.runs[i];
    const RunTiming& timing = record.timing;
    list.push_back({.id = run.id,
                    .rung = run.rung,
                    .repeat = run.repeat,
                    .position = run.position,
                    .status = run.status,
                    .started = record.started,
                    .warmup_steps = timing.warmup_steps,
                    .step_ms = timing.step_ms,
                    .data_ms = about_batches ? timing.data_ms.value_or(std::vector<double>{}) : std::vector<double>{},
                    .loss = timing.loss,
                    .flags = record.flags.value_or(std::vector<std::string>{}),
                    .processor_lost = timing.processor_lost,
                    .conditions = record.monitor,
                    .compile_s = record.compile_seconds()});
    if (const auto& first = files.first_records[i]) {
      list.back().first_flags = first->flags.value_or(std::vector<std::string>{});
    }
  }
  std::ranges::stable_sort(list, {}, &ReportedRun::position);
  return list;
}

// The texts of its optimizations, by name.
std::map<std::string, std::vector<TextPart>> techniques_of(const Study& study) {
  std::map<std::string, std::vector<TextPart>> list;
  for (const StudyRung& rung : study.rungs) {
    if (rung.optimization && !rung.text.empty() && fs::exists(files::resource_root() / rung.text))
      list[*rung.optimization] = parts_of(rung.text);
  }
  return list;
}

Side side_of(const StudyFiles& files) {
  Side side{.source = files.source, .samples = {}, .left_out = {}};
  std::vector<size_t> order;
  for (size_t i = 0; i < files.records.size(); ++i) {
    if (files.records[i]) order.push_back(i);
  }
  const auto rung_of = [&](size_t i) { return files.study.runs[i].rung; };
  std::ranges::stable_sort(order, {}, rung_of);
  for (const size_t i : order) {
    const StudyRung& rung = files.study.rungs[rung_of(i)];
    if (!rung.peer) add_record(side, rung.label, *files.records[i], &rung);
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
MicroResults micro_from(const Json& document, const fs::path& file, std::vector<std::string>& notes) {
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
  MicroResults micro{.context = document.at("context"), .benchmarks = {}};
  micro.context.erase("host_name");
  micro.context.erase("executable");
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
    micro.benchmarks.push_back(kept);
  }
  if (failed > 0) {
    notes.push_back(
        fmt::format("{}: {} of {} benchmarks failed and are not shown", last_part(file), failed, entries.size()));
  }
  return micro;
}

void add_file(const fs::path& file, Report& report) {
  const Json document = files::read_any_json(file);
  const Json kind = files::kind_of(document);
  if (kind == TraceDocument::kind) {
    report.traces.push_back(value_from<TraceDocument>(document, file.string()));
    if (!report.traces.back().roofline) {
      report.notes.push_back(
          fmt::format("nothing is shown of {}: its trace has no roofline; ladder profile --trace --roofline "
                      "makes one that has",
                      file.filename().string()));
    }
  } else if (kind == GateResult::kind) {
    report.gates.push_back(value_from<GateResult>(document, file.string()));
  } else if (kind == History::kind) {
    report.histories.push_back(value_from<History>(document, file.string()));
  } else if (kind == Noise::kind) {
    report.noise.push_back(value_from<Noise>(document, file.string()));
  } else if (kind.is_null() && document.is_object() && document.contains("context") &&
             document.contains("benchmarks")) {
    report.micro.push_back(micro_from(document, file, report.notes));
  } else {
    throw std::invalid_argument(fmt::format(
        "{}: \"kind\" is {}; --with takes gate, history, noise and trace, and Google Benchmark's JSON (micro --out)",
        file.string(), kind.is_null() ? "absent" : files::shortened(printable(kind.dump()), 60)));
  }
}

// A noise floor counts only for a study that was measured under the same circumstances. Each study gets its floors'
// places in the report's list. The others are noted.
void match_noise(Report& report) {
  for (size_t i = 0; i < report.noise.size(); ++i) {
    const Noise& noise = report.noise[i];
    std::vector<std::string> differing;
    bool matched = false;
    for (ReportedStudy& entry : report.studies) {
      const Study& study = entry.study;
      differing = differences(setting_of(study.environment, study.workload, noise.recipe), noise.setting);
      if (!differing.empty()) continue;
      entry.noise.push_back(i);
      matched = true;
    }
    if (matched) continue;
    report.notes.push_back(
        fmt::format("the noise floor of {} is not shown: it was measured under other circumstances ({})", noise.label,
                    fmt::join(differing, "; ")));
  }
}

// A trace is shown whatever it is of; that it was taken on another machine than the studies is said.
void note_other_machines(Report& report) {
  for (const TraceDocument& trace : report.traces) {
    const bool cuda = trace.device.kind == DeviceKind::cuda;
    const Setting setting = machine_setting(trace.environment, cuda);
    std::vector<std::string> differing;
    for (const ReportedStudy& entry : report.studies) {
      differing = differences(machine_setting(entry.study.environment, cuda), setting);
      if (differing.empty()) break;
    }
    if (differing.empty()) continue;
    report.notes.push_back(fmt::format("the trace of {} was taken under other circumstances ({})", trace.title,
                                       fmt::join(differing, "; ")));
  }
}

}  // namespace

std::vector<TextPart> parts_of(const std::string& file) {
  std::vector<TextPart> parts;
  std::istringstream lines(files::read_file(files::resource_root() / file));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("## ")) {
      parts.push_back({.title = line.substr(3), .text = ""});
    } else if (!parts.empty() && !(line.empty() && parts.back().text.empty())) {
      parts.back().text += line + "\n";
    }
  }
  for (TextPart& part : parts) part.text.resize(part.text.find_last_not_of('\n') + 1);
  return parts;
}

Report report_document(const std::vector<StudyFiles>& studies, const std::vector<fs::path>& with) {
  Report report;
  for (const StudyFiles& files : studies) {
    report.studies.push_back({.source = files.source,
                              .study = files.study,
                              .runs = runs_of(files),
                              .losses = losses_of(files),
                              .techniques = techniques_of(without_claims(files.study)),
                              .noise = {},
                              .predictions = {}});
    std::ranges::copy(files.traces, std::back_inserter(report.traces));
  }
  if (studies.size() == 2) report.comparison = comparison_of(studies[0], studies[1], report.notes);
  std::vector<fs::path> files_beside;
  for (const StudyFiles& files : studies) std::ranges::copy(files.with, std::back_inserter(files_beside));
  for (const fs::path& file : with) {
    const auto is_it = [&](const fs::path& other) { return fs::exists(file) && fs::equivalent(file, other); };
    if (std::ranges::none_of(files_beside, is_it)) files_beside.push_back(file);
  }
  for (const fs::path& file : files_beside) add_file(file, report);
  for (TraceDocument& trace : report.traces) {
    if (!trace.roofline || !trace.roofline->limits.refuted.empty())
      continue;  // then the data sheet's limits stand there
    const std::string refutation = refutation_of(*trace.roofline);
    if (refutation.empty()) continue;
    report.notes.push_back(fmt::format("the roofline of {} is not drawn: {}", trace.title, refutation));
    trace.roofline.reset();
  }
  match_noise(report);
  note_other_machines(report);
  for (size_t i = 0; i < studies.size(); ++i) {
    report.studies[i].predictions = predictions_of(studies[i].study, studies[i].plan, report.traces);
  }
  report.check("the report");
  return report;
}

files::Json with_printable_texts(const files::Json& document, Shown shown) {
  if (document.is_string()) return shown(document.get_ref<const std::string&>());
  if (!document.is_structured()) return document;
  files::Json result = document.is_array() ? files::Json::array() : files::Json::object();
  for (const auto& [key, member] : document.items()) {
    (document.is_array() ? result.emplace_back() : result[shown(key)]) = with_printable_texts(member, shown);
  }
  return result;
}

}  // namespace plots
