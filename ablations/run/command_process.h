// One process of a command of `ladder measure`, from its start until it has made its steps: what it printed, how long
// its steps took, what it used of the machine.
//
// To print a loss, the device must have computed it. So the time between two lines with a loss is honest on a GPU, too.
#pragma once

#include "ablations/run/command_files.h"
#include "ablations/run/command_metric.h"
#include "ablations/run/used_gpus.h"
#include "harness/lines/rank_steps.h"
#include "harness/lines/step_pace.h"
#include "harness/lines/step_reader.h"
#include "harness/machine/asleep.h"
#include "harness/machine/processor_time.h"
#include "harness/process/process.h"
#include "results/plan.h"
#include "results/record.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ablations {

class CommandProcess {
 public:
  // A run, whose lines are read as the command's trial says. `repeat`: its number, from 1 on.
  // goes_on: it is not ended after its timed steps, but when it has gone on for about as long as until then.
  CommandProcess(const Plan& plan, const TypedCommand& command, std::string id, std::filesystem::path folder,
                 int64_t repeat = 1, bool goes_on = false);
  // A trial: its own lines decide. `code`: what it reads of code is added there, by a hook that a run must not have.
  static CommandProcess trial(const Plan& plan, const TypedCommand& command, std::string id,
                              std::filesystem::path folder, std::set<std::filesystem::path>* code);

  // Starts it and waits for its end. on_line gets "STEPS WANTED", of steps.
  void make(const std::function<void(std::string_view)>& on_line);

  [[nodiscard]] const harness::ChildResult& child() const { return child_; }
  [[nodiscard]] const UsedGpus& gpus() const { return gpus_; }
  [[nodiscard]] std::filesystem::path log() const { return folder_ / "logs" / (id_ + ".log"); }
  [[nodiscard]] const harness::StepWindow& window() const { return window_; }
  [[nodiscard]] bool by_loss() const;  // each line has one
  [[nodiscard]] bool by_client() const { return by_client_; }
  [[nodiscard]] std::string shape() const;

  // Why it has no number; empty: it has one. `shows_end`: somebody shows the end of its log.
  [[nodiscard]] std::string failure(bool shows_end = false) const;

  // What a trial found.
  [[nodiscard]] const harness::TrialLines& printed() const { return *trial_; }
  [[nodiscard]] std::optional<harness::StepFormat> format() const;
  [[nodiscard]] const harness::Pace& pace() const { return pace_.pace; }
  [[nodiscard]] const std::map<std::string, std::string>& versions() const { return versions_; }
  [[nodiscard]] bool has_losses() const;               // any
  [[nodiscard]] bool holds_back() const;               // it prints several steps at a time
  [[nodiscard]] std::string doubt() const;             // why its numbers cannot be believed; empty: they can
  [[nodiscard]] std::optional<double> cpu_ms() const;  // processor time of a timed step

  [[nodiscard]] Record record(const PlannedRun& run, const std::vector<std::string>& applied,
                              const Environment& here) const;

 private:
  [[nodiscard]] std::vector<std::string> environment() const;
  [[nodiscard]] harness::StepWindow empty_window(const harness::Pace& pace, const std::string& unit) const;
  [[nodiscard]] double now_s() const;
  bool take_output(int stream, std::string_view bytes);
  bool take_client();
  bool take(const std::vector<harness::StepLine>& steps);
  void follow_window();
  bool review(bool at_end);
  void add_printed_losses(const std::vector<harness::StepLine>& steps);
  bool look(const std::vector<pid_t>& tree);
  bool turn();
  void renew_tree();
  void watch_processes();
  bool take_later(const std::vector<harness::StepLine>& steps);
  [[nodiscard]] std::optional<LaterSteps> later() const;
  [[nodiscard]] std::string failure_of_metric() const;
  [[nodiscard]] bool held_back_client() const;
  void begin_window();
  void end_window();
  void check_clock();
  [[nodiscard]] std::optional<double> lost(double timed_s) const;
  double add_steps(Record& record) const;
  double add_whole_run(Record& record) const;
  [[nodiscard]] std::optional<double> own_ms() const;
  [[nodiscard]] std::optional<double> wait_ms() const;
  [[nodiscard]] std::optional<int64_t> tokens_per_step() const;
  [[nodiscard]] std::filesystem::path code_file() const;
  [[nodiscard]] std::vector<std::optional<double>> losses() const;
  [[nodiscard]] std::optional<CommandRanks> ranks() const;

  const Plan& plan_;
  const TypedCommand& command_;
  std::string id_;
  int64_t repeat_;
  std::filesystem::path folder_, own_, client_log_;
  ClientLog client_;
  harness::LineSplitter lines_;
  std::optional<harness::RankReader> reader_;  // of a run
  std::optional<harness::TrialLines> trial_;   // of a trial
  std::optional<MetricReader> metric_;         // of a run that is compared by a metric
  std::optional<harness::TrialLines::Learned> learned_;
  harness::PaceFound pace_;
  size_t reviewed_lines_ = 0;
  double reviewed_s_ = 0, review_cost_s_ = 0, first_output_s_ = -1;
  harness::StepWindow window_;
  std::vector<std::pair<double, double>> printed_losses_;  // seconds, loss: where a client tells of the steps
  std::function<void(std::string_view)> on_line_;
  UsedGpus gpus_;
  harness::ChildResult child_{};
  double begun_s_ = 0, window_begun_s_ = 0, window_s_ = 0;
  std::vector<pid_t> tree_;
  int64_t nodes_ = 1;  // that its ranks say they run on
  bool by_client_ = false, watches_ = false, has_enough_ = false;
  std::set<std::filesystem::path> loaded_;  // by a trial
  std::map<std::string, std::string> versions_;
  std::set<std::filesystem::path>* code_ = nullptr;
  int64_t resident_bytes_ = 0;
  std::optional<harness::ProcessorTime> before_, after_;
  int64_t before_step_ = 0, after_step_ = 0;  // the last one made then
  std::optional<harness::StepWindow> later_;  // of a run that goes on, after its timed steps
  double later_from_s_ = 0, later_s_ = 0;
  std::optional<harness::ProcessorTime> later_after_;
  int64_t later_step_ = 0;  // the last one made then
  bool goes_on_ = false;
  std::unique_ptr<harness::SleepWatch> sleep_watch_ = std::make_unique<harness::SleepWatch>();
  harness::SleepWatch::Looks sleep_;
  std::vector<Found> found_;
};

}  // namespace ablations
