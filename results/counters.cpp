#include "results/counters.h"

namespace ablations {

template files::Json json_of(const CountersDocument&);
template CountersDocument value_from(const files::Json&, const std::string&);

}  // namespace ablations
