// A study most of whose runs were disturbed: its times are shown, but nothing that follows from them.
#pragma once

#include "ablations/documents/study.h"

#include <string>

namespace ablations {

// Of such a study without ratios, worths, headline and notes; any other as it is.
Study without_claims(Study study);

// "Not usable: other work ran during 32 of 32 runs", and "Stop the other work and begin a new study."; empty for any
// other study.
std::string unusable_words(const Study& study);
std::string remedy_words(const Study& study);

}  // namespace ablations
