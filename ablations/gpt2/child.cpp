#include "ablations/gpt2/child.h"

#include "ablations/gpt2/ladder_file.h"
#include "ablations/gpt2/run.h"
#include "ablations/gpt2/watch.h"
#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "files/printable.h"
#include "files/resources.h"
#include "harness/machine/machine.h"
#include "harness/process/locks.h"
#include "harness/process/process.h"
#include "harness/process/utc.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace ablations {

namespace fs = std::filesystem;
using files::Json;
using harness::ChildResult;

fs::path peer_script() { return files::resource_root() / "ablations" / "peers" / "pytorch_ladder.py"; }

std::vector<std::string> environment_of_peers() {
  // packaging/environment.sh puts them into LD_LIBRARY_PATH, and keeps here what was there before.
  const char* users = std::getenv("LADDER_USERS_LIBRARY_PATH");
  if (users == nullptr) return {};
  return {std::string("LD_LIBRARY_PATH=") + users};
}

namespace {

// A field of the record's recipe that no proof speaks of; empty where there is none. Where host memory goes does not
// matter to a GPU.
std::string field_without_proof(const Record& record) {
  for (const auto& item : record.recipe.items()) {
    const std::string& field = item.key();
    if (field == "host_memory" && record.is_on_gpu()) continue;
    if (std::ranges::find(record.proofs, field, &Proof::field) == record.proofs.end()) return field;
  }
  return "";
}

// The file into which a child writes its record: gone when the run is over, however it ends.
class ChildFile {
 public:
  // What a killed runner's child wrote there is not this one's.
  explicit ChildFile(fs::path path) : path_(std::move(path)) {
    std::error_code ignored;  // where nothing can be removed, the child says that nothing can be written
    fs::remove(path_, ignored);
  }
  ~ChildFile() {
    try {
      fs::remove(path_);
      remove_unfinished_files(path_.parent_path(), {path_.filename().string()});  // a killed child's own
    } catch (const fs::filesystem_error&) {                                       // the next runner tries again
    }
  }
  ChildFile(const ChildFile&) = delete;  // one owner
  ChildFile& operator=(const ChildFile&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The child's record, or one that says why there is none. The end of the process is part of the run. If it ended badly,
// the run has no number, whatever it wrote before.
Record result_record(const ChildResult& child, const fs::path& written, const fs::path& log, const Plan& plan,
                     const PlannedRun& run, const std::string& started) {
  const auto failed = [&](FailureKind kind, const std::string& message) {
    return failed_record(run.id, kind, message, started, child.seconds);
  };
  switch (child.end) {
    case ChildResult::End::timed_out:
      return failed(FailureKind::timeout, child.describe(plan.run_limit_s));
    case ChildResult::End::not_started:
      return failed(FailureKind::spawn, child.describe(plan.run_limit_s));
    case ChildResult::End::signaled: {
      const char* hint = fs::exists(written)     ? " after it had written its record, which does not count"
                         : child.code == SIGKILL ? "; the kernel does this when memory runs out"
                                                 : "";
      return failed(FailureKind::signal, child.describe(plan.run_limit_s) + hint);
    }
    default:
      break;
  }
  if (child.end == ChildResult::End::exited && child.code != 0) {
    const std::string line = last_line(log);
    return failed(FailureKind::exit, child.describe(plan.run_limit_s) + (line.empty() ? "" : ": " + line));
  }
  try {
    auto record = read_document<Record>(written);
    if (const Rung& rung = plan.rungs[run.rung]; !rung.program.empty()) {  // it was not told these
      record.id = run.id;
      record.optimizations = rung.applied;
    }
    if (!record.is_ok() && record.id == run.id) return record;  // it says why itself
    const std::string failure = failure_of(record, plan, run);
    if (!failure.empty()) return failed(FailureKind::invalid_record, "its record does not fit the plan: " + failure);
    const std::string unproven = field_without_proof(record);
    if (!unproven.empty()) return failed(FailureKind::invalid_record, "its record has no proof of " + unproven);
    return record;
  } catch (const std::invalid_argument& error) {
    return failed(FailureKind::invalid_record, fmt::format("it left no valid record: {}", error.what()));
  }
}

// A peer's C library is asked from outside for the memory policy that `ladder run` sets itself
// (model/host_memory.cpp). All runs of one program make a GPU's products in the same way.
std::vector<std::string> environment_of(const Plan& plan, size_t index, const fs::path& folder) {
  const Rung& rung = plan.rungs[index];
  if (!rung.peer.empty()) {
    std::vector<std::string> variables = environment_of_peers();
    if (recipe_of(rung).host_memory == model::HostMemory::keep) {
      variables.insert(variables.end(),
                       {"MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=100000000000", "THP_MEM_ALLOC_ENABLE=1"});
    }
    return variables;
  }
  std::vector<std::string> variables;
  if (device_of(rung.recipe) == DeviceKind::cuda) {
    const auto file_of = [&](size_t arm) { return folder / fmt::format("products-{}.json", arm); };
    const fs::path choices = plan.gate ? file_of(index) : folder / "products.json";
    // The sides of a gate make equal products alike: what differs is then the programs, not which way was timed faster.
    // Each has a file of its own, because an older program may not read a newer one's.
    if (std::error_code none; plan.gate && rung.against && !fs::exists(choices)) {
      fs::copy_file(file_of(*rung.against), choices, none);
    }
    variables.push_back("LADDER_PRODUCTS=" + choices.string());
  }
  if (!rung.program.empty()) variables.emplace_back("LADDER_HOME=");  // it finds its own
  return variables;
}

// Flags for another program, which may be older or newer and have other plans. The recipe has only what is not the
// default.
std::vector<std::string> flags_of(const Plan& plan, const PlannedRun& run) {
  const Rung& rung = plan.rungs[run.rung];
  const Shape shape = shape_of(plan, run.rung);
  Json edits = Json::object();
  const Json differences = recipe_diff(plain_recipe(), rung.recipe);
  for (const auto& [field, values] : differences.items()) edits[field] = values.at(1);
  std::vector<std::string> argv{rung.program, "run", "--recipe", edits.dump(), "--model", plan.workload.model};
  const auto add = [&](const char* flag, auto value) { argv.insert(argv.end(), {flag, std::to_string(value)}); };
  add("--batch", shape.B);
  add("--context", shape.T);
  add("--accumulation", shape.accumulation);
  if (shape.positions > 0) add("--positions", shape.positions);
  add("--steps", plan.timed_steps);
  add("--warmup", plan.warmup_steps);
  add("--seed", plan.workload.seed);
  add("--threads", plan.workload.threads);
  if (plan.workload.random_windows) argv.emplace_back("--random-windows");
  const PlannedWorkload& workload = plan.workload;
  argv.insert(argv.end(), {"--data", workload.tokens.empty() ? workload.data : workload.tokens});
  if (workload.tokens.empty()) argv.insert(argv.end(), {"--vocab", workload.vocabulary});
  return argv;
}

std::vector<std::string> command_of(const Plan& plan, const PlannedRun& run, const Programs& programs,
                                    const fs::path& folder, const fs::path& record) {
  const Rung& rung = plan.rungs[run.rung];
  std::vector<std::string> argv{programs.ladder.string(), "run"};
  if (!rung.peer.empty()) {
    const std::string torch = peer_name(rung.peer).torch;
    argv = torch.empty() ? programs.python : std::vector{programs.peers.at(torch).string()};
    argv.push_back(peer_script().string());
  }
  const std::string plan_file = (folder / "plan.json").string();
  if (!rung.program.empty()) {
    argv = flags_of(plan, run);
  } else {
    argv.insert(argv.end(), {"--plan", plan_file, "--run", run.id});
  }
  argv.insert(argv.end(), {"--record", record.string(), "--report-steps-to-parent"});
  return argv;
}

std::optional<Record> made_by_child(const Plan& plan, const PlannedRun& run, const Programs& programs,
                                    const fs::path& folder, const std::function<void(std::string_view)>& on_line) {
  const ChildFile written(child_file(folder, run.id));
  const fs::path log = folder / "logs" / (run.id + ".log");
  PeerWatch watch(plan.rungs[run.rung]);
  const std::string started = harness::utc_now();
  const harness::SinceBoot begun = harness::since_boot();
  const ChildResult child = harness::run_child({.argv = command_of(plan, run, programs, folder, written.path()),
                                                .log = log,
                                                .limit_s = plan.run_limit_s,
                                                .environment = environment_of(plan, run.rung, folder),
                                                .on_line = [&](std::string_view line) {
                                                  if (!watch.take(line)) on_line(line);
                                                }});
  if (child.end == ChildResult::End::interrupted) return std::nullopt;
  Record record = result_record(child, written.path(), log, plan, run, started);
  watch.complete(record);
  // PyTorch's peers and a gate's older programs do not say; they have this process's variables.
  auto& switches = record.environment.kernel_switches;
  if (record.is_ok() && !switches) switches = harness::kernel_switches();
  if (!begun.boot.empty()) record.since_boot = BootTime{begun.boot, begun.seconds};
  return record;
}

}  // namespace

RunMaker children(const Plan& plan, const fs::path& folder, Programs programs) {
  return {.make =
              [&plan, folder, programs = std::move(programs)](const PlannedRun& run,
                                                              const std::function<void(std::string_view)>& on_line) {
                return made_by_child(plan, run, programs, folder, on_line);
              },
          .here = environment_here()};
}

std::string look_at_rung(const Plan& plan, const fs::path& folder, size_t rung, const Programs& programs,
                         const fs::path& file, const std::string& rounding) {
  files::make_folder_in(folder, "logs");
  const fs::path log = folder / "logs" / (file.stem().string() + ".look.log");
  const auto run = std::ranges::find(plan.runs, rung, &PlannedRun::rung);
  std::vector<std::string> argv{programs.ladder.string(),
                                "run",
                                "--plan",
                                (folder / "plan.json").string(),
                                "--run",
                                run->id,
                                "--look",
                                file.string()};
  if (!rounding.empty()) argv.insert(argv.end(), {"--look-rounding", rounding});
  const ChildResult child = harness::run_child(
      {.argv = argv, .log = log, .limit_s = plan.run_limit_s, .environment = environment_of(plan, rung, folder)});
  if (child.succeeded() && fs::exists(file)) return "";
  return child.describe(plan.run_limit_s) + ": " + last_line(log);
}

ChildResult trace_rung(const Plan& plan, const fs::path& folder, size_t rung, const Programs& programs) {
  const std::string name = name_of(plan.rungs[rung]);
  const auto run = std::ranges::find(plan.runs, rung, &PlannedRun::rung);
  for (const char* part : {"traces", "logs"}) files::make_folder_in(folder, part);
  const fs::path log = folder / "logs" / (name + ".trace.log");
  fmt::print(stderr, "tracing {} ...\n", name);
  ChildResult child = harness::run_child(
      {.argv = {programs.ladder.string(), "profile", "--trace", "--plan", (folder / "plan.json").string(), "--run",
                run->id, "--out", (folder / "traces").string()},
       .log = log,
       .limit_s = plan.run_limit_s,
       .environment = environment_of(plan, rung, folder)});
  if (!child.succeeded() && child.end != ChildResult::End::interrupted) {
    fmt::print(stderr, "the trace of {} failed: {}: {}\n", name, child.describe(plan.run_limit_s), last_line(log));
  }
  return child;
}

bool trace_rungs(const Plan& plan, const fs::path& folder, const Programs& programs,
                 std::chrono::steady_clock::time_point until) {
  const harness::FolderLock lock(folder);
  int64_t not_made = 0;
  for (size_t i = plan.rungs.size(); i-- > 0;) {
    const Rung& rung = plan.rungs[i];
    if (rung.status != Rung::Status::planned || !rung.peer.empty() || fs::exists(trace_file(folder, rung))) continue;
    if (std::chrono::steady_clock::now() >= until) {
      ++not_made;
      continue;
    }
    if (trace_rung(plan, folder, i, programs).end == ChildResult::End::interrupted) return false;
  }
  if (not_made > 0) fmt::print(stderr, "traces that the budget left no time for: {}\n", not_made);
  return true;
}

}  // namespace ablations
