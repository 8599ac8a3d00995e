#include "results/baseline.h"

namespace ablations {

template files::Json json_of(const Baseline&);
template Baseline value_from(const files::Json&, const std::string&);
template files::Json json_of(const Noise&);
template Noise value_from(const files::Json&, const std::string&);

}  // namespace ablations
