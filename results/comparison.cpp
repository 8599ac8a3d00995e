#include "results/comparison.h"

namespace ablations {

template files::Json json_of(const Comparison&);
template Comparison value_from(const files::Json&, const std::string&);

}  // namespace ablations
