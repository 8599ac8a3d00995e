#include "ablations/documents/training_report.h"

namespace ablations {

template files::Json json_of(const TrainingReport&);

}  // namespace ablations
