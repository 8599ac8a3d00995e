#include "harness/lines/step_reader.h"

#include "files/printable.h"
#include "harness/lines/names.h"
#include "harness/lines/rank_steps.h"

#include <fmt/format.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace harness {

namespace {

constexpr size_t longest_line = 4096, most_shapes = 1000;
constexpr size_t most_lines = 20000, most_bytes = 8 << 20;  // of a trial

bool are_same(const std::optional<double>& a, const std::optional<double>& b) {
  return a == b || (a && b && std::isnan(*a) && std::isnan(*b));
}

// Of two processes; not a number if one is.
std::optional<double> lower_loss(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a || (b && std::isnan(*b))) return b;
  return !b || std::isnan(*a) ? a : std::min(*a, *b);
}

// Steps in one percent: the number's last digit is one.
double scale_of(const std::string& unit) {
  const size_t point = unit.find('.');
  return point == std::string::npos ? 1 : std::pow(10, static_cast<double>(unit.find(' ') - point - 1));
}

}  // namespace

std::vector<LogLine> LineSplitter::take(int stream, std::string_view bytes, double seconds) {
  std::vector<LogLine> out;
  LogLine& here = streams_[stream == 0 ? 0 : 1];
  here.stream = stream;
  ++reads_;
  size_t feed = 0, back = 0;  // the next \n and \r
  for (size_t begin = 0; begin < bytes.size();) {
    if (begin == 0 || feed < begin) feed = std::min(bytes.find('\n', begin), bytes.size());
    if (begin == 0 || back < begin) back = std::min(bytes.find('\r', begin), bytes.size());
    const size_t end = std::min(feed, back);
    if (end > begin) {
      here.text.append(bytes.substr(begin, std::min(end - begin, longest_line - here.text.size())));
      here.seconds = seconds;
      here.read = reads_;
    }
    if (end < bytes.size()) end_line(here, out);
    begin = end + 1;
  }
  return out;
}

std::vector<LogLine> LineSplitter::end() {
  std::vector<LogLine> out;
  for (LogLine& stream : streams_) end_line(stream, out);
  return out;
}

void LineSplitter::end_line(LogLine& line, std::vector<LogLine>& out) {
  std::string text = cleaned(line.text);
  line.text.clear();
  if (text.find_first_not_of(' ') != std::string::npos) {
    out.push_back({.text = std::move(text), .seconds = line.seconds, .read = line.read, .stream = line.stream});
  }
}

LinePattern::LinePattern(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), 0, &error, &offset, nullptr);
  shown_ = files::shortened(files::printable(pattern), 60);
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 160> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    throw std::invalid_argument(fmt::format("'{}' is no regular expression: {} (at byte {})", shown_,
                                            reinterpret_cast<const char*>(message.data()), offset));
  }
  code_ = {code, [](const pcre2_code* owned) { pcre2_code_free(const_cast<pcre2_code*>(owned)); }};
}

bool LinePattern::names(const char* group) const {
  return pcre2_substring_number_from_name(code_.get(), reinterpret_cast<PCRE2_SPTR>(group)) > 0;
}

std::vector<std::optional<Figure>> LinePattern::find(std::string_view line,
                                                     const std::vector<const char*>& groups) const {
  std::vector<std::optional<Figure>> found(groups.size());
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create_from_pattern(code_.get(), nullptr), pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> limits(pcre2_match_context_create(nullptr),
                                                                                    pcre2_match_context_free);
  pcre2_set_match_limit(limits.get(), 100'000);  // a pattern may take exponential time
  if (pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(line.data()), line.size(), 0, 0, match.get(),
                  limits.get()) < 1) {
    return found;
  }
  const auto number = [&](const char* name) -> std::optional<Figure> {
    PCRE2_UCHAR* begin = nullptr;
    PCRE2_SIZE size = 0;
    if (pcre2_substring_get_byname(match.get(), reinterpret_cast<PCRE2_SPTR>(name), &begin, &size) != 0) return {};
    const std::string text(reinterpret_cast<const char*>(begin), size);
    pcre2_substring_free(begin);
    const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
    if (const auto value = not_finite(text.substr(sign), text.starts_with('-'))) return Figure{.value = *value};
    const Figure figure = figure_at(text);
    if (figure.size == 0 || figure.size != text.size()) return {};
    return figure;
  };
  std::ranges::transform(groups, found.begin(), number);
  return found;
}

StepPattern::StepPattern(const std::string& pattern)
    : pattern_(pattern), names_step_(pattern_.names("step")), names_loss_(pattern_.names("loss")) {
  if (!names_step_ && !names_loss_) {
    throw std::invalid_argument(
        fmt::format("'{}' has neither a group (?P<step>...) nor (?P<loss>...)", pattern_.shown()));
  }
}

StepPattern::Found StepPattern::find(std::string_view line) const {
  const auto groups = pattern_.find(line, {"step", "loss", "tokens_per_s"});
  Found found{.step = groups[0], .loss = groups[1], .tokens_per_s = {}};
  if (found.step && !found.step->whole) found.step.reset();
  if (bool{found.step} != names_step_ || bool{found.loss} != names_loss_) return {};
  if (groups[2]) found.tokens_per_s = groups[2]->value;
  return found;
}

struct StepReader::Found {
  std::optional<int64_t> step, epoch;
  int64_t total = 0;
  std::optional<double> loss, tokens_per_s, own_ms;
  bool comma = false;
  bool is_step = false;
};

StepReader::Found StepReader::matched(const std::string& text) const {
  Found found;
  const StepPattern::Found groups = pattern_->find(text);
  if (groups.step) found.step = static_cast<int64_t>(groups.step->value);
  if (groups.loss) found.loss = groups.loss->value;
  found.comma = groups.loss && groups.loss->comma;
  found.tokens_per_s = groups.tokens_per_s;
  found.is_step = found.step || found.loss;
  return found;
}

StepReader::Found StepReader::found(const std::string& text) {
  Found found = pattern_ ? matched(text) : Found{};
  if (const auto heading = heading_of(text)) heading_ = *heading;
  const Line line = line_of(text, heading_);
  if (line.validates && !pattern_) return found;
  for (const Number& number : line.numbers) {
    const std::string& key = number.column.key;
    const bool is_epoch_of = is_epoch(key) || (key == " train " && number.total == 0);
    if (is_epoch_of && number.whole && !found.epoch) found.epoch = static_cast<int64_t>(number.value);
  }
  if (pattern_) return found;
  if (const Number* const rank = format_.rank ? line.find(*format_.rank) : nullptr;
      rank != nullptr && rank->value != format_.of_rank) {
    return found;
  }
  const Number* const step = format_.step ? line.find(*format_.step) : nullptr;
  const Number* const loss = format_.loss ? line.find(*format_.loss) : nullptr;
  const bool is_percentage = format_.unit.ends_with('%');
  if (step != nullptr && (step->whole || is_percentage) && std::abs(step->value) < 9e15) {
    found.step = std::llround(step->value * (is_percentage ? scale_of(format_.unit) : 1));
    found.total = step->total;
  }
  if (loss != nullptr) {
    found.loss = loss->value;
    found.comma = loss->comma;
  }
  found.is_step =
      format_.step ? found.step && (found.loss || !format_.loss || format_.loss_is_apart) : found.loss.has_value();
  for (const Number& number : line.numbers) {
    if (&number == step || &number == loss) continue;
    if (is_token_rate(number.column.key) || is_token_rate(number.unit)) {
      if (!found.tokens_per_s) found.tokens_per_s = number.value;
    } else if (!found.own_ms && number.unit != "%") {
      found.own_ms = step_ms(number.column.key, number.unit, number.value);
    }
  }
  return found;
}

// A loss on a line of its own is the last step's.
void StepReader::take_losses(const Found& found) {
  if (!format_.loss_is_apart || !found.loss || held_.empty()) return;
  StepLine& step = held_.back();
  if (!step.loss) {
    step.loss = found.loss;
    step.comma = found.comma;
  }
  if (!step.tokens_per_s) step.tokens_per_s = found.tokens_per_s;
  if (!step.own_ms) step.own_ms = found.own_ms;
}

// Whether its number is a new one, or the same as the last. Then base_ and last_ are the new ones'.
bool StepReader::goes_on(const Found& found) {
  const int64_t step = *found.step;
  const bool is_full = total_ > 0 && last_ == total_ && found.total == total_;
  const int64_t epochs = epoch_ && epoch_of_last_ ? std::clamp<int64_t>(*epoch_ - *epoch_of_last_, 0, 1000) : 0;
  const bool is_next = epochs > 0 && format_.is_of_epoch && total_ > 0;
  if (!is_next && (step > last_ || (step == last_ && (epochs == 0 || !is_full)))) return true;
  const bool falls_far = total_ > 0 && found.total == total_ && 3 * (last_ - step) > total_;
  const bool begins_again =
      is_full || falls_far || (found.total == total_ && total_ == 0 && step == first_ && lines_of_epoch_ >= 4);
  if (epochs == 0 && !begins_again) return false;
  base_ += total_ > 0 ? std::max<int64_t>(epochs, 1) * total_ : last_ + growth_ - step;
  if (epochs == 0 && epoch_) epoch_of_last_ = *epoch_ + 1;  // whose number is not drawn yet
  last_ = -1;
  first_ = step;
  lines_of_epoch_ = 0;
  return true;
}

std::vector<StepLine> StepReader::take(const LogLine& line) {
  std::vector<StepLine> out;
  const Found found = this->found(line.text);
  if (found.epoch) epoch_ = std::max(epoch_.value_or(*found.epoch), *found.epoch);
  if (!found.is_step) {
    take_losses(found);
    others_ = true;
    return out;
  }
  StepLine step{.seconds = line.seconds,
                .lowest_s = line.seconds,
                .step = lines_ * format_.per_line,
                .numbered = found.step.has_value(),
                .loss = found.loss,
                .tokens_per_s = found.tokens_per_s,
                .own_ms = found.own_ms,
                .read = line.read,
                .comma = found.comma,
                .after_others = std::exchange(others_, false)};
  const bool waits = step.numbered && (format_.loss_is_apart || format_.copies > 1);
  if (step.numbered) {
    const auto copy = std::ranges::find(held_, *found.step + base_, &StepLine::step);
    if (format_.copies > 1 && copy != held_.end()) {
      for (auto later = copy; later != held_.end(); ++later) later->seconds = std::max(later->seconds, step.seconds);
      copy->loss = lower_loss(copy->loss, step.loss);
      return out;
    }
    if (!goes_on(found)) return out;
    step.step = *found.step + base_;
    if (*found.step == last_) {  // again
      if (!waits && !held_.empty() && !are_same(step.loss, held_.back().loss)) {
        held_.clear();
        last_loss_ = step.loss;
        out.push_back(step);
      }
      return out;
    }
    if (last_ >= 0) growth_ = *found.step - last_;
    if (first_ < 0) first_ = *found.step;
    last_ = *found.step;
    total_ = found.total;
    if (epoch_) epoch_of_last_ = std::max(epoch_of_last_.value_or(*epoch_), *epoch_);
    ++lines_of_epoch_;
  }
  ++lines_;
  give_held(format_.copies > 1 ? 3 : 0, out);
  if (waits || (step.numbered && step.loss && are_same(step.loss, last_loss_))) {
    held_.push_back(step);
  } else {
    last_loss_ = step.loss;
    out.push_back(step);
  }
  return out;
}

std::vector<StepLine> StepReader::end() {
  std::vector<StepLine> out;
  give_held(0, out);
  return out;
}

void StepReader::give_held(size_t keep, std::vector<StepLine>& out) {
  for (; held_.size() > keep; held_.pop_front()) out.push_back(held_.front());
}

TrialLines::TrialLines(const std::string& pattern) {
  if (!pattern.empty()) pattern_.emplace(pattern);
}

void TrialLines::take(int stream, std::string_view bytes, double seconds) {
  keep(streams_.take(stream, bytes, seconds));
}

void TrialLines::end() {
  keep(streams_.end());
  has_ended_ = true;
}

void TrialLines::keep(std::vector<LogLine> lines) {
  for (LogLine& line : lines) {
    count_shape(line.text);
    bytes_ += line.text.size();
    lines_.push_back(std::move(line));
  }
  if (lines_.size() < most_lines && bytes_ < most_bytes) return;
  const size_t old = lines_.size() / 2;
  dropped_ += old;
  for (size_t i = 0; i < old; ++i) bytes_ -= lines_[i].text.size();
  lines_.erase(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(old));
}

std::optional<TrialLines::Learned> TrialLines::learned() const {
  Learned learned;
  if (!pattern_) learned.format = format_of(lines_);
  if (!pattern_ && !learned.format) return std::nullopt;
  RankReader reader = pattern_ ? RankReader(*pattern_) : RankReader(*learned.format);
  const auto add = [&](const std::vector<StepLine>& steps) {
    learned.steps.insert(learned.steps.end(), steps.begin(), steps.end());
  };
  for (const LogLine& line : lines_) add(reader.take(line));
  if (has_ended_) add(reader.end());
  if (learned.steps.empty()) return std::nullopt;
  return learned;
}

int64_t TrialLines::refused() const {
  return std::ranges::count_if(lines_, [](const LogLine& line) { return line_of(line.text).validates; });
}

void TrialLines::count_shape(const std::string& line) {
  auto& [sample, times] = shapes_[shape_of(line)];
  if (times++ == 0) sample = line.substr(0, 300);
  if (shapes_.size() <= most_shapes) return;
  std::vector<int64_t> counts;
  for (const auto& [shape, one] : shapes_) counts.push_back(one.second);
  const auto middle = counts.begin() + most_shapes / 2;
  std::ranges::nth_element(counts, middle);
  int64_t more = most_shapes / 2;  // of those as frequent as the middle one
  std::erase_if(shapes_, [&](const auto& item) {
    const int64_t count = item.second.second;
    return count < *middle || (count == *middle && more-- > 0);
  });
}

std::vector<TrialLines::Shape> TrialLines::frequent_shapes(size_t most) const {
  std::vector<Shape> all;
  for (const auto& [shape, one] : shapes_) all.push_back({.shape = shape, .line = one.first, .count = one.second});
  std::ranges::sort(
      all, [](const Shape& a, const Shape& b) { return a.count != b.count ? a.count > b.count : a.shape < b.shape; });
  all.resize(std::min(most, all.size()));
  for (Shape& one : all) one.shape = files::shortened(files::printable(one.shape), 120);
  return all;
}

}  // namespace harness
