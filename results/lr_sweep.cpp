#include "results/lr_sweep.h"

namespace ablations {

template files::Json json_of(const LearningRateSweep&);
template LearningRateSweep value_from(const files::Json&, const std::string&);

}  // namespace ablations
