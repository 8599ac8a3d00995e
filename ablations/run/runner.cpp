#include "ablations/run/runner.h"

#include "ablations/plan/shard.h"
#include "ablations/run/progress.h"
#include "ablations/run/run_setting.h"
#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "files/sha256.h"
#include "harness/machine/gpu_monitor.h"
#include "harness/machine/machine.h"
#include "harness/machine/processor_time.h"
#include "harness/process/locks.h"
#include "harness/process/process.h"
#include "harness/process/unfit.h"
#include "results/study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace ablations {

namespace fs = std::filesystem;

namespace {

// All runs of a study need one kind of machine and one program, also after --resume. A gate has programs of its own,
// with their own libraries and variables that choose kernels: check_belongs() compares those of one program's records,
// and the verdict those of base and head.
void check_same_machine(const fs::path& folder, const Plan& plan, const Record& record, Environment here) {
  if (!plan.commands) here.threads = plan.workload.threads;  // of the runs, not of this process
  const bool cuda = uses_cuda(plan);
  const auto facts = [&](const Environment& of) {
    if (!plan.gate) return study_facts(of, record.workload, cuda);
    Setting setting = machine_setting(of, cuda);
    if (!plan.commands) {
      setting.torch.reset();
      setting.cuda.reset();
      setting.cpu_capability.reset();
      setting.kernel_switches.reset();
    }
    return setting.facts();
  };
  const auto lines = differences(facts(record.environment), facts(here));
  if (lines.empty()) return;
  throw harness::Unfit(
      fmt::format("{}: its runs were made under other circumstances: {}; resume there, or begin a new study",
                  folder.string(), fmt::join(lines, "; ")));
}

// Whether a disturbed run has not been made a second time. Who is killed between two writes leaves its record twice.
bool waits_for_second(const fs::path& file, const Record& record) {
  if (!record.is_disturbed()) return false;
  try {
    return json_of(read_document<Record>(flagged_file(file))) == json_of(record);
  } catch (const std::invalid_argument&) {  // there is none, or none that can be read
    return true;
  }
}

// Makes a plan's runs, one child for each.
class Runner {
 public:
  Runner(const Plan& plan, PlanIdentity identity, fs::path folder, const RunMaker& maker, double budget_s,
         const std::vector<double>& run_s, const IsEnough& is_enough)
      : plan_(plan),
        identity_(std::move(identity)),
        folder_(std::move(folder)),
        maker_(maker),
        budget_s_(budget_s),
        run_s_(run_s),
        is_enough_(is_enough) {}

  Outcome carry_out() {
    std::vector<Due> due = due_runs();
    if (budget_s_ > 0) put_compared_with_first(due);
    const auto ours = std::ranges::find_if(first_of_, [](const auto& of) { return of.first.peer.empty(); });
    if (!due.empty() && ours != first_of_.end()) check_same_machine(folder_, plan_, ours->second, maker_.here);
    harness::catch_interrupts();
    double expected_s = 0;
    for (const Due& of : due) expected_s += run_s_.empty() || of.first ? 0 : run_s_[of.run.rung];
    const auto waiting = std::ranges::count_if(due, [](const Due& of) { return of.first.has_value(); });
    progress_.emplace(plan_, runs_to_make(plan_).size(), due.size() - static_cast<size_t>(waiting), expected_s);
    for (size_t i = 0; i < due.size() && !outcome_.interrupted; ++i) {
      if (budget_is_spent()) {
        ++(due[i].first ? outcome_.not_made_again : outcome_.not_made);
        continue;
      }
      make_due(due[i]);
      const bool repeat_goes_on = i + 1 < due.size() && due[i + 1].run.repeat == due[i].run.repeat;
      if (repeat_goes_on) continue;
      if (most_are_disturbed(due[i].run.repeat)) give_up_disturbed();
      make_disturbed_again();
      if (plan_.gate && outcome_.some_failed && !outcome_.interrupted && i + 1 < due.size()) {
        fmt::print(stderr, "a failed run decides the gate; runs that are not made: {}\n", due.size() - i - 1);
        break;
      }
      if (is_enough_ && !outcome_.interrupted && is_enough_(due[i].run.repeat + 1)) break;
    }
    outcome_.not_made_again += disturbed_.size();
    return outcome_;
  }

 private:
  struct Due {
    PlannedRun run;
    std::optional<Record> first;  // of a disturbed run that is to be made again; none: it has not been made
  };

  struct Maker {
    std::string peer, program;  // as a rung's
    bool operator<(const Maker& other) const { return std::tie(peer, program) < std::tie(other.peer, other.program); }
  };

  // The runs that have no good record, and disturbed ones to make again.
  std::vector<Due> due_runs() {
    std::vector<Due> due;
    for (const PlannedRun& run : runs_to_make(plan_)) {
      const std::optional<Record> record = good_record(folder_, plan_, run);
      if (!record) {
        due.push_back({.run = run, .first = {}});
        continue;
      }
      const fs::path file = record_file(folder_, run.id);
      count_disturbed(run, record->is_disturbed() || fs::exists(flagged_file(file)));
      if (record->monitor && record->monitor->sm_clock_mhz) {
        clocks_mhz_[run.rung].push_back(record->monitor->sm_clock_mhz->median);
      }
      if (waits_for_second(file, *record)) due.push_back({.run = run, .first = record});
      first_of_.try_emplace(maker_of(run), *record);
    }
    const auto goes_on = [&](int64_t repeat) {
      return std::ranges::any_of(due, [&](const Due& of) { return of.run.repeat == repeat && !of.first; });
    };
    std::vector<Due> left;
    std::ranges::copy_if(due, std::back_inserter(left), [&](const Due& of) {
      return !of.first || goes_on(of.run.repeat) || !most_are_disturbed(of.run.repeat);
    });
    return left;
  }

  // For each repeat, the runs that ended well, and how many of them the machine disturbed the first time.
  void count_disturbed(const PlannedRun& run, bool disturbed_at_first) {
    auto& [ended, disturbed] = first_attempts_[run.repeat];
    ++ended;
    if (disturbed_at_first) ++disturbed;
  }

  // Whether most first attempts up to the end of this repeat were disturbed. Beside the same work a second attempt
  // would be disturbed, too, and only take as long again. Of fewer than four runs that is chance.
  [[nodiscard]] bool most_are_disturbed(int64_t repeat) const {
    int64_t ended = 0, disturbed = 0;
    for (auto of = first_attempts_.begin(); of != first_attempts_.upper_bound(repeat); ++of) {
      ended += of->second.first;
      disturbed += of->second.second;
    }
    return ended >= 4 && 2 * disturbed > ended;
  }

  // The disturbed runs of a repeat that has ended are not made again.
  void give_up_disturbed() {
    if (!disturbed_.empty() && !std::exchange(said_, true)) {
      std::vector<std::string> flags;
      for (const Due& due : disturbed_) flags.insert(flags.end(), due.first->flags->begin(), due.first->flags->end());
      progress_->note(
          fmt::format("most runs are disturbed, so disturbed runs are not made again: {} and begin a new study",
                      remedy_for(flags)));
    }
    disturbed_.clear();
  }

  // Where the budget ends within the first repeat, what others are compared with is there.
  void put_compared_with_first(std::vector<Due>& due) const {
    const auto is_compared_with = [&](const Due& of) {
      return of.run.rung == plan_.reference ||
             std::ranges::any_of(plan_.rungs, [&](const Rung& rung) { return rung.against == of.run.rung; });
    };
    const auto later = std::stable_partition(due.begin(), due.end(), [](const Due& of) { return of.run.repeat == 0; });
    std::stable_partition(due.begin(), later, is_compared_with);
  }

  [[nodiscard]] bool budget_is_spent() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    return budget_s_ > 0 && passed.count() >= budget_s_;
  }

  // Disturbed runs wait until all others of their repeat have been made.
  void make_due(const Due& due) {
    if (due.first) {
      disturbed_.push_back(due);
      return;
    }
    std::optional<Record> record = make(due.run, /*again=*/false);
    if (!record) return;
    compare_clock(due.run, *record);
    write_document(record_file(folder_, due.run.id), *record);
    outcome_.some_failed = outcome_.some_failed || !record->is_ok();
    progress_->end(*record);
    if (record->is_ok()) count_disturbed(due.run, record->is_disturbed());
    await_quiet(*record);
    if (record->is_disturbed()) disturbed_.push_back({.run = due.run, .first = std::move(record)});
  }

  // Beside other work a study takes all its time and claims nothing: three of the first four runs tell.
  void await_quiet(const Record& record) {
    const auto is_shared = [](const std::string& flag) { return flag.starts_with("shared: "); };
    if (record.flags && std::ranges::any_of(*record.flags, is_shared)) ++shared_;
    if (++made_ != 4 || shared_ < 3 || harness::may_be_busy()) return;
    const std::string who = harness::busiest_other(0.5);
    const std::string why =
        fmt::format("other work disturbed {} of the first 4 runs{}", shared_, who.empty() ? "" : ": " + who);
    if (::isatty(STDERR_FILENO) == 0) {
      throw harness::Unfit(why + "; stop it and begin again, or set LADDER_BUSY=1 to measure beside it");
    }
    if (harness::other_work_runs()) progress_->note(why + "; waiting for its end");
    while (harness::other_work_runs() && !harness::interrupted()) std::this_thread::sleep_for(std::chrono::seconds(1));
  }

  void make_disturbed_again() {
    while (!disturbed_.empty() && !budget_is_spent() && !outcome_.interrupted) {
      auto [run, record] = std::move(disturbed_.front());
      disturbed_.pop_front();
      if (make_again(run, *record)) progress_->end(*record);
    }
  }

  // A run that was throttled evenly shows only beside the rung's other runs.
  void compare_clock(const PlannedRun& run, Record& record) {
    const auto clock = record.is_ok() && record.monitor ? record.monitor->sm_clock_mhz : std::nullopt;
    if (!clock) return;
    std::vector<double>& siblings = clocks_mhz_[run.rung];
    const std::string flag = harness::clock_flag(clock->median, siblings);
    if (!flag.empty() && record.flags) record.flags->push_back(flag);
    siblings.push_back(clock->median);
  }

  // The record of a new child; none where it was interrupted.
  std::optional<Record> make(const PlannedRun& run, bool again) {
    progress_->begin(run, again);
    const auto before = kept_files();
    std::optional<Record> record = maker_.make(run, [&](std::string_view line) { progress_->step(line); });
    if (kept_files() != before) {
      throw harness::Unfit(
          fmt::format("{}: while run {} was made, records of other runs or one of the programs were changed; this "
                      "decides nothing, begin anew",
                      folder_.string(), run.id));
    }
    if (!record) {
      progress_->interrupted();
      outcome_.interrupted = true;
      return std::nullopt;
    }
    record->plan = identity_;  // children of a gate do not know it
    if (record->is_ok()) check_belongs(run, *record);
    return record;
  }

  // The records and programs of a gate, or of commands, with their SHA-256, which no run of one program may touch.
  // Empty for a study whose runs are all of one program.
  [[nodiscard]] std::map<std::string, std::string> kept_files() const {
    std::map<std::string, std::string> files;
    if (!plan_.gate && !plan_.commands) return files;
    const auto add = [&](const fs::path& file) { files[file.string()] = files::sha256_of_file(file); };
    for (const Rung& rung : plan_.rungs) {
      if (!rung.program.empty() && !rung.command) add(rung.program);
    }
    for (const auto& entry : fs::directory_iterator(folder_ / "records")) {
      if (entry.path().extension() == ".json") add(entry.path());
    }
    return files;
  }

  // A disturbed run once more; false where that was interrupted.
  bool make_again(const PlannedRun& run, Record& record) {
    progress_->note(fmt::format("{}, is run again because it was disturbed ({})", progress_->name_of(run),
                                fmt::join(*record.flags, "; ")));
    std::optional<Record> second = make(run, /*again=*/true);
    if (!second) return false;
    compare_clock(run, *second);
    if (second->is_ok()) {
      write_document(flagged_file(record_file(folder_, run.id)), record);
      write_document(record_file(folder_, run.id), *second);
      record = std::move(*second);
    } else {
      progress_->note(fmt::format("{}, failed the second time, so its first record stays: {}", progress_->name_of(run),
                                  second->failure->message));
    }
    return true;
  }

  [[nodiscard]] Maker maker_of(const PlannedRun& run) const {
    const Rung& rung = plan_.rungs[run.rung];
    return {rung.peer, rung.program};
  }

  // Throws harness::Unfit if a run had another text or program than the study's first run.
  void check_belongs(const PlannedRun& run, const Record& record) {
    const Record& first = first_of_.try_emplace(maker_of(run), record).first->second;
    const bool cuda = uses_cuda(plan_);
    const auto lines = differences(study_facts(first, cuda), study_facts(record, cuda));
    if (lines.empty()) return;
    throw harness::Unfit(fmt::format("{}: run {} does not belong to run {}, and is not kept: {}", folder_.string(),
                                     run.id, first.id, fmt::join(lines, "; ")));
  }

  const Plan& plan_;
  PlanIdentity identity_;
  fs::path folder_;
  const RunMaker& maker_;
  double budget_s_;
  const std::vector<double>& run_s_;  // by rung
  const IsEnough& is_enough_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::map<Maker, Record> first_of_;                               // each one's first record
  std::deque<Due> disturbed_;                                      // to be made again at the end of their repeat
  std::map<int64_t, std::pair<int64_t, int64_t>> first_attempts_;  // by repeat
  std::map<size_t, std::vector<double>> clocks_mhz_;               // by rung: its runs' median SM clocks
  int64_t made_ = 0, shared_ = 0;                                  // of this sitting's runs: by other work
  bool said_ = false;                                              // that disturbed runs are not made again
  std::optional<Progress> progress_;
  Outcome outcome_;
};

}  // namespace

Outcome carry_out(const Plan& plan, const fs::path& folder, const RunMaker& maker, double budget_s,
                  const std::vector<double>& run_s, const IsEnough& is_enough) {
  const harness::FolderLock lock(folder);
  check_has_no_links(folder);
  for (const char* part : {"records", "logs"}) files::make_folder_in(folder, part);
  const Plan whole = open_study(folder);
  check_records_are_of(whole, folder, Unnamed::refused);
  remove_unfinished_files(whole, folder);
  return Runner(plan, plan_identity(whole), folder, maker, budget_s, run_s, is_enough).carry_out();
}

void check_goes_on_here(const Plan& plan, const fs::path& folder, const Environment& here) {
  for (const PlannedRun& run : runs_to_make(plan)) {
    if (!plan.rungs[run.rung].peer.empty()) continue;
    const std::optional<Record> record = good_record(folder, plan, run);
    if (!record) continue;
    Environment of = here;
    if (plan.gate) of.torch = record->environment.torch;  // its programs have their own
    check_same_machine(folder, plan, *record, of);
    if (!plan.gate) return;  // a study's analysis compares the others with it
  }
}

}  // namespace ablations
