#include "results/workload.h"

namespace ablations {

template files::Json json_of(const Workload&);
template Workload value_from(const files::Json&, const std::string&);

}  // namespace ablations
