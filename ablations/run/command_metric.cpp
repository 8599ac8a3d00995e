#include "ablations/run/command_metric.h"

#include "files/files.h"
#include "harness/lines/step_pace.h"
#include "text/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

namespace ablations {

namespace {

constexpr std::string_view seconds_to_loss = "seconds to loss ";

// None: the text is no number as a whole.
std::optional<double> number_from(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value) ? std::optional(value)
                                                                                          : std::nullopt;
}

// What stands before the number: "val_loss" of 'val_loss:\s*(?P<value>\S+)'.
std::string name_of_pattern(const std::string& pattern) {
  std::string name;
  for (size_t i = 0; i < pattern.find("(?P<value>"); ++i) {
    const char c = pattern[i];
    if (c == '\\') {  // \s, \d
      name += ' ';
      ++i;
    } else if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '/' || c == '-' || c == ' ') {
      name += c;
    }
  }
  const size_t begin = name.find_first_not_of(' '), end = name.find_last_not_of(' ');
  return begin == std::string::npos ? "value" : name.substr(begin, std::min<size_t>(end + 1 - begin, 40));
}

}  // namespace

Metric metric_of(const std::string& metric, const std::string& better, const std::string& until) {
  const auto refuse = [](const std::string& message) { throw std::invalid_argument(message); };
  Metric result;
  if (metric == "seconds") {
    result.name = metric;
  } else if (metric.starts_with(seconds_to_loss)) {
    result.name = metric;
    result.to_loss = number_from(std::string_view(metric).substr(seconds_to_loss.size()));
    if (!result.to_loss) refuse(fmt::format("--metric {}: a number must follow \"to loss\"", files::in_quotes(metric)));
  } else {
    const harness::LinePattern pattern(metric);
    if (!pattern.names("value")) {
      refuse(
          fmt::format("--metric must be seconds, \"seconds to loss X\" or a regular expression with a group "
                      "(?P<value>...), got '{}'",
                      pattern.shown()));
    }
    result.pattern = metric;
    result.name = name_of_pattern(metric);
  }
  const bool is_time = result.pattern.empty();
  if (better != "" && better != "lower" && better != "higher")
    refuse("--better must be lower or higher, got " + better);
  if (is_time && better == "higher") refuse("--better higher: a time is better if it is lower");
  if (!is_time && better.empty()) {
    refuse(fmt::format("--metric '{}' needs --better lower or --better higher", files::shortened(metric, 60)));
  }
  if (better == "higher") result.better = Metric::Better::higher;
  if (until.empty()) return result;
  if (is_time) refuse("--until cannot be combined with a --metric that is a time");
  result.until_s = number_from(std::string_view(until).substr(0, until.size() - (until.ends_with('s') ? 1 : 0)));
  if (!result.until_s || *result.until_s <= 0)
    refuse("--until must be a number of seconds, such as 300s, got " + until);
  return result;
}

std::optional<double> storable(const std::optional<double>& loss) {
  return loss && std::abs(*loss) <= 1e100 ? loss : std::nullopt;
}

void compare_by(const Metric& metric, Plan& plan) {
  plan.commands->metric = metric;
  plan.commands->guards_losses = plan.commands->guards_losses && metric.is_whole_time();
  plan.warmup_steps = 0;
  plan.timed_steps = 1;
}

MetricReader::MetricReader(const Metric& metric) : metric_(metric) {
  if (!metric.pattern.empty()) pattern_.emplace(metric.pattern);
}

void MetricReader::take(const harness::LogLine& line) {
  if (!pattern_) return;
  if (const auto value = pattern_->find(line.text, {"value"}).front()) last_ = value;
}

void MetricReader::take(const std::vector<harness::StepLine>& steps) {
  for (const harness::StepLine& step : steps) {
    if (!step.loss || reached_s_) continue;
    last_loss_ = step.loss;
    lowest_ = std::min(lowest_.value_or(*step.loss), *step.loss);
    if (metric_.to_loss && *step.loss <= *metric_.to_loss) reached_s_ = step.seconds;
  }
}

std::string MetricReader::failure() const {
  if (metric_.to_loss) {
    if (reached_s_) return "";
    return lowest_ ? fmt::format("it ended before its loss was {:g}; the lowest was {:g}", *metric_.to_loss, *lowest_)
                   : "it ended, and no loss was found in what it printed; --steps-from says where its losses are";
  }
  if (metric_.pattern.empty()) return "";
  if (!last_) return fmt::format("it ended, and no line has {}: --metric '{}'", metric_.name, metric_.pattern);
  if (last_->comma) {
    return fmt::format("its {} has one comma before three digits, which may be a point: LC_ALL=C", metric_.name);
  }
  if (!std::isfinite(last_->value)) return fmt::format("its last {} is not finite", metric_.name);
  if (last_->value > 0) return "";
  return fmt::format("its last {} is {:g}: only numbers above 0 have a ratio", metric_.name, last_->value);
}

void MetricReader::add_whole_run(double seconds, Record& record) const {
  CommandRun& command = *record.command;
  command.steps = {0, 1};
  command.seconds = {0, end_s(seconds)};
  command.unit = "run";
  command.by_loss = last_loss_.has_value();
  for (const auto& [name, value] : numbers(seconds)) command.numbers[name] = value;
  RunTiming& timing = record.timing;
  timing.step_ms = harness::step_ms_of(command.steps, command.seconds);
  timing.window_ms = timing.step_ms.front();
  timing.loss = {storable(last_loss_)};
  record.summary = results::summary_of(timing.step_ms, 0);
}

std::map<std::string, double> MetricReader::numbers(double seconds) const {
  return {{metric_.name, last_ ? last_->value : end_s(seconds)}};
}

}  // namespace ablations
