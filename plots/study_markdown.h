// A study as people paste it into a pull request: the verdict first, the command that repeats it last.
#pragma once

#include "results/study.h"

#include <string>

namespace plots {

std::string study_markdown(const Study& study);

}  // namespace plots
