// What is said of a sweep of learning rates, by the terminal and by its page alike.
#pragma once

#include "ablations/documents/lr_sweep.h"

namespace ablations {

// Of a sweep that was judged (training/rate_verdict.h): the sweep with its words and those of its rates.
LearningRateSweep with_words(LearningRateSweep sweep);

}  // namespace ablations
