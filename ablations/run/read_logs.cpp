#include "ablations/run/read_logs.h"

#include "ablations/plan/make_plan.h"
#include "ablations/run/command_metric.h"
#include "files/files.h"
#include "files/json_file.h"
#include "files/printable.h"
#include "harness/lines/step_pace.h"
#include "text/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <glob.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

namespace ablations {

namespace fs = std::filesystem;
using files::Json;
using files::printable;
using harness::FinishedLog;

namespace {

constexpr size_t largest_log = size_t{256} << 20;

// Of a folder's files.
bool may_be_log(const fs::path& file) {
  static const std::set<std::string> endings{"", ".txt", ".log", ".out", ".err", ".json", ".jsonl", ".csv"};
  const std::string name = file.filename().string();
  return !name.starts_with('.') && (name.find("tfevents") != std::string::npos || endings.contains(file.extension()));
}

std::vector<fs::path> files_of(const std::string& pattern) {
  std::vector<fs::path> found;
  if (fs::is_directory(pattern)) {
    for (const auto& entry : fs::directory_iterator(pattern)) {
      if (entry.is_regular_file() && may_be_log(entry.path())) found.push_back(entry.path());
    }
  } else {
    glob_t matches{};
    if (::glob(pattern.c_str(), GLOB_BRACE | GLOB_TILDE, nullptr, &matches) == 0) {
      for (size_t i = 0; i < matches.gl_pathc; ++i) {
        if (fs::is_regular_file(matches.gl_pathv[i])) found.emplace_back(matches.gl_pathv[i]);
      }
    }
    ::globfree(&matches);
  }
  std::ranges::sort(found);
  return found;
}

// "step=10 train/loss=3.1", the numbers of an object; `before`: the name of what it is in.
void add_numbers(const Json& object, const std::string& before, std::vector<std::string>& words) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) add_numbers(value, before + name + "/", words);
    if (value.is_number() && std::isfinite(value.get<double>())) words.push_back(before + name + "=" + value.dump());
  }
}

std::string line_of_row(const Json& row) {
  std::vector<std::string> words;
  add_numbers(row, "", words);
  return fmt::format("{}\n", fmt::join(words, " "));
}

std::string lines_of_rows(const Json& rows) {
  std::string text;
  for (const Json& row : rows) {
    if (row.is_object()) text += line_of_row(row);
  }
  return text;
}

// Lines that are no JSON stay as they are.
std::string lines_of_json_lines(const std::string& text) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const Json row = line.starts_with('{') ? Json::parse(line, nullptr, /*allow_exceptions=*/false) : Json();
    result += row.is_object() ? line_of_row(row) : line + "\n";
  }
  return result;
}

// Cells without a number are left out: a row of Lightning's has a training's or a validation's.
std::string lines_of_csv(const std::string& text) {
  std::istringstream lines(text);
  std::vector<std::string> names;
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, ',');) {
      std::erase_if(cell, [](char c) { return c == '\r' || c == '"'; });
      cells.push_back(cell);
    }
    if (names.empty()) {
      names = cells;
      continue;
    }
    std::vector<std::string> words;
    for (size_t i = 0; i < std::min(names.size(), cells.size()); ++i) {
      if (harness::figure_at(cells[i]).size == cells[i].size() && !cells[i].empty())
        words.push_back(names[i] + "=" + cells[i]);
    }
    result += fmt::format("{}\n", fmt::join(words, " "));
  }
  return result;
}

// What a log says of the machine and the software, unchecked. Only lines before its steps are asked.
struct Stated {
  std::map<std::string, std::string> machine, versions;
  std::string started;
};

// The text of the group in the first line that has it.
std::string group_in(const std::string& line, const char* pattern) {
  std::smatch found;
  return std::regex_search(line, found, std::regex(pattern)) ? found[1].str() : "";
}

void keep(std::map<std::string, std::string>& facts, const char* name, const std::string& value) {
  if (!value.empty()) facts.try_emplace(name, value);
}

// "2026-07-17T12:22:51Z" of nvidia-smi's "Fri Jul 17 12:22:51 2026", or of a line's stamp. The zone is not known: it is
// taken for UTC, which is right to tell logs of one machine apart.
std::string time_of_day_in(const std::string& text) {
  const std::string date = group_in(text, R"(^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\w{3} +\d+ \d\d:\d\d:\d\d \d{4}))");
  std::tm time{};
  if (!date.empty() && ::strptime(date.c_str(), "%b %d %H:%M:%S %Y", &time) != nullptr) {
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", time.tm_year + 1900, time.tm_mon + 1, time.tm_mday,
                       time.tm_hour, time.tm_min, time.tm_sec);
  }
  const std::string stamp = group_in(text, R"(^\W{0,2}(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d))");
  return stamp.empty() ? "" : stamp.substr(0, 10) + "T" + stamp.substr(11) + "Z";
}

// nvidia-smi's table, and the lines that speedruns, torch's collect_env and launchers print.
Stated stated_in(const FinishedLog& log) {
  Stated stated;
  std::map<std::string, int> gpus;
  std::set<std::string> addresses;
  constexpr size_t most_lines = 200;
  const uint64_t first = log.steps.empty() ? UINT64_MAX : log.steps.front().read;
  const auto end = std::ranges::find_if(log.lines, [&](const harness::LogLine& line) { return line.read > first; });
  const auto before = std::min<std::ptrdiff_t>(end - log.lines.begin(), most_lines);
  for (auto line = end - before; line != end; ++line) {
    const std::string& text = line->text;
    const auto has = [&](const char* word) { return text.find(word) != std::string::npos; };
    if (has("Driver Version")) keep(stated.machine, "driver", group_in(text, R"(Driver Version:\s*(\S+))"));
    if (has("PyTorch") || has("torch"))
      keep(stated.versions, "torch", group_in(text, R"((?:PyTorch|torch)[ =:]+(?:version:? *)?(\d+\.\d+[\w.+]*))"));
    if (has("Python"))
      keep(stated.versions, "python", group_in(text, R"(Python[ =:]+(?:version:? *)?(\d+\.\d+[\w.]*))"));
    if (has("ostname")) keep(stated.machine, "host", group_in(text, R"([hH]ostname\W+(\w[\w.-]*))"));
    if (has("|") && text.size() > 3) {
      const std::string gpu = group_in(text, R"(^\|\s+\d+\s+((?:NVIDIA|Tesla|A\d|H\d)[\w .-]*?)\s{2,})");
      if (!gpu.empty()) ++gpus[gpu];
      const std::string address = group_in(text, R"(([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d))");
      if (!gpu.empty() && !address.empty()) addresses.insert(address);
    }
    if (stated.started.empty()) stated.started = time_of_day_in(text);
  }
  std::vector<std::string> names;
  for (const auto& [name, count] : gpus) names.push_back(fmt::format("{} x {}", count, name));
  keep(stated.machine, "GPUs", fmt::format("{}", fmt::join(names, ", ")));
  keep(stated.machine, "addresses of GPUs", files::shortened(fmt::format("{}", fmt::join(addresses, " ")), 200));
  return stated;
}

// What is the matter with a log whose time is compared; empty: nothing.
std::string failure_of_times(const FinishedLog& log, const Metric* metric, const std::string& file) {
  const auto tells = [&] {
    std::vector<std::string> found;
    for (const auto& [name, value] : log.last) found.push_back(fmt::format("{} {:g}", name, value));
    return found.empty() ? std::string() : fmt::format(" (its last numbers: {})", fmt::join(found, ", "));
  };
  if (metric != nullptr && !metric->pattern.empty()) return "";
  if (metric != nullptr) {
    if (log.seconds) return "";
    return fmt::format("{}: tells no time of the whole run{}; --clock says where one is", file, tells());
  }
  if (log.steps.size() < 2) {
    return fmt::format("{}: has no two lines with a step{}; --steps-from says where they are", file, tells());
  }
  if (log.has_step_times || log.seconds) return "";
  return fmt::format("{}: tells no time{}; --clock says where one is, --metric compares a final number", file, tells());
}

std::string shape_of(const FinishedLog& log) { return log.format ? log.format->shape : "as --steps-from says"; }

// As one step, which has the last loss.
void add_whole_run(const Metric& metric, const FinishedLog& log, Record& record) {
  MetricReader reader(metric);
  for (const harness::LogLine& line : log.lines) reader.take(line);
  reader.take(log.steps);
  if (const std::string why = reader.failure(); !why.empty()) throw std::invalid_argument(why);
  reader.add_whole_run(log.seconds.value_or(0), record);
}

// The lines whose times are compared. A coarse clock is read at times further apart, so that the last digit of a
// reading is a thousandth, or in a short log a hundredth. A log that tells the whole time alone has one line for all
// its steps.
std::vector<harness::StepLine> timed_lines(const Plan& plan, const FinishedLog& log, size_t& first_timed,
                                           bool& has_all) {
  constexpr double most_readings = 1000, least_readings = 100, blocks = 16;
  constexpr size_t fewest = 4;
  const double passed_s = log.steps.back().seconds - log.steps.front().seconds;
  const double block_s =
      std::clamp(passed_s / blocks, least_readings * log.resolution_s, most_readings * log.resolution_s);
  const bool counts_lines = log.format && log.format->unit != "step";
  harness::StepWindow window(plan.warmup_steps, INT64_MAX, {.block_s = block_s}, counts_lines);
  if (log.has_step_times) {
    for (const harness::StepLine& line : log.steps) window.take(line);
    window.end();
  }
  first_timed = window.first_timed();
  has_all = !window.has_begun() || window.lines().size() < first_timed + 1 + fewest;
  if (!has_all) return window.lines();
  std::vector<harness::StepLine> ends{log.steps.front(), log.steps.back()};
  if (!log.has_step_times) {
    ends.front().step = 0;
    ends.front().seconds = 0;
    ends.back().seconds = *log.seconds;
  }
  first_timed = 0;
  return ends;
}

void add_steps(const Plan& plan, const FinishedLog& log, Record& record) {
  CommandRun& command = *record.command;
  RunTiming& timing = record.timing;
  size_t first_timed = 0;
  const std::vector<harness::StepLine> lines = timed_lines(plan, log, first_timed, command.has_all);
  bool any_loss = false, all_losses = true;
  for (const harness::StepLine& line : lines) {
    command.steps.push_back(line.step);
    command.seconds.push_back(line.seconds);
    any_loss = any_loss || line.loss;
    all_losses = all_losses && line.loss;
  }
  for (size_t i = 1; i < lines.size(); ++i) {
    timing.loss.push_back(storable(lines[i].loss));
    if (!lines[i].loss && any_loss) command.unprinted.push_back(static_cast<int64_t>(i) - 1);
  }
  command.by_loss = all_losses;
  command.unit = log.format ? log.format->unit : "step";
  command.first_step_s = lines.front().seconds;
  if (plan.commands->tokens_per_step > 0) command.tokens_per_step = plan.commands->tokens_per_step;
  timing.step_ms = harness::step_ms_of(command.steps, command.seconds);
  timing.warmup_steps = static_cast<int64_t>(first_timed);
  timing.window_ms = 1000 * (lines.back().seconds - lines[first_timed].seconds);
  const std::vector<double> timed(timing.step_ms.begin() + timing.warmup_steps, timing.step_ms.end());
  record.summary = results::summary_of(timed, command.tokens_per_step.value_or(0));
}

}  // namespace

std::vector<LogSide> sides_of(const std::vector<std::string>& typed) {
  std::vector<LogSide> sides;
  for (const std::string& word : typed) {
    LogSide side{.typed = word, .title = word, .files = files_of(word)};
    const size_t colon = word.find(": ");
    if (side.files.empty() && colon != std::string::npos && colon > 0) {
      side.title = word.substr(0, colon);
      side.files = files_of(word.substr(word.find_first_not_of(' ', colon + 1)));
    }
    if (side.files.empty()) throw std::invalid_argument(fmt::format("{}: no such file", printable(word)));
    sides.push_back(std::move(side));
  }
  return sides;
}

std::string log_text(const fs::path& file, const std::function<std::string(const fs::path&)>& read_events) {
  if (file.filename().string().find("tfevents") != std::string::npos) return lines_of_json_lines(read_events(file));
  const std::string text = files::read_file(file, largest_log);
  if (file.extension() == ".csv") return lines_of_csv(text);
  if (file.extension() == ".json") {
    const Json document = files::parse_json(text, file.string());
    if (document.is_array()) return lines_of_rows(document);
    if (document.contains("log_history")) return lines_of_rows(document["log_history"]);
  }
  return text.starts_with('{') || file.extension() == ".jsonl" ? lines_of_json_lines(text) : text;
}

void add_runs(Plan& plan, const std::vector<LogSide>& sides) {
  for (size_t side = 0; side < sides.size(); ++side) {
    Rung rung{.optimization = "", .title = sides[side].title, .applied = {}, .name = fmt::format("side{}", side + 1)};
    rung.command = TypedCommand{.text = sides[side].typed, .typed = sides[side].typed, .directory = "", .trial = {}};
    plan.rungs.push_back(std::move(rung));
    for (size_t i = 0; i < sides[side].files.size(); ++i) {
      // No two sides share a repeat: their runs are no pairs.
      plan.runs.push_back(run_of(plan.rungs, side, static_cast<int64_t>(plan.runs.size())));
    }
  }
  constexpr size_t most_logs = 1000;
  if (plan.runs.size() > most_logs) {
    throw std::invalid_argument(fmt::format("{} logs are named, and {} are the most: compare fewer sides at once",
                                            plan.runs.size(), most_logs));
  }
  plan.repeats = std::ssize(plan.runs);
}

Record record_of_log(const Plan& plan, const PlannedRun& run, const std::string& file, const FinishedLog& log) {
  const Metric* const metric = plan.commands->metric ? &*plan.commands->metric : nullptr;
  const Stated stated = stated_in(log);
  if (const std::string why = failure_of_times(log, metric, file); !why.empty()) {
    return results::failed_record(run.id, FailureKind::invalid_record, why, stated.started, 0);
  }
  Record record;
  record.id = run.id;
  record.started = stated.started;
  record.duration_s = log.seconds.value_or(0);
  record.recipe = record.observations = Json::object();
  record.memory.peak_source = "not known";
  record.command = CommandRun{.text = plan.rungs[run.rung].command->text,
                              .steps = {},
                              .seconds = {},
                              .shape = shape_of(log),
                              .ended_by_us = false,
                              .stated = stated.machine,
                              .versions = stated.versions};
  record.command->stated["log"] = printable(file);
  if (!log.clock.empty()) record.command->stated["clock"] = printable(log.clock);
  std::map<std::string, double>& numbers = record.command->numbers;
  if (log.seconds && *log.seconds > 0) numbers["seconds"] = *log.seconds;
  constexpr size_t most_numbers = 20;
  for (const auto& [name, value] : log.last) {
    if (value > 0 && numbers.size() < most_numbers) numbers[name] = value;
  }
  try {
    if (metric != nullptr) {
      add_whole_run(*metric, log, record);
    } else {
      add_steps(plan, log, record);
    }
  } catch (const std::invalid_argument& error) {
    return results::failed_record(run.id, FailureKind::invalid_record, file + ": " + error.what(), stated.started, 0);
  }
  return record;
}

}  // namespace ablations
