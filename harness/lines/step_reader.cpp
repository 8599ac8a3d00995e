#include "harness/lines/step_reader.h"

#include "files/printable.h"

#include <fmt/format.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <stdexcept>

namespace harness {

struct StepReader::Found {
  bool refused = false;  // a validation's line
  std::optional<int64_t> step, epoch;
  int64_t total = 0;  // in "12/100"; 0: none
  std::optional<double> loss, tokens_per_s, own_ms;
  std::string step_key, loss_key;  // the words before them
  bool comma = false;              // whether the loss has thousands or decimals cannot be told

  [[nodiscard]] int quality() const { return (loss ? 2 : 0) + (step ? 1 : 0); }
};

namespace {

constexpr size_t longest_line = 4096, most_shapes = 1000, longest_shape = 120;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
char at(std::string_view text, size_t i) { return i < text.size() ? text[i] : '\0'; }

using Words = std::initializer_list<std::string_view>;

bool is_one(std::string_view word, Words list) { return std::ranges::find(list, word) != list.end(); }

// Keys are words in small letters with a blank on each side: " train loss ".
template <typename Function>
void for_each_word(std::string_view key, Function function) {
  for (size_t begin = 0; begin < key.size();) {
    const size_t end = std::min(key.find(' ', begin), key.size());
    if (end > begin) function(key.substr(begin, end - begin));
    begin = end + 1;
  }
}

bool has_any(std::string_view key, Words list) {
  bool any = false;
  for_each_word(key, [&](std::string_view word) { any = any || is_one(word, list); });
  return any;
}

bool has_only(std::string_view key, Words list) {
  bool all = true;
  for_each_word(key, [&](std::string_view word) { all = all && is_one(word, list); });
  return all;
}

// "train/loss_step", "trainLossStep": adds " train loss step ".
void add_words(std::string& key, std::string_view text) {
  if (key.empty()) key += ' ';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool parts = c == '_' || c == '/' || c == '.' || c == '-';
    const bool hump = i > 0 && lower(text[i - 1]) == text[i - 1] && is_letter(text[i - 1]) && lower(c) != c;
    if ((parts || hump) && key.back() != ' ') key += ' ';
    if (!parts) key += lower(c);
  }
  if (key.back() != ' ') key += ' ';
}

const Words validation_words = {"val",     "valid",      "validation", "validate",   "validating",
                                "eval",    "evaluation", "evaluate",   "evaluating", "test",
                                "testing", "sanity",     "predicting"};
const Words fillers = {"the", "is", "was", "info", "debug", "warning"};

// 0: no loss. Higher ones are more like the loss of a step.
int loss_rank(std::string_view key) {
  if (!has_any(key, {"loss"})) return 0;
  int rank = 5;
  for_each_word(key, [&](std::string_view word) {
    if (word == "loss" || is_one(word, fillers)) return;
    rank =
        std::min(rank, is_one(word, {"train", "training"}) ? 4
                       : is_one(word, {"total", "lm", "step", "batch", "minibatch", "global", "current", "cur", "nll",
                                       "ce", "mlm", "iter"})
                           ? 3
                       : is_one(word, {"avg", "average", "mean", "running", "smooth", "smoothed", "moving", "ema"}) ? 2
                       : word == "epoch"                                                                            ? 1
                                         : 0);
  });
  return rank;
}

// 0: no step. 2 and 1 are for a bar and an epoch.
int step_rank(std::string_view key) {
  int rank = 0, others = 0;
  for_each_word(key, [&](std::string_view word) {
    const int here = is_one(word, {"step", "steps"})                                                         ? 5
                     : is_one(word, {"iter", "iters", "iteration", "iterations", "it", "update", "updates"}) ? 4
                     : is_one(word, {"batch", "minibatch"})                                                  ? 3
                                                                                                             : 0;
    if (here > 0 && rank == 0) {
      rank = here;
    } else if (word == "global" || (word == "num" && rank == 0 && has_any(key, {"updates"}))) {
      others += 10;
    } else if (!(rank > 0 ? is_one(word, {"num", "number", "idx"})
                          : is_one(word, {"train", "training", "completed", "current", "optimizer"})) &&
               !is_one(word, fillers)) {
      others -= 100;
    }
  });
  return rank == 0 || others < 0 ? 0 : rank + others;
}

bool is_epoch(std::string_view key) {
  return has_any(key, {"epoch", "ep"}) && has_only(key, {"epoch", "ep", "train", "training", "current", "info", "num"});
}

// "tokens/s", "tok per sec per gpu", "train tokens per second", "tps".
bool is_token_rate(std::string_view key) {
  int place = 0;  // 1: after "tokens", 2: after "tokens per second"
  for_each_word(key, [&](std::string_view word) {
    if (place == 0 && is_one(word, {"tok", "toks", "token", "tokens"})) {
      place = 1;
    } else if ((place == 1 && is_one(word, {"s", "sec", "second"})) || (place == 0 && word == "tps")) {
      place = 2;
    } else if (place < 2 && !(place == 0 ? is_one(word, {"train", "training", "perf"}) : word == "per")) {
      place = 3;
    }
  });
  return place == 2;
}

// Milliseconds in one `unit`; 0: no unit of time.
double unit_ms(std::string_view unit) {
  return has_any(unit, {"ms", "msec"}) ? 1 : has_any(unit, {"s", "sec", "secs", "second", "seconds"}) ? 1000 : 0;
}

// What a step took, if that is what it says.
std::optional<double> step_ms(std::string_view key, std::string_view unit, double value) {
  static const Words words = {"time", "dt", "took", "iter", "iteration", "step", "batch",  "avg",    "elapsed",
                              "per",  "in", "ms",   "msec", "s",         "sec",  "second", "seconds"};
  const double factor = unit_ms(unit.empty() ? key : unit);
  const bool good = has_only(unit, {"ms", "msec", "s", "sec", "secs", "second", "seconds", "step", "it", "iter"}) &&
                    has_only(key, words) && (!key.empty() || factor == 1);
  if (factor == 0 || !good || !(value >= 0 && value * factor < 1e8)) return std::nullopt;
  return value * factor;
}

// A number at the beginning of a text.
struct Number {
  double value = 0;
  bool whole = false, comma = false;  // comma: "3,100", which may be 3100 or 3.1
  size_t size = 0;                    // 0: there is none
};

// 12, 1,234, -1.5e-3, and with a decimal comma 3,1 or 0,123 or 3,1415.
Number number_at(std::string_view text) {
  size_t i = at(text, 0) == '-' || at(text, 0) == '+' ? 1 : 0;
  const size_t begin = i;
  std::string digits = at(text, 0) == '-' ? "-" : "";
  const auto take_digits = [&] {
    while (is_digit(at(text, i))) digits += text[i++];
  };
  take_digits();
  const size_t first = i - begin;
  const auto group = [&] {
    return at(text, i) == ',' && is_digit(at(text, i + 1)) && is_digit(at(text, i + 2)) && is_digit(at(text, i + 3)) &&
           !is_digit(at(text, i + 4));
  };
  const bool below_one = first == 1 && text[begin] == '0';
  size_t groups = 0;
  if (first > 0 && first <= 3 && !below_one) {
    for (; group(); ++groups) {
      digits.append(text.substr(i + 1, 3));
      i += 4;
    }
  }
  bool whole = i > begin;
  // In a list a comma or a point follows: "12,0,3", "12,0.5".
  const size_t rest = std::min(text.find_first_not_of("0123456789", i + 1), text.size());
  const bool decimal_comma = groups == 0 && first > 0 && at(text, i) == ',' && rest > i + 1 &&
                             !((at(text, rest) == ',' || at(text, rest) == '.') && is_digit(at(text, rest + 1)));
  if (decimal_comma) {
    whole = false;
    digits += '.';
    ++i;
    take_digits();
  } else if (at(text, i) == '.' && (whole || is_digit(at(text, i + 1)))) {
    whole = false;
    digits += text[i++];
    take_digits();
  }
  if (i == begin) return {};
  const size_t sign = at(text, i + 1) == '-' || at(text, i + 1) == '+' ? 1 : 0;
  bool small = false;
  if (lower(at(text, i)) == 'e' && is_digit(at(text, i + 1 + sign))) {
    whole = false;
    small = text[i + 1] == '-';
    digits += small ? "e-" : "e";
    i += 1 + sign;
    take_digits();
  }
  Number number{.whole = whole && begin == 0, .comma = whole && groups == 1, .size = i};
  if (std::from_chars(digits.data(), digits.data() + digits.size(), number.value).ec != std::errc()) {
    number.value = small ? 0 : std::numeric_limits<double>::infinity();  // out of a double's range
  }
  number.whole = number.whole && number.value < 9e15;
  return number;
}

// "nan", "-Infinity"; `word` has no sign.
std::optional<double> not_finite(std::string_view word, bool negative) {
  std::string key;
  add_words(key, word);
  if (key == " nan " || key == " na n ") return std::numeric_limits<double>::quiet_NaN();  // "NaN" has a hump
  if (key != " inf " && key != " infinity ") return std::nullopt;
  return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

// Without escape sequences and control characters.
std::string cleaned(std::string_view raw) {
  std::string text;
  for (size_t i = 0; i < raw.size(); ++i) {
    const auto c = static_cast<unsigned char>(raw[i]);
    if (c == '\t') text += ' ';
    if (c >= 0x20 && c != 0x7f) text += raw[i];
    if (c != 0x1b || ++i >= raw.size()) continue;
    if (raw[i] == '[') {
      do ++i;
      while (i < raw.size() && (raw[i] < '@' || raw[i] > '~'));
    } else if (raw[i] == ']') {  // a title, until BEL or ESC and a backslash
      while (i < raw.size() && raw[i] != '\a' && !(raw[i] == 0x1b && at(raw, i + 1) == '\\')) ++i;
      if (at(raw, i) == 0x1b) ++i;
    } else if (raw[i] == '(') {
      ++i;
    }
  }
  return text;
}

// Numbers become N, and of a character several times in a row (a bar, blanks) one remains.
std::string shape_of(std::string_view line) {
  std::string shape;
  std::string_view before;
  for (size_t i = 0; i < line.size() && shape.size() < longest_shape + 4;) {
    const bool starts = is_digit(line[i]) || (line[i] == '.' && is_digit(at(line, i + 1)));
    size_t size = starts ? number_at(line.substr(i)).size : 1;
    while (!starts && (at(line, i + size) & 0xc0) == 0x80) ++size;  // the rest of a character
    const std::string_view piece = starts ? "N" : line.substr(i, size);
    const bool again = piece == before && (piece == " " || piece.size() > 1 || piece == "#");
    if (!again && !(shape.empty() && piece == " ")) shape += piece;
    before = piece;
    i += size;
  }
  while (shape.ends_with(' ')) shape.pop_back();
  return shape;
}

std::string shown(const std::string& shape) { return files::shortened(files::printable(shape), longest_shape); }

}  // namespace

// One pass over the line. `key` has the words since the last number or separator.
StepReader::Found StepReader::recognized(std::string_view line) {
  Found found;
  std::string key, named;  // `named`: in {"key": "train_loss", "value": 2.3}
  int best_loss = 0, best_step = 0, numbers = 0;
  bool closed = false, heading = false, bar = false;  // ":" or "=" came; the key has "validation"; "12%|###| " came
  bool counted_bar = false;
  const auto clear = [&] {
    found.refused = found.refused || (heading && !found.loss);
    key.clear();
    closed = heading = false;
  };
  const auto take = [&](double value, bool whole, int64_t total, std::string_view unit, bool comma = false) {
    if (key == " value " && !named.empty()) key = named;
    const bool validates = has_any(key, validation_words);
    const bool counts = total > 0 || has_any(key, {"loss", "step", "steps", "iter", "iteration", "batch", "epoch"});
    found.refused = found.refused || (validates && (counts || (numbers == 0 && heading)));
    ++numbers;
    const bool plain = unit.empty() && total == 0;
    if (const int rank = plain ? loss_rank(key) : 0; rank > best_loss) {
      best_loss = rank;
      found.loss = value;
      found.loss_key = key;
      found.comma = comma;
    } else if (is_token_rate(key) || is_token_rate(unit)) {
      if (!found.tokens_per_s) found.tokens_per_s = value;
    } else if (!found.own_ms) {
      found.own_ms = step_ms(key, unit, value);
    }
    if (whole && (unit.empty() || unit == " it ")) {
      const bool epoch = is_epoch(key);
      if ((epoch || (key == " train " && total == 0)) && !found.epoch) found.epoch = static_cast<int64_t>(value);
      int rank = step_rank(key);
      const bool is_bar = bar || unit == " it ";
      if (rank == 0 && (is_bar || (total > 0 && key.empty()))) rank = 2;
      if (rank == 0 && epoch && !found.loss) rank = 1;
      if (rank > best_step || (rank == 2 && best_step == 2 && total > found.total)) {
        best_step = rank;
        found.step = static_cast<int64_t>(value);
        found.total = total;
        found.step_key = key;
        counted_bar = is_bar;
      }
    }
    bar = heading = false;
    clear();
  };
  for (size_t i = 0; i < line.size();) {
    const char c = line[i];
    const char before = i > 0 ? line[i - 1] : ' ';
    const bool sign = (c == '-' || c == '+') && !is_letter(before) && !is_digit(before);
    if (is_letter(c) || c == '_' || (sign && is_letter(at(line, i + 1)))) {
      const size_t begin = i + (sign ? 1 : 0);
      for (i = begin; i < line.size(); ++i) {
        const bool joins = (line[i] == '/' || line[i] == '.' || line[i] == '-') && is_letter(at(line, i + 1));
        if (!is_letter(line[i]) && !is_digit(line[i]) && line[i] != '_' && line[i] != '@' && !joins) break;
      }
      const std::string_view word = line.substr(begin, i - begin);
      if (const auto value = closed || key.ends_with(" loss ") ? not_finite(word, c == '-') : std::nullopt; value) {
        take(*value, false, 0, "");
        continue;
      }
      if (closed && key == " key ") {
        named.clear();
        add_words(named, word);
      }
      if (closed) clear();
      std::string words;
      add_words(words, word);
      heading = heading || (word.find_first_of("/.") == std::string_view::npos && has_any(words, validation_words) &&
                            std::ranges::count(words, ' ') == 2);
      add_words(key, word);
      continue;
    }
    const Number number = is_digit(c) || c == '.' || sign ? number_at(line.substr(i)) : Number{};
    if (number.size == 0) {
      const bool dash = c == '-' && before == ' ' && at(line, i + 1) == ' ';
      if (dash || std::string_view(",|;{}]").find(c) != std::string_view::npos || (c & 0x80) != 0) clear();
      if ((c == ':' || c == '=') && !key.empty()) closed = true;
      ++i;
      continue;
    }
    i += number.size;
    double value = number.value;
    bool whole = number.whole;
    int64_t total = 0;
    if (whole) {  // "12/100", "12 / 100"
      size_t slash = i;
      while (at(line, slash) == ' ') ++slash;
      if (at(line, slash) == '/') {
        ++slash;
        while (at(line, slash) == ' ') ++slash;
        const Number of = is_digit(at(line, slash)) ? number_at(line.substr(slash)) : Number{};
        if (of.whole) {
          total = static_cast<int64_t>(of.value);
          i = slash + of.size;
        }
      }
    }
    // A date, a time, a version.
    const char next = at(line, i);
    const bool chain =
        ((next == ':' || next == '-' || next == '.' || (next == '/' && total > 0)) && is_digit(at(line, i + 1))) ||
        (next == ' ' && total > 0 && is_digit(at(line, i + 1)) && at(line, i + 3) == ':');
    size_t end = i;
    while (is_letter(at(line, end)) || (at(line, end) == '/' && is_letter(at(line, end + 1)) && end > i)) ++end;
    if (chain || is_digit(at(line, end)) || (end > i && at(line, end) == '_')) {
      const auto goes_on = [&](char d) {
        return is_digit(d) ||
               (chain ? d == ':' || d == '.' || d == ',' || d == '/' || d == '-' : is_letter(d) || d == '_');
      };
      while (goes_on(at(line, i))) ++i;
      clear();
      continue;
    }
    std::string unit;
    if (end > i) {
      const std::string_view suffix = line.substr(i, end - i);
      const size_t scale =
          suffix.size() == 1 ? std::string_view("kmgb").find(lower(suffix[0])) : std::string_view::npos;
      if (scale != std::string_view::npos) {
        value *= std::pow(1000, std::min<size_t>(scale + 1, 3));
        whole = false;
      } else {
        add_words(unit, suffix);
      }
      i = end;
    }
    if (at(line, i) == '%') {
      ++i;
      const size_t rest = at(line, i) == '|' ? line.find('|', i + 1) : std::string_view::npos;
      if (rest == std::string_view::npos) {
        clear();
      } else {
        i = rest + 1;
        bar = true;
      }
      continue;
    }
    if (unit.empty() && at(line, i) == ' ') {  // "12.5 ms", "3000 tok/s"
      for (end = i + 1; is_letter(at(line, end)) || at(line, end) == '/';) ++end;
      std::string words;
      if (end > i + 1 && end - i < 24) add_words(words, line.substr(i + 1, end - i - 1));
      if (is_token_rate(words) || words == " ms " || words == " s " || words == " sec " || words == " seconds ") {
        unit = words;
        i = end;
      }
    }
    take(value, whole, total, unit, number.comma);
  }
  clear();
  if (!found.loss && (best_step == 1 || (best_step == 2 && !counted_bar))) found.step.reset();
  return found;
}

StepReader::StepReader(const std::string& steps_from) {
  if (steps_from.empty()) return;
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(steps_from.data()), steps_from.size(), 0, &error, &offset, nullptr);
  const std::string shown = files::shortened(files::printable(steps_from), 60);
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 160> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    throw std::invalid_argument(fmt::format("'{}' is no regular expression: {} (at byte {})", shown,
                                            reinterpret_cast<const char*>(message.data()), offset));
  }
  pattern_ = {code, [](const pcre2_code* owned) { pcre2_code_free(const_cast<pcre2_code*>(owned)); }};
  const auto has = [&](const char* name) {
    return pcre2_substring_number_from_name(code, reinterpret_cast<PCRE2_SPTR>(name)) > 0;
  };
  if (!has("step") && !has("loss")) {
    throw std::invalid_argument(fmt::format("'{}' has neither a group (?P<step>...) nor (?P<loss>...)", shown));
  }
}

StepReader::Found StepReader::matched(std::string_view line) const {
  Found found;
  found.epoch = recognized(line).epoch;
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create_from_pattern(pattern_.get(), nullptr), pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> limits(pcre2_match_context_create(nullptr),
                                                                                    pcre2_match_context_free);
  pcre2_set_match_limit(limits.get(), 100'000);  // a pattern may take exponential time
  if (pcre2_match(pattern_.get(), reinterpret_cast<PCRE2_SPTR>(line.data()), line.size(), 0, 0, match.get(),
                  limits.get()) < 1) {
    return found;
  }
  const auto group = [&](const char* name) -> std::optional<Number> {
    PCRE2_UCHAR* begin = nullptr;
    PCRE2_SIZE size = 0;
    if (pcre2_substring_get_byname(match.get(), reinterpret_cast<PCRE2_SPTR>(name), &begin, &size) != 0) return {};
    const std::string text(reinterpret_cast<const char*>(begin), size);
    pcre2_substring_free(begin);
    const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
    if (const auto value = not_finite(text.substr(sign), text.starts_with('-'))) return Number{.value = *value};
    const Number number = number_at(text);
    if (number.size == 0 || number.size != text.size()) return {};
    return number;
  };
  if (const auto step = group("step"); step && step->whole) found.step = static_cast<int64_t>(step->value);
  if (const auto loss = group("loss")) {
    found.loss = loss->value;
    found.comma = loss->comma;
  }
  if (const auto rate = group("tokens_per_s")) found.tokens_per_s = rate->value;
  return found;
}

std::vector<StepLine> StepReader::take(int stream, std::string_view bytes, double seconds) {
  std::vector<StepLine> out;
  Stream& here = streams_[stream == 0 ? 0 : 1];
  ++reads_;
  size_t feed = 0, back = 0;  // the next \n and \r
  for (size_t begin = 0; begin < bytes.size();) {
    if (begin == 0 || feed < begin) feed = std::min(bytes.find('\n', begin), bytes.size());
    if (begin == 0 || back < begin) back = std::min(bytes.find('\r', begin), bytes.size());
    const size_t end = std::min(feed, back);
    if (end > begin) {
      here.line.append(bytes.substr(begin, std::min(end - begin, longest_line - here.line.size())));
      here.seconds = seconds;
      here.read = reads_;
    }
    if (end < bytes.size()) end_line(here, out);
    begin = end + 1;
  }
  return out;
}

std::vector<StepLine> StepReader::end() {
  std::vector<StepLine> out;
  for (Stream& stream : streams_) end_line(stream, out);
  give_held(out);
  return out;
}

void StepReader::end_line(Stream& stream, std::vector<StepLine>& out) {
  const std::string line = cleaned(stream.line);
  stream.line.clear();
  if (line.find_first_not_of(' ') == std::string::npos) return;
  count_shape(line);
  const Found found = pattern_ ? matched(line) : recognized(line);
  if (found.refused) {
    ++refused_;
    return;
  }
  if (found.epoch) epoch_ = found.epoch;
  if (found.quality() == 0 || !is_of_kind(found, line)) return;
  has_commas_ = has_commas_ || found.comma;
  add(found,
      {.seconds = stream.seconds, .loss = found.loss, .tokens_per_s = found.tokens_per_s, .own_ms = found.own_ms},
      stream.read, out);
}

// Whether the line is one of those that count. A better kind replaces the kind before it; one as good does if it has
// come more often, with no line of the other between.
bool StepReader::is_of_kind(const Found& found, std::string_view line) {
  const std::string name = found.step_key + "," + found.loss_key;
  const int quality = found.quality();
  if (quality == kind_.quality && name == kind_.name) {
    if (other_.quality <= quality) other_ = {};
    return true;
  }
  if (quality < kind_.quality || quality < other_.quality) return false;
  if (name != other_.name || quality != other_.quality) other_ = {.name = name, .quality = quality};
  ++other_.lines;
  // A line with a loss and no number may be a remark ("final loss 2.3"); two are not.
  const int64_t needed = quality == kind_.quality ? kind_.lines + 1 : quality == 2 && kind_.quality > 0 ? 2 : 1;
  if (other_.lines < needed) return false;
  kind_ = {.name = name, .quality = quality};
  other_ = {};
  shape_ = (quality == 2 ? "each line a step: " : "") + shown(shape_of(line));
  epoch_of_last_.reset();
  last_loss_.reset();
  held_.reset();
  last_ = -1;
  total_ = base_ = returned_ = grouped_ = 0;
  last_read_ = 0;
  return true;
}

void StepReader::add(const Found& found, StepLine line, uint64_t read, std::vector<StepLine>& out) {
  const auto same = [](const std::optional<double>& a, const std::optional<double>& b) {
    return a == b || (a && b && std::isnan(*a) && std::isnan(*b));
  };
  line.restarts = kind_.lines == 0;
  line.numbered = found.step.has_value();
  line.step = line.numbered ? *found.step : kind_.lines;
  if (line.numbered) {
    const bool new_epoch = epoch_ && epoch_of_last_ && *epoch_ > *epoch_of_last_;
    if (*found.step < last_ || (*found.step == last_ && found.total == last_)) {
      if (!new_epoch && *found.step < last_) return;
      if (new_epoch) {
        base_ += total_ > 0 ? total_ : last_ + 1 - *found.step;
        last_ = -1;
      }
    }
    line.step += base_;
    if (*found.step == last_) {
      if (held_ && !same(line.loss, held_->loss)) {
        held_.reset();
        last_loss_ = line.loss;
        give(line, read, out);
      }
      return;
    }
    give_held(out);
    last_ = *found.step;
    total_ = found.total;
    epoch_of_last_ = epoch_;
  }
  ++kind_.lines;
  if (line.numbered && line.loss && same(line.loss, last_loss_)) {
    held_ = line;
    held_read_ = read;
    return;
  }
  last_loss_ = line.loss;
  give(line, read, out);
}

void StepReader::give(StepLine line, uint64_t read, std::vector<StepLine>& out) {
  const bool is_grouped = read == last_read_;
  if (is_grouped) grouped_ += last_is_grouped_ ? 1 : 2;
  last_is_grouped_ = is_grouped;
  last_read_ = read;
  ++returned_;
  out.push_back(line);
}

void StepReader::give_held(std::vector<StepLine>& out) {
  if (held_) give(*held_, held_read_, out);
  held_.reset();
}

void StepReader::count_shape(std::string_view line) {
  ++shapes_[shape_of(line)];
  if (shapes_.size() <= most_shapes) return;
  std::vector<int64_t> counts;
  for (const auto& [shape, count] : shapes_) counts.push_back(count);
  const auto middle = counts.begin() + most_shapes / 2;
  std::ranges::nth_element(counts, middle);
  int64_t more = most_shapes / 2;  // of those as frequent as the middle one
  std::erase_if(shapes_,
                [&](const auto& item) { return item.second < *middle || (item.second == *middle && more-- > 0); });
}

std::vector<std::pair<std::string, int64_t>> StepReader::frequent_shapes(size_t most) const {
  std::vector<std::pair<std::string, int64_t>> all(shapes_.begin(), shapes_.end());
  std::ranges::sort(
      all, [](const auto& a, const auto& b) { return a.second != b.second ? a.second > b.second : a.first < b.first; });
  all.resize(std::min(most, all.size()));
  for (auto& [shape, count] : all) shape = shown(shape);
  return all;
}

}  // namespace harness
