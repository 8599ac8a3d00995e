#include "results/training_report.h"

namespace ablations {

template files::Json json_of(const TrainingReport&);
template TrainingReport value_from(const files::Json&, const std::string&);

}  // namespace ablations
