#include "ablations/runner.h"

#include "ablations/run.h"
#include "ablations/setting.h"
#include "ablations/shard.h"
#include "ablations/terminal.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/environment.h"
#include "harness/json_file.h"
#include "harness/locks.h"
#include "harness/process.h"
#include "harness/resources.h"
#include "harness/unfit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace ablations {

namespace fs = std::filesystem;
using harness::ChildResult;
using harness::Json;

namespace {

// What writers that were killed left behind. Nobody else may be at work in the folder.
void remove_unfinished_files(const fs::path& folder) {
  std::vector<fs::path> unfinished;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".tmp" && !entry.is_directory()) unfinished.push_back(entry.path());
  }
  std::error_code ignored;
  for (const fs::path& file : unfinished) fs::remove(file, ignored);
}

// The file into which a child writes its record: gone when the run is over, however it ends.
class ChildFile {
 public:
  explicit ChildFile(fs::path path) : path_(std::move(path)) {}
  ~ChildFile() {
    try {
      remove_unfinished_files(path_.parent_path());  // a killed child leaves its own temporary file
    } catch (const fs::filesystem_error&) {          // the next runner tries again
    }
  }
  ChildFile(const ChildFile&) = delete;  // one owner
  ChildFile& operator=(const ChildFile&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The end of what a child printed, whatever that was: one line of UTF-8 without control characters.
std::string last_line(const fs::path& log) {
  std::string text = files::read_end(log, 4096);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return files::shortened(files::printable(text.substr(text.find_last_of('\n') + 1)), 300);
}

}  // namespace

std::string fault_of(const Json& record, const Plan& plan, const PlannedRun& run) {
  if (record.at("status") != "ok") return "it says that it failed";
  if (record.at("id") != run.id) return fmt::format("it is of run {}", record.at("id").dump());
  // Read, so that a field which the record's program did not have yet counts as its default.
  if (model::recipe_from_json(record.at("recipe"), "its recipe") != plan.rungs[run.rung].recipe)
    return "its recipe is not the planned one";
  if (record.at("timing").at("warmup_steps") != plan.warmup_steps)
    return "its steps of warm-up are not the planned ones";
  const Shape shape = shape_of(plan, run.rung);
  const Json& workload = record.at("workload");
  if (workload.at("batch") != shape.B || workload.at("context") != shape.T ||
      workload.at("accumulation") != shape.accumulation) {
    return "its steps are not of the planned size";
  }
  const size_t steps = static_cast<size_t>(plan.warmup_steps + plan.timed_steps);
  for (const char* series : {"step_ms", "loss", "page_faults"}) {
    if (record.at("timing").at(series).size() != steps) {
      return fmt::format("{} values of {}, {} planned", record.at("timing").at(series).size(), series, steps);
    }
  }
  return "";
}

namespace {

// The good record of a run; null where there is none.
Json good_record(const fs::path& folder, const Plan& plan, const PlannedRun& run) {
  const fs::path file = record_file(folder, run.id);
  if (!fs::exists(file)) return {};
  try {
    Json record = harness::read_json(file, "record");
    return fault_of(record, plan, run).empty() ? record : Json();
  } catch (const std::invalid_argument&) {
    return {};
  }
}

// A study is one machine's, or one kind's: where it is gone on with, too.
void check_same_machine(const fs::path& folder, const Plan& plan, const Json& record) {
  Json here = harness::environment();
  here["threads"] = plan.threads;  // of the runs, not of this process
  const bool cuda = uses_cuda(plan);
  const auto lines = differences(machine_setting(record.at("environment"), cuda), machine_setting(here, cuda));
  if (lines.empty()) return;
  throw harness::Unfit(fmt::format("{}: its runs were made on another machine: {}; go on there, or begin a new study",
                                   folder.string(), fmt::join(lines, "; ")));
}

// The child's record, or one that says why there is none.
Json result_record(const ChildResult& child, const fs::path& written, const fs::path& log, const Plan& plan,
                   const PlannedRun& run) {
  const auto failed = [&](const char* kind, const std::string& message) {
    return failed_record(run.id, kind, message, child.seconds);
  };
  switch (child.end) {
    case ChildResult::End::timed_out:
      return failed("timeout", child.describe(plan.run_limit_s));
    case ChildResult::End::not_started:
      return failed("spawn", child.describe(plan.run_limit_s));
    case ChildResult::End::signaled: {
      const char* hint = child.code == SIGKILL ? "; the kernel does this when memory runs out" : "";
      return failed("signal", child.describe(plan.run_limit_s) + hint);
    }
    default:
      break;
  }
  if (!child.succeeded()) {
    const std::string line = last_line(log);
    return failed("exit", child.describe(plan.run_limit_s) + (line.empty() ? "" : ": " + line));
  }
  try {
    Json record = harness::read_json(written, "record");
    if (const Rung& rung = plan.rungs[run.rung]; !rung.program.empty()) {  // it was not told these
      record["id"] = run.id;
      if (record.at("status") == "ok") record["optimizations"] = rung.applied;
    }
    if (record.at("status") == "failed" && record.at("id") == run.id) return record;  // it says why itself
    const std::string fault = fault_of(record, plan, run);
    if (fault.empty()) return record;
    return failed("rubbish", "its record does not fit the plan: " + fault);
  } catch (const std::invalid_argument& error) {
    return failed("rubbish", fmt::format("it left no valid record: {}", error.what()));
  }
}

// What `ladder run` does for itself (model/host_memory.cpp), asked of the C library from outside: the peer works under
// the same policy.
std::vector<std::string> environment_of(const Rung& rung) {
  if (!rung.program.empty()) return {"LADDER_HOME="};  // it finds its own
  if (rung.peer.empty() || rung.recipe.host_memory != model::HostMemory::keep) return {};
  return {"MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=100000000000", "THP_MEM_ALLOC_ENABLE=1"};
}

// For another program, which may be older or newer and have other plans: by flags, and of the recipe only what is not
// the default.
std::vector<std::string> flags_of(const Plan& plan, const PlannedRun& run) {
  const Rung& rung = plan.rungs[run.rung];
  const Shape shape = shape_of(plan, run.rung);
  Json edits = Json::object();
  const Json differences = model::recipe_diff({}, rung.recipe);
  for (const auto& [field, values] : differences.items()) edits[field] = values.at(1);
  std::vector<std::string> argv{rung.program, "run", "--recipe", edits.dump(), "--model", plan.model};
  const auto add = [&](const char* flag, auto value) { argv.insert(argv.end(), {flag, std::to_string(value)}); };
  add("--batch", shape.B);
  add("--context", shape.T);
  add("--accumulation", shape.accumulation);
  if (shape.positions > 0) add("--positions", shape.positions);
  add("--steps", plan.timed_steps);
  add("--warmup", plan.warmup_steps);
  add("--seed", plan.seed);
  add("--threads", plan.threads);
  argv.insert(argv.end(), {"--data", plan.tokens.empty() ? plan.data : plan.tokens});
  if (plan.tokens.empty()) argv.insert(argv.end(), {"--vocab", plan.vocabulary});
  return argv;
}

std::vector<std::string> command_of(const Plan& plan, const PlannedRun& run, const Programs& programs,
                                    const fs::path& folder, const fs::path& record) {
  const Rung& rung = plan.rungs[run.rung];
  std::vector<std::string> argv{programs.ladder.string(), "run"};
  if (!rung.peer.empty()) argv = {programs.python.string(), peer_script().string()};
  const std::string plan_file = (folder / "plan.json").string();
  if (!rung.program.empty()) {
    argv = flags_of(plan, run);
  } else {
    argv.insert(argv.end(), {"--plan", plan_file, "--run", run.id});
  }
  argv.insert(argv.end(), {"--record", record.string(), "--report-steps-to-parent"});
  return argv;
}

bool is_flagged(const Json& record) { return record.at("status") == "ok" && !record.value("flags", Json()).empty(); }

}  // namespace

fs::path peer_script() { return harness::resource_root() / "ablations" / "peers" / "pytorch_ladder.py"; }

fs::path record_file(const fs::path& folder, const std::string& run_id) {
  return folder / "records" / (run_id + ".json");
}

fs::path flagged_file(const fs::path& record) { return fs::path(record).replace_extension(".flagged.json"); }

void create_study(const Plan& plan, const fs::path& folder) {
  if (fs::exists(folder / "plan.json")) {
    throw std::invalid_argument(fmt::format(
        "{}: holds a study already; --resume completes it, or name another folder with --out", folder.string()));
  }
  fs::create_directories(folder);
  harness::write_json(folder / "plan.json", to_json(plan), "plan");
}

Plan open_study(const fs::path& folder) {
  const fs::path file = folder / "plan.json";
  if (!fs::exists(file)) throw std::invalid_argument(fmt::format("{}: holds no study (no plan.json)", folder.string()));
  return plan_from_json(harness::read_json(file, "plan"), file.string());
}

Outcome carry_out(const Plan& plan, const fs::path& folder, const Programs& programs, double budget_s) {
  const auto start = std::chrono::steady_clock::now();
  const harness::FolderLock lock(folder);
  for (const char* part : {"records", "logs"}) fs::create_directories(folder / part);
  for (const fs::path& part : {folder, folder / "records"}) remove_unfinished_files(part);
  const std::vector<PlannedRun> planned = runs_to_make(plan);
  std::vector<PlannedRun> missing;
  Json earlier;  // a record of this program's
  for (const PlannedRun& run : planned) {
    const Json record = good_record(folder, plan, run);
    if (record.is_null()) {
      missing.push_back(run);
    } else if (plan.rungs[run.rung].peer.empty()) {
      earlier = record;
    }
  }
  if (!earlier.is_null() && !missing.empty()) check_same_machine(folder, plan, earlier);
  harness::catch_interrupts();
  Progress progress(plan, planned.size(), missing.size());
  Outcome outcome;
  const auto budget_is_spent = [&] {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    return budget_s > 0 && passed.count() >= budget_s;
  };
  // The record of a new child; none where it was interrupted.
  const auto make = [&](const PlannedRun& run) -> std::optional<Json> {
    const Rung& rung = plan.rungs[run.rung];
    const ChildFile written(folder / "records" / (run.id + ".child.tmp"));
    const fs::path log = folder / "logs" / (run.id + ".log");
    progress.begin(run);
    const ChildResult child = harness::run_child({.argv = command_of(plan, run, programs, folder, written.path()),
                                                  .log = log,
                                                  .limit_s = plan.run_limit_s,
                                                  .environment = environment_of(rung),
                                                  .on_line = [&](std::string_view line) { progress.step(line); }});
    if (child.end != ChildResult::End::interrupted) return result_record(child, written.path(), log, plan, run);
    progress.interrupted();
    outcome.interrupted = true;
    return std::nullopt;
  };
  // A disturbed run once more; false where that was interrupted.
  const auto make_again = [&](const PlannedRun& run, Json& record) {
    progress.note(fmt::format("run {} is made again; {}", run.id,
                              fmt::join(record.at("flags").get<std::vector<std::string>>(), "; ")));
    std::optional<Json> second = make(run);
    if (!second) return false;
    if (second->at("status") == "ok") {
      harness::write_json(flagged_file(record_file(folder, run.id)), record, "record");
      harness::write_json(record_file(folder, run.id), *second, "record");
      record = std::move(*second);
    } else {
      progress.note(fmt::format("run {} failed when it was made again, so its first record stays: {}", run.id,
                                second->at("failure").at("message").get<std::string>()));
    }
    return true;
  };
  // Under a budget disturbed runs wait until all others of their repeat have been made.
  std::vector<std::pair<PlannedRun, Json>> disturbed;
  for (size_t i = 0; i < missing.size(); ++i) {
    const PlannedRun& run = missing[i];
    if (outcome.not_made > 0 || budget_is_spent()) {
      ++outcome.not_made;
      continue;
    }
    std::optional<Json> record = make(run);
    if (!record) return outcome;
    harness::write_json(record_file(folder, run.id), *record, "record");
    const bool waits = is_flagged(*record) && budget_s > 0;
    if (is_flagged(*record) && !waits && !make_again(run, *record)) return outcome;
    outcome.some_failed = outcome.some_failed || record->at("status") != "ok";
    progress.end(run, *record);
    if (waits) disturbed.emplace_back(run, std::move(*record));
    if (i + 1 < missing.size() && missing[i + 1].repeat == run.repeat) continue;
    for (auto& [again, first] : disturbed) {
      if (budget_is_spent()) break;
      progress.one_more();
      if (!make_again(again, first)) return outcome;
      progress.end(again, first);
    }
    disturbed.clear();
  }
  return outcome;
}

std::filesystem::path trace_file(const fs::path& folder, const Rung& rung) {
  return folder / "traces" / (name_of(rung) + ".trace.json");
}

ChildResult trace_rung(const Plan& plan, const fs::path& folder, size_t rung, const Programs& programs) {
  const std::string name = name_of(plan.rungs[rung]);
  const auto run = std::ranges::find(plan.runs, rung, &PlannedRun::rung);
  for (const char* part : {"traces", "logs"}) fs::create_directories(folder / part);
  const fs::path log = folder / "logs" / (name + ".trace.log");
  fmt::print(stderr, "tracing {} ...\n", name);
  ChildResult child = harness::run_child(
      {.argv = {programs.ladder.string(), "profile", "--trace", "--plan", (folder / "plan.json").string(), "--run",
                run->id, "--out", (folder / "traces").string()},
       .log = log,
       .limit_s = plan.run_limit_s});
  if (!child.succeeded() && child.end != ChildResult::End::interrupted) {
    fmt::print(stderr, "the trace of {} failed: {}: {}\n", name, child.describe(plan.run_limit_s), last_line(log));
  }
  return child;
}

bool trace_rungs(const Plan& plan, const fs::path& folder, const Programs& programs) {
  const harness::FolderLock lock(folder);
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const Rung& rung = plan.rungs[i];
    if (rung.status != Rung::Status::planned || !rung.peer.empty() || fs::exists(trace_file(folder, rung))) continue;
    if (trace_rung(plan, folder, i, programs).end == ChildResult::End::interrupted) return false;
  }
  return true;
}

}  // namespace ablations
