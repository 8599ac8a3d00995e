// Figures within sentences, as pages write them. The terminal's tables have their own, which fit their columns.
#pragma once

#include "text/rooms.h"

#include <cstdint>
#include <string>

namespace text {

// A share: "47.3 %".
std::string percent(double share);

// "2.61×". A change that two decimals would hide keeps three: "0.998×".
std::string times(double ratio);

// A figure that is no time: "12,345" "12" "0.0031".
std::string plain(double value);

// Three significant digits, never fewer than the whole number: "1,512" "57.9" "0.579".
std::string digits3(double value);

// "1,512 ms".
std::string in_ms(double value);

// "2.55× – 2.68×", or "unknown" for an interval that is too wide to say anything.
std::string times_between(double lo, double hi);
bool tells_nothing(double lo, double hi);

// Joules: "1.23 J" "45.6 mJ".
std::string energy(double joules);

// With K, M, G or T: "16.4K".
std::string abbreviated(double value);

// How long something lasts: "0:07" "12:05" "1:02:05".
std::string clock_time(double seconds);

// "3 runs", "1 run".
std::string number_of(int64_t things, const std::string& one);

// "792 TFLOP/s", "62.7 GFLOP/s"
std::string flops_text(double flops_per_s);

}  // namespace text
