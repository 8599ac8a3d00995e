// What the words and numbers of a study's page mean.
#pragma once

#include "ablations/documents/study.h"
#include "ablations/documents/words.h"

#include <vector>

namespace ablations {

std::vector<Term> how_to_read(const Study& study);

}  // namespace ablations
