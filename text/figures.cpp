#include "text/figures.h"

#include "text/text.h"

#include <fmt/format.h>

#include <cmath>

namespace text {

std::string percent(double share) { return fmt::format("{:.3g} %", 100 * share); }

std::string times(double ratio) {
  if (ratio != 0 && ratio < 0.0995) return fmt::format("{:.3g}\u00d7", ratio);
  const std::string text = number(ratio);
  return (text == "1.00" && ratio != 1 ? fmt::format("{:.3f}", ratio) : text) + "\u00d7";
}

std::string plain(double value) { return std::abs(value) >= 100 ? number(value) : fmt::format("{:.3g}", value); }

std::string digits3(double value) {
  if (value == 0) return "0";
  if (std::abs(value) < 0.09995) return fmt::format("{:.3g}", value);
  return std::abs(value) < 0.9995 ? fmt::format("{:.3f}", value) : number(value);
}

std::string in_ms(double value) { return digits3(value) + " ms"; }

bool tells_nothing(double lo, double hi) { return hi >= 10 * lo; }

std::string times_between(double lo, double hi) {
  return tells_nothing(lo, hi) ? "unknown" : fmt::format("{} \u2013 {}", times(lo), times(hi));
}

std::string energy(double joules) { return joules >= 1 ? digits3(joules) + " J" : digits3(1000 * joules) + " mJ"; }

std::string abbreviated(double value) {
  double unit = 1;
  for (const char* name : {"", "K", "M", "G"}) {
    if (std::abs(value) < 999.5 * unit) return digits3(value / unit) + name;
    unit *= 1000;
  }
  return digits3(value / unit) + "T";
}

std::string clock_time(double seconds) {
  const int64_t whole = std::llround(seconds);
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string number_of(int64_t things, const std::string& one) {
  const std::string count = things < 1000 ? std::to_string(things) : number(static_cast<double>(things));
  return fmt::format("{} {}{}", count, one, things == 1 ? "" : "s");
}

std::string flops_text(double flops_per_s) {
  return flops_per_s < 1e12 ? number(flops_per_s / 1e9) + " GFLOP/s" : number(flops_per_s / 1e12) + " TFLOP/s";
}

}  // namespace text
