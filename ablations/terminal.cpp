#include "ablations/terminal.h"

#include "files/printable.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ablations {

using files::length;
using files::shortened;
using harness::Json;

namespace {

std::string grouped(int64_t value) {
  std::string digits = std::to_string(value);
  for (auto i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3) digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

// Of the first `characters` characters of a UTF-8 text.
size_t bytes_of(std::string_view text, size_t characters) {
  for (size_t byte = 0, seen = 0; byte < text.size(); ++byte) {
    if ((static_cast<unsigned char>(text[byte]) & 0xc0) != 0x80 && seen++ == characters) return byte;
  }
  return text.size();
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

Json with_printable_texts(const Json& value) {
  if (value.is_string()) return files::printable(value.get_ref<const std::string&>());
  Json shown = value;
  for (Json& member : shown) {
    if (member.is_string() || member.is_structured()) member = with_printable_texts(member);
  }
  return shown;
}

std::string wrapped(const std::string& text, const std::string& indent) {
  std::string result, line;
  bool first = true;  // of the text's words; before it there is no blank
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    std::string_view word = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (!first && length(line) + 1 + length(word) > columns) {
      result += line + "\n";
      line = indent;
    } else if (!first) {
      line += ' ';
    }
    first = false;
    for (size_t room = columns - length(line); length(word) > room; room = columns - indent.size()) {  // a long path
      const size_t cut = bytes_of(word, room);
      result.append(line).append(word.substr(0, cut)).append("\n");
      line = indent;
      word.remove_prefix(cut);
    }
    line += word;
  }
  return result + line + "\n";
}

std::string warning_line(const Look& look, const std::string& warning) {
  return look.painted(Style::caution, wrapped("warning: " + warning, "  "), 0, std::string_view("warning:").size());
}

std::string number(double value) {
  if (value >= 1e15) return fmt::format("{:.3g}", value);
  if (value >= 99.95) return grouped(static_cast<int64_t>(std::llround(value)));
  if (value >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

Progress::Progress(const Plan& plan, size_t planned, size_t runs)
    : plan_(plan), runs_(runs), terminal_(::isatty(STDERR_FILENO) != 0), start_(std::chrono::steady_clock::now()) {
  if (runs < planned) {
    fmt::print(stderr, "{} of {} runs are there already; {} to go\n", planned - runs, planned, runs);
  }
}

void Progress::begin(const PlannedRun& run) {
  current_ = run.id;
  if (terminal_) draw(0, plan_.warmup_steps + plan_.timed_steps);
}

void Progress::step(std::string_view line) {
  long long step = 0, steps = 0;
  const bool two = std::sscanf(std::string(line).c_str(), "%lld %lld", &step, &steps) == 2;
  if (terminal_ && two && step >= 0 && step <= steps && steps > 0) draw(step, steps);  // a child may write anything
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
                                  : standard_error().painted(Style::bad, "FAILED:") + " " +
                                        files::printable(record.at("failure").at("message").get<std::string>());
  if (terminal_) fmt::print(stderr, "\r\x1b[K");
  if (!terminal_ || !good) {
    fmt::print(stderr, "[{}/{}] {:<20} {} ({:.1f} s)\n", done_, runs_, run.id, result,
               record.at("duration_s").get<double>());
  }
}

void Progress::interrupted() { note("interrupted in run " + current_); }

void Progress::note(const std::string& line) const {
  fmt::print(stderr, "{}{}\n", terminal_ ? "\r\x1b[K" : "", files::printable(line));
}

}  // namespace ablations
