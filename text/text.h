// Text in tables and messages: as wide as the terminal, wrapped, numbers shortened.
#pragma once

#include "text/style.h"

#include <string>

namespace ablations {

// Of every table and message: those of the terminal on standard output, from 60 to 140; 80 where there is none.
size_t columns();

// At most columns() wide, broken at spaces, and within a word that is longer than a line; continuation lines begin with
// `indent`.
std::string wrapped(const std::string& text, const std::string& indent = "");

// With a capital letter first.
std::string capitalized(std::string text);

double gib(auto bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

// "1,493" "61.2" "0.84": three significant digits or more.
std::string number(double value);

}  // namespace ablations
