// What a study leads with, in words: its headline, and the figures behind it.
#pragma once

#include "results/study.h"

#include <string>
#include <vector>

namespace plots {

// "12.3× faster than float32 on the same GPU". Of a program beside the last rung that is clearly faster, that is said.
std::string headline_of(const Study& study);

// The figures from reference to lead, what brought most of them and what costs time, the speed next to PyTorch.
std::vector<std::string> lines_of(const Study& study);

}  // namespace plots
