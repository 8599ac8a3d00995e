// How a GPU's products are made, the same in all runs of a study: what the first run chooses by timing, later ones take
// from the file that $LADDER_PRODUCTS names. Without the variable nothing is read or written.
#pragma once

namespace ablations {

// From the file, if it is there and was written with this GPU and this cuBLASLt. Throws std::invalid_argument for a
// file that is none.
void keep_study_choices();

// This process's choices, after those that are in the file.
void write_study_choices();

}  // namespace ablations
