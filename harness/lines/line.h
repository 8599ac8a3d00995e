// What a line of a training program says: its numbers, each with the words before it. No format is named.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harness {

// Which of a line's numbers: the `nth`, from 0, of those with these words before it.
struct Column {
  std::string key;        // names.h; empty: none
  bool of_total = false;  // it is the 12 of "12/100"
  std::string marks;      // of a number without words: what stands before and behind it: "[]", "^,"
  int64_t nth = 0;
  auto operator<=>(const Column&) const = default;
};

struct Number {
  Column column;
  double value = 0;
  bool whole = false;          // an integer, also 10k
  bool comma = false;          // "3,100", which may be 3100 or 3.1
  int64_t total = 0;           // of "12/100"; 0: there is none
  int decimals = 0;            // as printed
  std::string unit;            // the words behind it: " ms ", " it ", "%"
  bool in_bar = false;         // behind "12%|### |", or as "12it ["
  size_t begin = 0, size = 0;  // in the line
};

struct Line {
  std::vector<Number> numbers;
  bool validates = false;  // it is a validation's

  [[nodiscard]] const Number* find(const Column& column) const;
};

// Words that name the columns of the lines below.
struct Heading {
  std::vector<std::string> keys;
  bool has_commas = false;
};

// Without escape sequences and control characters.
std::string cleaned(std::string_view raw);
// The columns of a heading: a line without numbers that names at least one step, epoch or loss.
std::optional<Heading> heading_of(std::string_view text);
Line line_of(std::string_view text, const Heading& heading = {});

// A number at the beginning of a text: 12, 1,234, -1.5e-3, and with a decimal comma 3,1 or 0,123 or 3,1415.
struct Figure {
  double value = 0;
  bool whole = false, comma = false;
  int decimals = 0;
  size_t size = 0;  // 0: there is none
};
Figure figure_at(std::string_view text);
// "nan", "-Infinity"; `word` has no sign.
std::optional<double> not_finite(std::string_view word, bool negative);

// The line with N for each number, or STEP and LOSS for those at these bytes. Of a character several times in a row (a
// bar, blanks) one remains.
std::string shape_of(std::string_view line, std::optional<size_t> step = {}, std::optional<size_t> loss = {});
// A regular expression for lines like this one: its first whole number is the step, its first other one the loss.
std::string pattern_for(std::string_view line);

}  // namespace harness
