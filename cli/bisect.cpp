// `ladder bisect`: which commit, or which version of a package, changed a program's time. What to run next, and when to
// end, is decided by harness/stats/bisection.h.
#include "ablations/plan/make_plan.h"
#include "ablations/run/command_files.h"
#include "ablations/run/command_trial.h"
#include "ablations/run/study_folder.h"
#include "cli/command.h"
#include "cli/worktrees.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/machine/machine.h"
#include "harness/process/process.h"
#include "harness/process/unfit.h"
#include "harness/process/utc.h"
#include "plots/again.h"
#include "results/bisected.h"
#include "study/measured.h"
#include "text/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace cli {

namespace fs = std::filesystem;
using files::printable;
using harness::Bisected;

namespace {

struct BisectFlags {
  std::string good, bad;
  std::vector<std::string> command, versions;
  std::string prepare, steps_from, out;
  TypedLine typed;
  double min_effect = harness::usual_min_effect;
  int64_t pairs = 100, steps = 30, warmup = 10, limit_s = 900;
  std::optional<int64_t> budget_s;
  bool json = false, force = false, wait = false;
};

TimeRatio ratio_of(double size, const std::optional<harness::Interval>& interval) {
  TimeRatio ratio;
  ratio.ratio = std::exp(size);
  if (interval) ratio.lo = std::exp(interval->lo), ratio.hi = std::exp(interval->hi);
  return ratio;
}

std::string shown(const TimeRatio& ratio) {
  return fmt::format("{:.3f} times as long{}", ratio.ratio,
                     ratio.lo ? fmt::format(" [{:.3f}-{:.3f}]", *ratio.lo, *ratio.hi) : "");
}

// The list from GOOD to BAD, what was measured of it, and what follows.
class Search {
 public:
  Search(const BisectFlags& flags, fs::path out) : flags_(flags), out_(std::move(out)) {
    if (flags.versions.empty()) {
      list_commits();
    } else {
      for (const std::string& version : flags.versions) {
        const std::string name = fmt::format("v{:02}", own_.size());
        own_.push_back({.name = name,
                        .commit = version,
                        .place = fs::absolute(out_ / "worktrees" / name),
                        .directory = fs::current_path()});
      }
      for (CommitSide& side : own_) sides_.push_back(&side);
    }
    std::vector<CommitSide> copies;
    for (size_t i = 0; i < sides_.size(); ++i) alive_.push_back(i), copies.push_back(*sides_[i]);
    is_built_.resize(sides_.size());
    skipped_.resize(sides_.size());
    plan_ = {.id = "bisect-" + study_id("measure", harness::utc_now()),
             .created = harness::utc_now(),
             .ladder = {.name = "measure", .title = "1 command", .file = {}},
             .warmup_steps = flags.warmup,
             .timed_steps = flags.steps,
             .repeats = flags.pairs,
             .run_limit_s = static_cast<double>(flags.limit_s),
             .rungs = arms_of(command_text(flags.command), copies)};
    plan_.gate = GateTerms{.min_effect = flags.min_effect};
    plan_.commands = CommandTerms{.steps_from = flags.steps_from};
    plan_.typed = flags.typed;
    for (size_t i = 1; i + 1 < sides_.size(); ++i) plan_.rungs[i].status = Rung::Status::not_measured;
  }

  // Checks that both ends can be measured, and writes the plan. Throws harness::Unfit if not.
  void begin(BegunFolder& begun) {
    for (const size_t end : {size_t{0}, sides_.size() - 1}) {
      if (const std::string why = built(end); !why.empty()) throw harness::Unfit(why);
    }
    if (harness::interrupted()) return;
    check_code_differs();
    Plan first = plan_;
    for (const size_t end : {size_t{0}, sides_.size() - 1}) first.runs.push_back(run_of(plan_.rungs, end, 0));
    write_document(out_ / "plan.json", first);
    begun.has_plan();
    fmt::print(stderr, "{} from {} to {}, into {}\n", number_of(std::ssize(sides_) - 1, noun()), name_of(0),
               name_of(sides_.size() - 1), printable(out_.string()));
  }

  // Makes runs until there is a verdict. Returns false if it was interrupted.
  bool search() {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t pair = 0;; ++pair) {
      if (harness::interrupted()) return false;
      look();
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
      if (!step_.verdict && flags_.budget_s && passed.count() >= static_cast<double>(*flags_.budget_s)) {
        step_.verdict = Bisected::open;
      }
      if (step_.verdict) return true;
      size_t first = alive_[step_.next.first], second = alive_[step_.next.second];
      if (pair % 2 == 1) std::swap(first, second);  // so that drift is no change
      drop_others(first, second);
      if (!can_measure(first) || !can_measure(second)) continue;
      if (!measure(first, second, pair)) return false;
    }
  }

  [[nodiscard]] Bisection result() const;

 private:
  [[nodiscard]] const char* noun() const { return flags_.versions.empty() ? "commit" : "version"; }
  [[nodiscard]] std::string name_of(size_t place) const {
    return sides_[place]->commit.substr(0, worktrees_ ? 12 : 200);
  }

  void list_commits() {
    worktrees_.emplace(std::vector<NamedCommit>{{"good", "GOOD", flags_.good}, {"bad", "BAD", flags_.bad}}, out_);
    const fs::path log = out_ / "logs" / "git.log";
    const std::string good = worktrees_->sides()[0].commit, bad = worktrees_->sides()[1].commit;
    if (good == bad || git({"rev-list", "--max-count=1", bad + ".." + good}, log) != "") {
      throw std::invalid_argument(fmt::format("GOOD {} must be an ancestor of BAD {}", flags_.good, flags_.bad));
    }
    std::istringstream lines(git({"rev-list", "--first-parent", "--reverse", good + ".." + bad}, log));
    std::vector<std::string> between;
    for (std::string line; std::getline(lines, line);) between.push_back(line);
    between.pop_back();  // BAD
    worktrees_->add(between);
    std::vector<CommitSide>& sides = worktrees_->sides();
    for (CommitSide& side : sides) sides_.push_back(&side);
    std::rotate(sides_.begin() + 1, sides_.begin() + 2, sides_.end());  // BAD is the last
  }

  void look() {
    std::vector<double> weights(alive_.size(), 1);
    for (size_t k = 1; k < alive_.size(); ++k) weights[k] = static_cast<double>(alive_[k] - alive_[k - 1]);
    std::vector<harness::PlaceTime> runs = runs_;
    for (auto& run : runs) {
      run.place = static_cast<size_t>(std::ranges::lower_bound(alive_, run.place) - alive_.begin());
    }
    step_ = harness::search_step(runs, weights, flags_.min_effect, 2 * static_cast<size_t>(flags_.pairs));
  }

  // Prepares and tries a place. Returns why it cannot be measured; empty: it can, or there was an interrupt.
  std::string built(size_t place) {
    CommitSide& side = *sides_[place];
    try {
      if (worktrees_) {
        worktrees_->make(side, flags_.prepare);
      } else {
        const std::string install = "pip install -q " + plots::for_shell(side.commit);
        prepare_side(side, flags_.prepare.empty() ? install : install + " && " + flags_.prepare, out_ / "logs");
      }
      is_built_[place] = true;
      if (harness::interrupted()) return "";
      fmt::print(stderr, "trying {} ...\n", printable(name_of(place)));
      TypedCommand& command = *plan_.rungs[place].command;
      command.variables = side.variables;
      if (const auto trial = tried(plan_, place, out_, &side.code)) command.trial = *trial;
    } catch (const std::invalid_argument& error) {  // of git or the trial
      const bool is_tried = worktrees_ && is_built_[place];
      return fmt::format("{}: {}{}", name_of(place), error.what(),
                         is_tried ? worktrees_->lacks(side, trial_log(plan_, place, out_)) : "");
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  bool can_measure(size_t place) {
    if (is_built_[place]) return true;
    const std::string why = built(place);
    if (!why.empty()) skip(place, why);
    return why.empty();
  }

  // Throws harness::Unfit for an end.
  void skip(size_t place, const std::string& why) {
    if (place == 0 || place + 1 == sides_.size()) throw harness::Unfit(why);
    fmt::print(stderr, "note: {} is skipped: {}\n", printable(name_of(place)), printable(why));
    skipped_[place] = why;
    std::erase(alive_, place);
    std::erase_if(runs_, [&](const harness::PlaceTime& run) { return run.place == place; });
    drop(place);
  }

  void drop(size_t place) {
    if (worktrees_ && is_built_[place]) worktrees_->drop(*sides_[place]);
    is_built_[place] = false;
  }

  // The worktrees of commits that are hardly suspects any more.
  void drop_others(size_t first, size_t second) {
    const harness::Suspects& of = step_.suspects;
    if (of.one.empty() || of.two + of.steps > 0.05) return;
    for (size_t k = 1; k + 1 < alive_.size(); ++k) {
      const bool is_next = alive_[k] == first || alive_[k] == second;
      if (!is_next && of.one[k] + of.one[k + 1] < 1e-3) drop(alive_[k]);
    }
  }

  // Throws harness::Unfit where both ends read one program.
  void check_code_differs() const {
    std::string why;
    if (worktrees_) {
      const std::vector<fs::path> both = worktrees_->code_of_both();
      if (!both.empty()) why = fmt::format("GOOD and BAD read the same code, {}", both.front().string());
    } else {
      const std::string own = environment_of(*sides_.back()).string() + "/";
      const auto is_own = [&](const fs::path& file) { return file.string().starts_with(own); };
      if (std::ranges::none_of(sides_.back()->code, is_own)) {
        why = "the command reads nothing of the environment with the version; start python by its plain name";
      }
    }
    if (why.empty()) return;
    if (!flags_.force) throw harness::Unfit(why + "; --force bisects anyway");
    fmt::print(stderr, "note: {}\n", printable(why));
  }

  // Makes two runs. Returns false if it was interrupted.
  bool measure(size_t first, size_t second, int64_t pair) {
    const PlannedRun of_pair[]{run_of(plan_.rungs, first, pair), run_of(plan_.rungs, second, pair)};
    plan_.runs.insert(plan_.runs.end(), std::begin(of_pair), std::end(of_pair));
    if (carry_out(plan_, out_, commands(plan_, out_), 0).interrupted) return false;
    for (const PlannedRun& run : of_pair) {
      const auto record = good_record(out_, plan_, run);
      const std::string why = record ? why_no_number(*record) : "a run of it failed";
      if (why.empty()) {
        runs_.push_back({.place = run.rung, .log_time = std::log(run_data(*record).median_ms)});
        continue;
      }
      std::erase_if(plan_.runs, [&](const PlannedRun& other) { return other.id == run.id; });
      if (fs::exists(record_file(out_, run.id))) skip(run.rung, name_of(run.rung) + ": " + why);
    }
    return true;
  }

  [[nodiscard]] BisectedChange change(const harness::PlaceChange& of) const {
    BisectedChange change;
    static_cast<TimeRatio&>(change) = ratio_of(of.size, of.interval);
    for (size_t i = alive_[of.place - 1] + 1; i <= alive_[of.place]; ++i) change.commits.push_back(sides_[i]->commit);
    return change;
  }
  [[nodiscard]] std::string words(const BisectedChange& change) const {
    const auto place = std::ranges::find(sides_, change.commits.back(), &CommitSide::commit) - sides_.begin();
    std::string name = name_of(static_cast<size_t>(place));
    if (worktrees_)
      name += " (" + git({"log", "-1", "--format=%s", change.commits.back()}, out_ / "logs" / "git.log") + ")";
    if (change.commits.size() > 1) {
      name = fmt::format("one of {} {}s up to {}, of which others cannot be measured,", change.commits.size(), noun(),
                         name);
    }
    return fmt::format("{} took {}", name, shown(change));
  }

  const BisectFlags& flags_;
  fs::path out_;
  std::optional<Worktrees> worktrees_;
  std::vector<CommitSide> own_;     // of versions
  std::vector<CommitSide*> sides_;  // from GOOD to BAD
  std::vector<size_t> alive_;       // places that can be measured, as far as known
  std::vector<bool> is_built_;
  std::vector<std::string> skipped_;  // why
  std::vector<harness::PlaceTime> runs_;
  harness::SearchStep step_{};
  Plan plan_;
};

Bisection Search::result() const {
  const harness::Suspects& of = step_.suspects;
  Bisection result{.created = harness::utc_now(), .verdict = step_.verdict.value_or(Bisected::open), .said = {}};
  result.runs = std::ssize(runs_);
  result.none = std::min(of.none, 1.0), result.two = std::min(of.two, 1.0), result.steps = std::min(of.steps, 1.0);
  if (step_.whole.n > 0) result.whole = ratio_of(step_.whole.center, step_.whole.interval);
  for (size_t i = 0; i < sides_.size(); ++i) {
    result.commits.push_back({.commit = sides_[i]->commit,
                              .runs = std::ranges::count(runs_, i, &harness::PlaceTime::place),
                              .skipped = files::shortened(printable(skipped_[i]), 300)});
  }
  for (size_t k = 1; k < of.one.size(); ++k) {
    const auto commits = static_cast<double>(alive_[k] - alive_[k - 1]);
    for (size_t i = alive_[k - 1] + 1; i <= alive_[k]; ++i)
      result.commits[i].probability = std::min(of.one[k] / commits, 1.0);
  }
  switch (result.verdict) {
    case Bisected::one:
      result.changes = {change(of.alone)};
      result.said = fmt::format("{}; probability {:.2f}", words(result.changes[0]), of.one[of.alone.place]);
      break;
    case Bisected::two:
      result.changes = {change(of.first), change(of.second)};
      result.said = fmt::format("two: {}, and {}; probability {:.2f}", words(result.changes[0]),
                                words(result.changes[1]), of.best_two);
      break;
    case Bisected::steps:
      result.said = fmt::format("no single {}: it came by little steps; BAD took {}", noun(), shown(*result.whole));
      break;
    case Bisected::same: {
      const double most = std::max(*result.whole->hi, 1 / *result.whole->lo) - 1;
      result.said = fmt::format("GOOD and BAD do not differ by more than {:.2g} %", 100 * most);
      break;
    }
    case Bisected::open: {
      result.said = fmt::format("not found in {}", number_of(result.runs, "run"));
      if (of.one.empty()) break;
      const auto likely = std::ranges::max_element(result.commits, {}, &BisectedCommit::probability);
      result.said += fmt::format("; the first suspect is {}, probability {:.2f}",
                                 name_of(static_cast<size_t>(likely - result.commits.begin())), likely->probability);
    }
  }
  if (!result.changes.empty()) result.exit_status = 0;
  return result;
}

int bisect(const BisectFlags& flags) {
  if (flags.command.empty()) {
    throw std::invalid_argument("GOOD, BAD and a command are needed: ladder bisect v1.0 HEAD -- python train.py");
  }
  if (flags.versions.size() == 1) throw std::invalid_argument("--versions needs two or more, the good one first");
  const std::string id = "bisect-" + study_id("measure", harness::utc_now());
  const fs::path out = fs::absolute(flags.out.empty() ? fs::path("gates") / id : files::named_folder(flags.out));
  check_may_begin(out);
  harness::catch_interrupts();
  harness::catch_lost_readers();  // or a reader that has gone would leave the worktrees
  const auto devices = occupy_for_commands("ladder bisect", out, flags.wait);
  BegunFolder begun(out, {"runs", "worktrees"});
  Search search(flags, out);
  for (const std::string& line : harness::disturbances()) fmt::print(stderr, "note: {}\n", line);
  search.begin(begun);
  if (!search.search()) {
    fmt::print(stderr, "interrupted; the runs so far are kept, but a bisection cannot be resumed\n");
    return 130;
  }
  const Bisection result = search.result();
  write_document(out / "bisect.json", result);
  if (flags.json) {
    fmt::print("{}\n", json_of(result).dump(-1, ' ', /*ensure_ascii=*/true));
    return static_cast<int>(result.exit_status);
  }
  for (const BisectedCommit& commit : result.commits) {
    if (commit.runs == 0 && commit.skipped.empty() && commit.probability < 0.01) continue;
    fmt::print("{:<12.12} {:>4.0f} % {:>3} {}\n", printable(commit.commit), 100 * commit.probability,
               number_of(commit.runs, "run"), commit.skipped.empty() ? "" : "skipped");
  }
  fmt::print("{}\n", printable(result.said));
  return static_cast<int>(result.exit_status);
}

}  // namespace

void add_bisect(CommandLine& line) {
  Command& command = line.add(
      {.name = "bisect",
       .about =
           "Finds the commit that changed a program's time, from noisy runs. Pairs of runs are made where they tell "
           "most. Each commit has a probability, and the search ends at 0.95. A commit that cannot be prepared or does "
           "not run is skipped. The list is GOOD..BAD along first parents, or --versions of a package.\n"
           "Exit status: 0 one commit or two were found; 3 no answer: GOOD and BAD do not differ, the change came by "
           "little steps, or the runs did not suffice. Leaves a folder with the records and bisect.json. "
           "docs/bisect.md "
           "says how often it is right.",
       .examples = {{"ladder bisect v1.0 HEAD -- python train.py", "Which commit made training slower?"},
                    {"ladder bisect v1.0 HEAD --prepare 'pip install .' -- python train.py",
                     "Each commit is installed before, in an environment of its own."},
                    {"ladder bisect --versions torch==2.10.0,torch==2.11.0 -- python train.py",
                     "Which version of a package did?"}},
       .common = {"--versions", "--prepare", "--min-effect", "--pairs", "--out", "--json"}});
  auto& flags = command.runs<BisectFlags>([](const BisectFlags& given) {
    BisectFlags completed = given;
    for (const std::string& word : {given.bad, given.good}) {  // no commits are named then: the command has these words
      if (!given.versions.empty() && !word.empty()) completed.command.insert(completed.command.begin(), word);
    }
    return bisect(completed);
  });
  command.heading("What to compare");
  add_text(command, "good", flags.good, "the commit before the change", "COMMIT");
  add_text(command, "bad", flags.bad, "the commit after it", "COMMIT");
  command.add_option("command", flags.command, "after --: what trains, as on a shell's command line")
      ->type_name("-- COMMAND");
  add_names(command, "--versions", flags.versions, "what pip installs, the good one first, in place of commits");
  add_text(command, "--prepare", flags.prepare,
           "what each commit needs once before, for sh, in a Python environment of its own", "COMMAND");
  add_text(command, "--steps-from", flags.steps_from, "as ladder measure's", "REGEX");
  command.add_flag("--force", flags.force, "search even if GOOD and BAD seem to run the same code, and say so");
  command.heading("How to compare");
  add_min_effect_flag(command, flags.min_effect, "difference of GOOD and BAD");
  add_number(command, "--pairs", flags.pairs, "the most pairs of runs (default 100)", 6, 1000);
  add_number(command, "--budget-s", flags.budget_s, "the seconds after which no pair begins", 1, 1000000);
  add_number(command, "--steps", flags.steps, "timed steps of a run (default 30)", 1, 100000);
  add_number(command, "--warmup", flags.warmup, "untimed steps before them (default 10)", 0, 100000);
  add_number(command, "--limit-s", flags.limit_s, "seconds after which a run is stopped (default 900)", 1, 1000000);
  add_wait_flag(command, flags.wait);
  command.heading(results_heading);
  add_output(command, "--out", flags.out, "folder of the bisection (default: gates/bisect-<time>)", "FOLDER");
  command.add_flag("--json", flags.json, "print the result as one line of JSON");
  command.callback([&command, &flags] { flags.typed = command.typed({"--wait"}); });
}

}  // namespace cli
