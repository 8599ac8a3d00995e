#include "ablations/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace ablations {

using harness::Json;

namespace {

std::string grouped(int64_t value) {
  std::string digits = std::to_string(value);
  for (auto i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3) digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string ratio(const Json& speedup) {
  return speedup.is_null() ? "-" : fmt::format("{:.2f}x", speedup.at("ratio").get<double>());
}

std::string with_interval(const Json& speedup) {
  if (speedup.is_null()) return "-";
  if (speedup.at("lo").is_null()) return ratio(speedup);
  return fmt::format("{:.2f}x [{:.2f}-{:.2f}]", speedup.at("ratio").get<double>(), speedup.at("lo").get<double>(),
                     speedup.at("hi").get<double>());
}

std::string shortened(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

// At most `width` columns, broken at spaces; continuation lines begin with `indent`.
std::string wrapped(const std::string& text, size_t width, const std::string& indent) {
  std::string result, line;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find(' ', begin);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      result += line + "\n";
      line = indent + word;
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
    begin = end + 1;
  }
  return result + line + "\n";
}

}  // namespace

std::string number(double value) {
  if (value >= 99.95) return grouped(static_cast<int64_t>(std::llround(value)));
  if (value >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

Progress::Progress(const Plan& plan, size_t runs)
    : plan_(plan), runs_(runs), terminal_(::isatty(STDERR_FILENO) != 0), start_(std::chrono::steady_clock::now()) {
  if (runs < plan.runs.size()) {
    fmt::print(stderr, "{} of {} runs are there already; {} to go\n", plan.runs.size() - runs, plan.runs.size(), runs);
  }
}

void Progress::begin(const PlannedRun& run) {
  current_ = run.id;
  if (terminal_) draw(0, plan_.warmup_steps + plan_.timed_steps);
}

void Progress::step(std::string_view line) {
  long long step = 0, steps = 0;
  if (terminal_ && std::sscanf(std::string(line).c_str(), "%lld %lld", &step, &steps) == 2 && steps > 0)
    draw(step, steps);
}

void Progress::draw(int64_t step, int64_t steps) const {
  constexpr int width = 20;
  const double share = (static_cast<double>(done_) + static_cast<double>(step) / static_cast<double>(steps)) /
                       static_cast<double>(runs_);
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const auto filled = static_cast<size_t>(share * width);
  std::string text = fmt::format("[{}{}] run {}/{} {} step {}/{}", std::string(filled, '#'),
                                 std::string(width - filled, '.'), done_ + 1, runs_, current_, step, steps);
  if (share > 0.02) text += fmt::format(", {} left", clock_time(elapsed * (1 - share) / share));
  fmt::print(stderr, "\r\x1b[K{}", shortened(text, 79));
  std::fflush(stderr);
}

void Progress::end(const PlannedRun& run, const Json& record) {
  ++done_;
  const bool good = record.at("status") == "ok";
  const std::string result = good ? number(record.at("summary").at("median_ms").get<double>()) + " ms/step"
                                  : "FAILED: " + record.at("failure").at("message").get<std::string>();
  if (terminal_) fmt::print(stderr, "\r\x1b[K");
  if (!terminal_ || !good) {
    fmt::print(stderr, "[{}/{}] {:<20} {} ({:.1f} s)\n", done_, runs_, run.id, result,
               record.at("duration_s").get<double>());
  }
}

void Progress::interrupted() { fmt::print(stderr, "{}interrupted in run {}\n", terminal_ ? "\r\x1b[K" : "", current_); }

std::string study_table(const Json& study) {
  const auto& workload = study.at("workload");
  const auto& device = study.at("device");
  std::string text = fmt::format("\n{}\n{}, B={} T={}, {}\n", study.at("ladder").at("title").get<std::string>(),
                                 workload.at("model").get<std::string>(), workload.at("batch").get<int64_t>(),
                                 workload.at("context").get<int64_t>(), device.at("name").get<std::string>());
  if (device.at("kind") == "cpu") text += "These are CPU figures; they say nothing about a GPU.\n";
  constexpr const char* row = "{:<26} {:>9} {:>8} {:>18} {:>8} {:>6}\n";
  text += "\n" + fmt::format(row, "", "ms/step", "step", "so far [95 %]", "tok/s", "GiB") + std::string(80, '-') + "\n";
  for (const Json& rung : study.at("rungs")) {
    const bool start = rung.at("optimization").is_null();
    const std::string title = shortened((start ? "" : "+ ") + rung.at("title").get<std::string>(), 26);
    if (rung.at("ms_per_step").is_null()) {
      std::string status = rung.at("status").get<std::string>();
      for (char& c : status) c = c == '_' ? ' ' : c;
      if (rung.at("status") == "not_applicable") status = "not applicable here";
      text +=
          wrapped(fmt::format("{:<26} ", title) + fmt::format("{}: {}", status, rung.at("reason").get<std::string>()),
                  80, std::string(27, ' '));
      continue;
    }
    const Json& memory = rung.at("peak_memory_bytes");
    text += fmt::format(
        row, title, number(rung.at("ms_per_step").at("median").get<double>()), ratio(rung.at("speedup_previous")),
        with_interval(rung.at("speedup_first")), number(rung.at("tokens_per_s").at("median").get<double>()),
        memory.is_null() ? "-" : fmt::format("{:.2f}", memory.get<double>() / (1024.0 * 1024.0 * 1024.0)));
    if (rung.at("status") != "measured") {
      text += wrapped(
          std::string(27, ' ') + rung.at("status").get<std::string>() + ": " + rung.at("reason").get<std::string>(), 80,
          std::string(27, ' '));
    }
  }
  text += std::string(80, '-') + "\n";
  const auto& plan = study.at("plan");
  text += wrapped(
      fmt::format("{} of {} runs, {} timed steps each after {} of warm-up; {}; {}.", plan.at("runs_ok").get<int64_t>(),
                  plan.at("runs_planned").get<int64_t>(), plan.at("timed_steps").get<int64_t>(),
                  plan.at("warmup_steps").get<int64_t>(), study.at("statistics").at("center").get<std::string>(),
                  study.at("statistics").at("interval").get<std::string>()),
      80, "");
  for (const Json& warning : study.at("warnings")) text += wrapped("warning: " + warning.get<std::string>(), 80, "  ");
  return text;
}

}  // namespace ablations
