#include "study/training/training_log.h"

#include "ablations/run/study_folder.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>

#include <stdexcept>
#include <type_traits>

namespace study {

namespace fs = std::filesystem;
using files::Json;

namespace {

std::string json_line(const TrainingStep& step) { return json_of(step).dump() + "\n"; }

// The table has the figures only.
constexpr bool is_in_table(auto member) { return !std::is_same_v<decltype(member), decltype(&TrainingStep::sample)>; }

std::string csv_head() {
  std::string line;
  TrainingStep::fields([&](const char* name, auto member, const Rules& /*rules*/) {
    if (is_in_table(member)) line += (line.empty() ? "" : ",") + std::string(name);
  });
  return line + "\r\n";
}

std::string csv_row(const TrainingStep& step) {
  std::string line;
  TrainingStep::fields([&](const char* /*name*/, auto member, const Rules& /*rules*/) {
    if (!is_in_table(member)) return;
    const Json value = json_of(step.*member);
    line += (line.empty() ? "" : ",") + (value.is_null() ? "" : value.dump());
  });
  return line + "\r\n";
}

std::string text_of(const std::vector<TrainingStep>& steps, const std::string& head,
                    std::string (*line_of)(const TrainingStep&)) {
  std::string text = head;
  for (const TrainingStep& step : steps) text += line_of(step);
  return text;
}

}  // namespace

TrainingLog::TrainingLog(const fs::path& folder, const std::vector<TrainingStep>& before)
    : lines_(folder / log_file, text_of(before, "", json_line)),
      table_(folder / table_file, text_of(before, csv_head(), csv_row)) {}

void TrainingLog::add(const TrainingStep& step) {
  lines_.append(json_line(step));
  table_.append(csv_row(step));
}

void TrainingLog::sync() {
  lines_.sync();
  table_.sync();
}

std::vector<TrainingStep> logged_steps(const fs::path& folder, int64_t last) {
  const fs::path file = folder / log_file;
  std::vector<TrainingStep> steps;
  if (!fs::exists(file)) return steps;
  const std::string text = files::read_file(file);
  int64_t number = 0;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string where = fmt::format("{}: line {}", file.string(), ++number);
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const auto step = value_from<TrainingStep>(files::parse_json(line, where), where);
    if (!steps.empty() && step.step <= steps.back().step) {
      throw std::invalid_argument(
          fmt::format("{}: step {} must come after step {}", where, step.step, steps.back().step));
    }
    if (step.step > last) break;
    steps.push_back(step);
  }
  return steps;
}

std::string step_line(const TrainingStep& step, int64_t steps, double seconds_left) {
  const auto figure = [](const std::optional<double>& value, const char* format) {
    return value ? fmt::format(fmt::runtime(format), *value) : "not finite";
  };
  std::string line =
      fmt::format("step {:>{}}/{}  loss {:>7}  lr {:.2e}  norm {:>5}  {:>5} ms  {:>5} tokens/s", step.step,
                  std::to_string(steps).size(), steps, figure(step.loss, "{:.4f}"), step.learning_rate,
                  figure(step.norm, "{:.3g}"), number(step.ms), number(step.tokens_per_s));
  if (step.mfu) line += fmt::format("  MFU {}", percent(*step.mfu));
  if (step.step < steps) line += fmt::format("  {} left", clock_time(seconds_left));
  if (step.validation_loss) line += fmt::format("  validation {:.4f}", *step.validation_loss);
  if (step.spike) line += fmt::format("  SPIKE: {:.1f} standard deviations above the losses before it", *step.spike);
  return line;
}

namespace fs = std::filesystem;

bool holds_training(const fs::path& folder) { return fs::exists(folder / training_file); }

void check_may_begin_training(const fs::path& folder) { check_holds_nothing(folder, training_file, "training"); }

void create_training(const Training& training, const fs::path& folder) {
  check_may_begin_training(folder);
  write_document(folder / training_file, training);
}

Training open_training(const fs::path& folder) {
  if (!holds_training(folder)) {
    throw std::invalid_argument(fmt::format("{}: holds no training (no {})", folder.string(), training_file));
  }
  return read_document<Training>(folder / training_file);
}

}  // namespace study
