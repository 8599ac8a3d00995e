#include "ablations/runner.h"

#include "ablations/progress.h"
#include "ablations/run.h"
#include "ablations/setting.h"
#include "ablations/shard.h"
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
#include <deque>
#include <map>
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

// A study is one machine's, or one kind's, and one program's: where it is gone on with, too. A gate's programs are not
// this one.
void check_same_machine(const fs::path& folder, const Plan& plan, const Json& record) {
  Json here{{"environment", harness::environment()}, {"workload", record.at("workload")}};
  here["environment"]["threads"] = plan.threads;  // of the runs, not of this process
  const bool cuda = uses_cuda(plan);
  const auto setting = [&](const Json& of) {
    return plan.gate ? machine_setting(of.at("environment"), cuda) : study_setting(of, cuda);
  };
  const auto lines = differences(setting(record), setting(here));
  if (lines.empty()) return;
  throw harness::Unfit(fmt::format("{}: its runs were made under other circumstances: {}; go on there, or begin anew",
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

// Whether a disturbed run has not been made a second time. Who is killed between two writes leaves its record twice.
bool waits_for_second(const fs::path& file, const Json& record) {
  if (!is_flagged(record)) return false;
  try {
    return harness::read_json(flagged_file(file), "record") == record;
  } catch (const std::invalid_argument&) {  // there is none, or none that can be read
    return true;
  }
}

// Makes a plan's runs, one child for each.
class Runner {
 public:
  Runner(const Plan& plan, fs::path folder, Programs programs, double budget_s)
      : plan_(plan), folder_(std::move(folder)), programs_(std::move(programs)), budget_s_(budget_s) {}

  Outcome carry_out() {
    const std::vector<Due> due = due_runs();
    if (!due.empty() && !earlier_.is_null()) check_same_machine(folder_, plan_, earlier_);
    harness::catch_interrupts();
    progress_.emplace(plan_, runs_to_make(plan_).size(), due.size());
    for (size_t i = 0; i < due.size() && !outcome_.interrupted; ++i) {
      if (outcome_.not_made > 0 || budget_is_spent()) {
        ++outcome_.not_made;
        continue;
      }
      make_due(due[i]);
      const bool repeat_goes_on = i + 1 < due.size() && due[i + 1].run.repeat == due[i].run.repeat;
      if (!repeat_goes_on) make_disturbed_again();
    }
    outcome_.not_made += std::ssize(disturbed_);
    return outcome_;
  }

 private:
  struct Due {
    PlannedRun run;
    Json first;  // of a disturbed run that is to be made again; null: it has not been made
  };

  // What the folder lacks.
  std::vector<Due> due_runs() {
    std::vector<Due> due;
    for (const PlannedRun& run : runs_to_make(plan_)) {
      const Json record = good_record(folder_, plan_, run);
      const bool again = !record.is_null() && waits_for_second(record_file(folder_, run.id), record);
      if (record.is_null() || again) due.push_back({run, record});
      if (record.is_null()) continue;
      first_of_.try_emplace(maker_of(run), record);
      if (plan_.rungs[run.rung].peer.empty()) earlier_ = record;
    }
    return due;
  }

  [[nodiscard]] bool budget_is_spent() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    return budget_s_ > 0 && passed.count() >= budget_s_;
  }

  void make_due(const Due& due) {
    Json record = due.first;
    if (record.is_null()) {
      std::optional<Json> made = make(due.run);
      if (!made) return;
      record = std::move(*made);
      harness::write_json(record_file(folder_, due.run.id), record, "record");
      // Under a budget disturbed runs wait until all others of their repeat have been made.
      if (is_flagged(record) && budget_s_ > 0) {
        progress_->end(due.run, record);
        disturbed_.push_back({due.run, std::move(record)});
        return;
      }
    }
    if (is_flagged(record) && !make_again(due.run, record)) return;
    outcome_.some_failed = outcome_.some_failed || record.at("status") != "ok";
    progress_->end(due.run, record);
  }

  void make_disturbed_again() {
    while (!disturbed_.empty() && !budget_is_spent() && !outcome_.interrupted) {
      auto [run, record] = std::move(disturbed_.front());
      disturbed_.pop_front();
      progress_->one_more();
      if (make_again(run, record)) progress_->end(run, record);
    }
  }

  // The record of a new child; none where it was interrupted.
  std::optional<Json> make(const PlannedRun& run) {
    const Rung& rung = plan_.rungs[run.rung];
    const ChildFile written(folder_ / "records" / (run.id + ".child.tmp"));
    const fs::path log = folder_ / "logs" / (run.id + ".log");
    progress_->begin(run);
    const ChildResult child = harness::run_child({.argv = command_of(plan_, run, programs_, folder_, written.path()),
                                                  .log = log,
                                                  .limit_s = plan_.run_limit_s,
                                                  .environment = environment_of(rung),
                                                  .on_line = [&](std::string_view line) { progress_->step(line); }});
    if (child.end == ChildResult::End::interrupted) {
      progress_->interrupted();
      outcome_.interrupted = true;
      return std::nullopt;
    }
    Json record = result_record(child, written.path(), log, plan_, run);
    if (record.at("status") == "ok") check_belongs(run, record);
    return record;
  }

  // A disturbed run once more; false where that was interrupted.
  bool make_again(const PlannedRun& run, Json& record) {
    progress_->note(fmt::format("run {} is made again; {}", run.id,
                                fmt::join(record.at("flags").get<std::vector<std::string>>(), "; ")));
    std::optional<Json> second = make(run);
    if (!second) return false;
    if (second->at("status") == "ok") {
      harness::write_json(flagged_file(record_file(folder_, run.id)), record, "record");
      harness::write_json(record_file(folder_, run.id), *second, "record");
      record = std::move(*second);
    } else {
      progress_->note(fmt::format("run {} failed when it was made again, so its first record stays: {}", run.id,
                                  second->at("failure").at("message").get<std::string>()));
    }
    return true;
  }

  // Which program makes a run: empty, this one.
  [[nodiscard]] std::string maker_of(const PlannedRun& run) const {
    const Rung& rung = plan_.rungs[run.rung];
    return rung.peer.empty() ? rung.program : "peer " + rung.peer;
  }

  // Throws harness::Unfit for a run of another text, or of a program that was built anew since the study's first run.
  void check_belongs(const PlannedRun& run, const Json& record) {
    const Json& first = first_of_.try_emplace(maker_of(run), record).first->second;
    const bool cuda = uses_cuda(plan_);
    const auto lines = differences(study_setting(first, cuda), study_setting(record, cuda));
    if (lines.empty()) return;
    throw harness::Unfit(fmt::format("{}: run {} does not belong to run {}, and is not kept: {}", folder_.string(),
                                     run.id, first.at("id").get<std::string>(), fmt::join(lines, "; ")));
  }

  const Plan& plan_;
  fs::path folder_;
  Programs programs_;
  double budget_s_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Json earlier_;                          // a record that was there, not a peer's
  std::map<std::string, Json> first_of_;  // each program's first record
  std::deque<Due> disturbed_;             // to be made again at the end of their repeat
  std::optional<Progress> progress_;
  Outcome outcome_;
};

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
  const harness::FolderLock lock(folder);
  for (const char* part : {"records", "logs"}) fs::create_directories(folder / part);
  for (const fs::path& part : {folder, folder / "records"}) remove_unfinished_files(part);
  return Runner(plan, folder, programs, budget_s).carry_out();
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
