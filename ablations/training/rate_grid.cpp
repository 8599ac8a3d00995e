#include "ablations/training/rate_grid.h"

#include "files/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace ablations {

namespace {

constexpr int64_t most_rates = 100;  // as the schema of a sweep has it
constexpr double lowest_rate = 1e-30, highest_rate = 1e30;

// None: the text is no such number.
template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::vector<double> rates_of(const std::string& text) {
  const size_t first = text.find(':'), second = first == std::string::npos ? first : text.find(':', first + 1);
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(
        fmt::format("--lr-sweep must be MIN:MAX:COUNT, such as 1e-5:1e-1:9, {}, got {}", why, files::in_quotes(text)));
  };
  if (second == std::string::npos) refuse("three numbers with colons between them");
  const std::string_view view = text;
  const auto least = number_in<double>(view.substr(0, first));
  const auto most = number_in<double>(view.substr(first + 1, second - first - 1));
  const auto count = number_in<int64_t>(view.substr(second + 1));
  if (!least || !most || !(*least >= lowest_rate && *least < *most && *most <= highest_rate)) {
    refuse(fmt::format("with rates between {:g} and {:g} and MIN below MAX", lowest_rate, highest_rate));
  }
  if (!count || *count < 2 || *count > most_rates) refuse(fmt::format("with a COUNT between 2 and {}", most_rates));
  std::vector<double> rates{*least};
  for (int64_t i = 1; i < *count - 1; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(*count - 1);
    rates.push_back(std::stod(fmt::format("{:.3g}", *least * std::pow(*most / *least, share))));
  }
  rates.push_back(*most);
  if (std::ranges::adjacent_find(rates, std::greater_equal<>()) != rates.end()) {
    refuse("with rates that differ in their first three digits");
  }
  return rates;
}

}  // namespace ablations
