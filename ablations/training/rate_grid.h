// The learning rates of a sweep.
#pragma once

#include <string>
#include <vector>

namespace ablations {

// Those that "MIN:MAX:COUNT" asks for, each as many times the one before. Those between the ends are rounded to three
// significant digits: so a rate that is shown is the rate that was trained with. Throws std::invalid_argument.
std::vector<double> rates_of(const std::string& text);

}  // namespace ablations
