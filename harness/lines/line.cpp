#include "harness/lines/line.h"

#include "harness/lines/names.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

namespace harness {

namespace {

constexpr size_t longest_shape = 120, most_numbers = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
char at(std::string_view text, size_t i) { return i < text.size() ? text[i] : '\0'; }
std::string words_of(std::string_view text) {
  std::string key;
  add_words(key, text);
  return key;
}

// Reads a line once, from its beginning. `key_` has the words since the last number or separator.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Line parsed() {
    take_tag();
    while (at_ < text_.size() && line_.numbers.size() < most_numbers) {
      if (!take_word() && !take_number()) take_mark();
    }
    end_key();
    line_.validates = is_other_ || (validates_ && !trains_);
    return std::move(line_);
  }

 private:
  [[nodiscard]] char here(size_t ahead = 0) const { return at(text_, at_ + ahead); }
  [[nodiscard]] char before() const { return at_ > 0 ? text_[at_ - 1] : ' '; }
  [[nodiscard]] bool has_sign() const {
    return (here() == '-' || here() == '+') && !is_letter(before()) && !is_digit(before());
  }

  // Words that no number follows. "Validation:" makes what follows one.
  void end_key() {
    is_other_ = is_other_ || (is_heading_ && !trains_);
    key_.clear();
    is_closed_ = is_heading_ = false;
  }

  // "[1,3]<stdout>: ", as Open MPI's --tag-output says whose line it is: of job 1 rank 3.
  void take_tag() {
    const size_t comma = text_.find(','), end = text_.find("]<std");
    const size_t colon = text_.find(">:", std::min(end, text_.size()));
    if (here() != '[' || comma > end || colon == std::string_view::npos) return;
    const auto is_number = [&](size_t from, size_t to) {
      return from < to && std::ranges::all_of(text_.substr(from, to - from), is_digit);
    };
    if (!is_number(1, comma) || !is_number(comma + 1, end)) return;
    const Figure rank = figure_at(text_.substr(comma + 1, end - comma - 1));
    key_ = " rank ";
    add({.value = rank.value, .whole = true, .begin = comma + 1, .size = rank.size});
    at_ = colon + 2;
  }

  bool take_word() {
    const bool sign = has_sign();
    if (!is_letter(here()) && here() != '_' && !(sign && is_letter(here(1)))) return false;
    const bool negative = here() == '-';
    const size_t begin = at_ + (sign ? 1 : 0);
    for (at_ = begin; at_ < text_.size(); ++at_) {
      const char c = here();
      const bool joins = (c == '/' || c == '.' || c == '-') && is_letter(here(1));
      if (!is_letter(c) && !is_digit(c) && c != '_' && c != '@' && !joins) break;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    const auto value = is_closed_ || loss_rank(key_) > 0 ? not_finite(word, negative) : std::nullopt;
    if (value) {
      add({.value = *value, .begin = begin, .size = word.size()});
      return true;
    }
    const std::string words = words_of(word);
    if (wraps(word, words)) return true;
    if (const size_t digits = word.find_first_of("0123456789"); digits != std::string_view::npos) {  // "rank0"
      const std::string who = words_of(word.substr(0, digits));
      const Figure which = figure_at(word.substr(digits));
      if ((is_rank(who) || who == " default ") && digits + which.size == word.size()) {
        key_ = " rank ";
        add({.value = which.value, .whole = true, .begin = begin + digits, .size = which.size});
        return true;
      }
    }
    if (is_closed_ && key_ == " key ") named_ = words;
    if (is_closed_) end_key();
    is_heading_ = is_heading_ || (word.find_first_of("/.") == std::string_view::npos && is_validation(words) &&
                                  std::ranges::count(words, ' ') == 2);
    add_words(key_, word);
    return true;
  }

  // "tensor(3.1, ...)", "Array(3.1, ...)": the number is meant.
  bool wraps(std::string_view word, const std::string& words) {
    const bool is_name = words == " tensor " || words == " array " || words.ends_with(" float32 ") ||
                         words.ends_with(" float64 ") || words == " device array ";
    if (!is_name || key_.empty() || here() != '(' || word.empty()) return false;
    ++at_;
    return true;
  }

  void take_mark() {
    const char c = here();
    const bool dash = c == '-' && before() == ' ' && here(1) == ' ';
    if (c == '\'' && is_letter(before()) && here(1) == 's' && !is_letter(here(2))) {  // "train's l2"
      at_ += 2;
      return;
    }
    if (dash || std::string_view(",|;{}]").find(c) != std::string_view::npos || (c & 0x80) != 0) end_key();
    if ((c == ':' || c == '=') && !key_.empty()) is_closed_ = true;
    ++at_;
  }

  bool take_number() {
    const Figure figure = is_digit(here()) || here() == '.' || has_sign() ? figure_at(text_.substr(at_)) : Figure{};
    if (figure.size == 0) return false;
    Number number{.value = figure.value,
                  .whole = figure.whole,
                  .comma = figure.comma,
                  .decimals = figure.decimals,
                  .begin = at_,
                  .size = figure.size};
    at_ += figure.size;
    if (number.whole) take_total(number);
    if (skip_chain(number.total > 0)) return true;
    take_unit(number);
    if (here() == '%') {
      take_percent(number);
    } else {
      take_word_behind(number);
      add(number);
    }
    return true;
  }

  // "12/100", "12 / 100"
  void take_total(Number& number) {
    size_t slash = at_;
    while (at(text_, slash) == ' ') ++slash;
    if (at(text_, slash) != '/') return;
    ++slash;
    while (at(text_, slash) == ' ') ++slash;
    const Figure of = is_digit(at(text_, slash)) ? figure_at(text_.substr(slash)) : Figure{};
    if (!of.whole) return;
    number.total = static_cast<int64_t>(of.value);
    at_ = slash + of.size;
  }

  // A date, a time, a version, a name that begins with digits.
  bool skip_chain(bool has_total) {
    const char next = here();
    const bool chain =
        ((next == ':' || next == '-' || next == '.' || (next == '/' && has_total)) && is_digit(here(1))) ||
        // "03/04 12:00:01", but not a bar's "3/25 00:05<00:10"
        (next == ' ' && has_total && is_digit(here(1)) && here(3) == ':' && text_.find('<', at_) > at_ + 10);
    const size_t end = end_of_unit();
    if (!chain && !is_digit(at(text_, end)) && !(end > at_ && at(text_, end) == '_')) return false;
    const auto goes_on = [&](char d) {
      return is_digit(d) ||
             (chain ? d == ':' || d == '.' || d == ',' || d == '/' || d == '-' : is_letter(d) || d == '_');
    };
    while (goes_on(here())) ++at_;
    end_key();
    return true;
  }

  [[nodiscard]] size_t end_of_unit() const {
    size_t end = at_;
    while (is_letter(at(text_, end)) || (at(text_, end) == '/' && is_letter(at(text_, end + 1)) && end > at_)) ++end;
    return end;
  }

  // "12ms", "3.5s/it", "10k"
  void take_unit(Number& number) {
    const size_t end = end_of_unit();
    if (end == at_) return;
    const std::string_view suffix = text_.substr(at_, end - at_);
    const size_t scale = suffix.size() == 1 ? std::string_view("kmgb").find(lower(suffix[0])) : std::string_view::npos;
    at_ = end;
    if (scale == std::string_view::npos) {
      number.unit = words_of(suffix);
      return;
    }
    number.value *= std::pow(1000, std::min<size_t>(scale + 1, 3));
    number.whole = number.decimals <= 3 && number.value < 9e15;
    number.value = number.whole ? std::round(number.value) : number.value;
  }

  // "12%", or "12%|###  |" before a bar's own numbers.
  void take_percent(Number& number) {
    ++at_;
    const size_t rest = here() == '|' ? text_.find('|', at_ + 1) : std::string_view::npos;
    if (rest != std::string_view::npos) {
      at_ = rest + 1;
      is_bar_ = true;
      return;
    }
    number.unit = "%";
    is_other_ = is_other_ || (is_heading_ && !trains_);  // "Evaluating: 12%"
    add(number);
  }

  // "12.5 ms", "3000 tok/s", "5120 images"
  void take_word_behind(Number& number) {
    if (!number.unit.empty() || here() != ' ') return;
    size_t end = at_ + 1;
    while (is_letter(at(text_, end)) || at(text_, end) == '/') ++end;
    if (end == at_ + 1 || end - at_ >= 24) return;
    const std::string words = words_of(text_.substr(at_ + 1, end - at_ - 1));
    const bool counts = key_.empty() && counts_samples(words) && std::ranges::count(words, ' ') == 2;
    if (!counts && !is_token_rate(words) && words != " ms " && words != " s " && words != " sec " &&
        words != " seconds ")
      return;
    number.unit = words;
    at_ = end;
  }

  void add(Number number) {
    if (key_ == " value " && !named_.empty()) key_ = named_;
    if (key_.empty() && !carried_.empty() && number.total == 0) key_ = carried_;
    carried_.clear();
    const int rank = number.unit.empty() && number.total == 0 ? loss_rank(key_) : 0;
    if (is_validation(key_)) {
      const bool counts = number.total > 0 || has_step_word(key_) || key_.find(" epoch ") != std::string::npos;
      is_other_ = is_other_ || (rank == 0 && (counts || (line_.numbers.empty() && is_heading_)));
      validates_ = true;
    } else {
      trains_ = trains_ || rank > 0;
    }
    if (const size_t last = key_.size() < 2 ? 0 : key_.rfind(' ', key_.size() - 2);
        number.whole && last > 0 && has_step_word(key_.substr(last))) {  // "cost after iteration 100: 3.1"
      carried_ = key_.substr(0, key_.find(' ', 1) + 1);
      const bool is_loss = loss_rank(carried_) > 0 && carried_ != " train ";
      if (is_loss && !is_validation(key_)) key_ = key_.substr(last);
      if (!is_loss) carried_.clear();
    }
    const bool is_it = number.unit == " it ";
    number.in_bar = is_bar_ || is_it;
    number.column = {.key = key_, .of_total = number.total > 0, .marks = key_.empty() ? marks_of(number) : ""};
    number.column.nth = seen_[number.column]++;
    line_.numbers.push_back(std::move(number));
    is_bar_ = is_heading_ = false;
    end_key();
  }

  // The character before it that is no blank, and the one behind it. ^: the line's beginning, $: its end, *: of a bar.
  [[nodiscard]] std::string marks_of(const Number& number) const {
    const auto mark = [](char c) { return (c & 0x80) != 0 ? '*' : c; };
    const size_t before = number.begin == 0 ? std::string_view::npos : text_.find_last_not_of(' ', number.begin - 1);
    return {before == std::string_view::npos ? '^' : mark(text_[before]), at_ < text_.size() ? mark(text_[at_]) : '$'};
  }

  std::string_view text_;
  size_t at_ = 0;
  Line line_;
  std::string key_, named_, carried_;  // named_: in {"key": "train_loss", "value": 2.3}
  std::map<Column, int64_t> seen_;
  bool is_closed_ = false, is_heading_ = false, is_bar_ = false;  // ":" or "=" came; "validation" did; "12%|###| " did
  bool is_other_ = false, validates_ = false, trains_ = false;
};

// "| loss | 3.1 |" is one of several lines of a step: its second bar is a colon.
std::string with_colon(std::string_view text) {
  std::string line(text);
  const size_t first = line.find_first_not_of(' '), last = line.find_last_not_of(' ');
  if (first == std::string::npos || line[first] != '|' || line[last] != '|' || std::ranges::count(line, '|') != 3)
    return line;
  const size_t middle = line.find('|', first + 1);
  const bool is_named = std::ranges::none_of(line.substr(first, middle - first), is_digit);
  const bool has_word = std::ranges::any_of(line.substr(first, middle - first), is_letter);
  if (is_named && has_word) line[middle] = ':';
  return line;
}

}  // namespace

const Number* Line::find(const Column& column) const {
  const auto found = std::ranges::find(numbers, column, &Number::column);
  return found == numbers.end() ? nullptr : &*found;
}

Figure figure_at(std::string_view text) {
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
  size_t point = std::string_view::npos;
  if (decimal_comma) {
    whole = false;
    digits += '.';
    point = ++i;
    take_digits();
  } else if (at(text, i) == '.' && (whole || is_digit(at(text, i + 1)))) {
    whole = false;
    digits += text[i++];
    point = i;
    take_digits();
  }
  if (i == begin) return {};
  const int decimals = point == std::string_view::npos ? 0 : static_cast<int>(i - point);
  const size_t sign = at(text, i + 1) == '-' || at(text, i + 1) == '+' ? 1 : 0;
  bool small = false;
  if (lower(at(text, i)) == 'e' && is_digit(at(text, i + 1 + sign))) {
    whole = false;
    small = text[i + 1] == '-';
    digits += small ? "e-" : "e";
    i += 1 + sign;
    take_digits();
  }
  Figure figure{.whole = whole && begin == 0, .comma = whole && groups == 1, .decimals = decimals, .size = i};
  if (std::from_chars(digits.data(), digits.data() + digits.size(), figure.value).ec != std::errc()) {
    figure.value = small ? 0 : std::numeric_limits<double>::infinity();  // out of a double's range
  }
  figure.whole = figure.whole && figure.value < 9e15;
  return figure;
}

std::optional<double> not_finite(std::string_view word, bool negative) {
  std::string small(word);
  std::ranges::transform(small, small.begin(), lower);
  if (small == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (small != "inf" && small != "infinity") return std::nullopt;
  return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

std::string cleaned(std::string_view raw) {
  std::string text;
  for (size_t i = 0; i < raw.size(); ++i) {
    const auto c = static_cast<unsigned char>(raw[i]);
    if (c == '\t') text += "  ";
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

std::optional<Heading> heading_of(std::string_view text) {
  if (std::ranges::any_of(text, is_digit)) return std::nullopt;
  Heading heading{.keys = {}, .has_commas = std::ranges::count(text, ',') >= 2};
  const bool has_bars = std::ranges::count(text, '|') >= 3;
  const auto next_end = [&](size_t from) {
    const size_t end = heading.has_commas ? text.find(',', from)
                       : has_bars         ? text.find('|', from)
                                          : text.find("  ", from);
    return std::min(end, text.size());
  };
  bool names_any = false;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = next_end(begin);
    std::string key;
    for (size_t i = begin; i < end; ++i) {
      size_t word = i;
      while (word < end && text[word] != ' ') ++word;
      if (word > i) add_words(key, text.substr(i, word - i));
      i = word;
    }
    if (!key.empty()) {
      names_any = names_any || step_rank(key) > 0 || is_epoch(key) || loss_rank(key) > 0;
      heading.keys.push_back(key);
    }
    begin = end + 1;
  }
  if (heading.keys.size() < 2 || !names_any) return std::nullopt;
  return heading;
}

Line line_of(std::string_view text, const Heading& heading) {
  std::string row = with_colon(text);
  if (heading.has_commas && std::ranges::count(row, ',') + 1 == std::ssize(heading.keys))
    std::ranges::replace(row, ',', ';');
  Line line = Parser(row).parsed();
  const auto is_cell = [](const Number& number) {
    return number.column.key.empty() && number.unit != "%" && !number.in_bar;
  };
  const auto end = std::ranges::find_if_not(line.numbers, is_cell);
  const size_t columns = std::min<size_t>(heading.keys.size(), static_cast<size_t>(end - line.numbers.begin()));
  if (columns < 2 || 2 * columns < heading.keys.size()) return line;  // a terminal may have cut some
  for (size_t i = 0; i < columns; ++i) {
    Number& number = line.numbers[i];
    number.column = {.key = heading.keys[i], .of_total = number.total > 0};
    for (size_t j = 0; j < i; ++j) number.column.nth += heading.keys[j] == heading.keys[i] ? 1 : 0;
  }
  return line;
}

std::string shape_of(std::string_view line, std::optional<size_t> step, std::optional<size_t> loss) {
  std::string shape;
  std::string_view before;
  for (size_t i = 0; i < line.size() && shape.size() < longest_shape + 4;) {
    const bool is_role = i == step || i == loss;
    const bool starts = is_role || is_digit(line[i]) || (line[i] == '.' && is_digit(at(line, i + 1)));
    size_t size = starts ? std::max<size_t>(figure_at(line.substr(i)).size, 1) : 1;
    while (is_role && is_letter(at(line, i)) && is_letter(at(line, i + size))) ++size;  // "nan"
    while (!starts && (at(line, i + size) & 0xc0) == 0x80) ++size;                      // the rest of a character
    const std::string_view piece = !starts ? line.substr(i, size) : i == step ? "STEP" : i == loss ? "LOSS" : "N";
    const bool again = piece == before && !starts && (piece == " " || piece.size() > 1 || piece == "#");
    if (!again && !(shape.empty() && piece == " ")) shape += piece;
    before = piece;
    i += size;
  }
  while (shape.ends_with(' ')) shape.pop_back();
  return shape;
}

std::string pattern_for(std::string_view line) {
  std::string pattern;
  bool has_step = false, has_loss = false;
  for (size_t i = std::min(line.find_first_not_of(' '), line.size()); i < line.size() && pattern.size() < 200;) {
    const bool starts = is_digit(line[i]) && !(i > 0 && is_letter(line[i - 1]));
    if (starts && has_step && has_loss) break;
    if (starts) {
      const Figure figure = figure_at(line.substr(i));
      const bool has_comma = line.substr(i, figure.size).find(',') != std::string_view::npos;
      bool& has = figure.whole ? has_step : has_loss;
      pattern += has            ? "\\S+?"
                 : figure.whole ? "(?P<step>[\\d,]+)"
                 : has_comma    ? "(?P<loss>[-+.,\\de]+|nan|inf)"
                                : "(?P<loss>[-+.\\de]+|nan|inf)";
      has = true;
      i += figure.size;
    } else if (line[i] == ' ') {
      pattern += " +";
      i = std::min(line.find_first_not_of(' ', i), line.size());
    } else if ((line[i] & 0x80) != 0) {  // of a bar, for instance
      pattern += ".+?";
      while (i < line.size() && (line[i] & 0x80) != 0) ++i;
    } else {
      if (std::string_view("\\^$.|?*+()[]{}'").find(line[i]) != std::string_view::npos)
        pattern += line[i] == '\'' ? "" : "\\";
      pattern += line[i] == '\'' ? '.' : line[i];  // it stands between quotes of a shell
      ++i;
    }
  }
  return has_step || has_loss ? pattern : "";
}

}  // namespace harness
