// What is said of a study of time to loss, by the terminal and by its page alike.
#pragma once

#include "ablations/documents/to_loss.h"

namespace ablations {

// Of a study that was judged (training/quality.h): the study with its words and those of its rungs.
TimeToLoss with_words(TimeToLoss study);

}  // namespace ablations
