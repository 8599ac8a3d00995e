#include "ablations/run/progress.h"

#include "files/printable.h"
#include "harness/stats/stats.h"
#include "text/figures.h"
#include "text/style.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <iterator>
#include <vector>

namespace ablations {

using files::shortened;

Progress::Progress(const Plan& plan, size_t planned, size_t runs, double expected_s)
    : plan_(plan),
      runs_(runs),
      expected_s_(expected_s),
      terminal_(::isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()) {
  if (runs < planned) {
    fmt::print(stderr, "{} of {} runs are there already; {} to go\n", planned - runs, planned, runs);
  }
}

std::string Progress::name_of(const PlannedRun& run) const {
  const Rung& rung = plan_.rungs[run.rung];
  return fmt::format("{}, repeat {}", rung.name.empty() ? rung.title : rung.name, run.repeat + 1);
}

void Progress::begin(const PlannedRun& run, bool again) {
  again_ = again;
  begun_ += again ? 0 : 1;
  run_ = run;
  current_ = again ? "again" : fmt::format("{}/{}", begun_, runs_);
  current_ += " " + files::printable(name_of(run));
  if (terminal_) draw(0, plan_.warmup_steps + plan_.timed_steps);
}

void Progress::step(std::string_view line) {
  long long step = 0, steps = 0;
  const bool two = std::sscanf(std::string(line).c_str(), "%lld %lld", &step, &steps) == 2;
  if (terminal_ && two && step >= 0 && step <= steps && steps > 0) draw(step, steps);  // a child may write anything
}

void Progress::draw(int64_t step, int64_t steps) const {
  constexpr int width = 20;
  const double of_run = again_ ? 1 : static_cast<double>(step) / static_cast<double>(steps);
  const double share = begun_ == 0 ? 1 : (static_cast<double>(begun_) - 1 + of_run) / static_cast<double>(runs_);
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const auto filled = static_cast<size_t>(share * width);
  std::string text = fmt::format("[{}{}] {}, step {}/{}", std::string(filled, '#'), std::string(width - filled, '.'),
                                 current_, step, steps);
  const bool has_ended_one = begun_ > 1 || expected_s_ == 0;
  const double whole_s = again_ ? 0 : !has_ended_one ? expected_s_ : share > 0.02 ? elapsed / share : 0;
  if (whole_s > 0) text += fmt::format(", {} left", clock_time(whole_s * (1 - share)));
  fmt::print(stderr, "\r\x1b[K{}", shortened(text, 79));
  std::fflush(stderr);
}

void Progress::end(const Record& record) {
  const std::optional<Metric> metric = plan_.commands ? plan_.commands->metric : std::nullopt;
  const double value = metric && record.is_ok() ? record.command->numbers.at(metric->name) : record.summary.median_ms;
  const std::string unit = metric ? metric->name : "ms/" + (record.command ? record.command->unit : "step");
  const std::string result = record.is_ok() ? fmt::format("{} {}", number(value), files::printable(unit))
                                            : standard_error().painted(Style::bad, "FAILED:") + " " +
                                                  files::printable(record.failure->message);
  if (terminal_) fmt::print(stderr, "\r\x1b[K");
  if (!terminal_ || !record.is_ok()) {
    fmt::print(stderr, "{}: {}; the run took {:.1f} s\n", current_, result, record.duration_s);
  }
  if (!plan_.commands || plan_.gate || plan_.rungs.size() < 2 || !record.is_ok()) return;
  costs_[run_.repeat][run_.rung] = metric ? metric->cost(value) : value;
  if (costs_[run_.repeat].size() == plan_.rungs.size()) tell_so_far();
}

// How much better each command is than the first one, by the repeats that are whole.
void Progress::tell_so_far() {
  std::vector<std::string> ratios;
  int64_t whole = 0;
  for (size_t rung = 1; rung < plan_.rungs.size(); ++rung) {
    std::vector<double> gains;
    for (const auto& [repeat, costs] : costs_) {
      if (costs.size() == plan_.rungs.size()) gains.push_back(costs.at(0) / costs.at(rung));
    }
    whole = std::ssize(gains);
    ratios.push_back(fmt::format("{} {:.3g}x", shortened(plan_.rungs[rung].title, 30), harness::median(gains)));
  }
  if (whole == plan_.repeats) return;  // the table says it
  note(fmt::format("so far, {} of {}: {}", whole, number_of(plan_.repeats, "repeat"), fmt::join(ratios, ", ")));
}

void Progress::interrupted() { note("interrupted in run " + current_); }

void Progress::note(const std::string& line) const {
  fmt::print(stderr, "{}{}\n", terminal_ ? "\r\x1b[K" : "", files::printable(line));
}

}  // namespace ablations
