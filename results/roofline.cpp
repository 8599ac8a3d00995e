#include "results/roofline.h"

namespace ablations {

template files::Json json_of(const Roofline&);
template Roofline value_from(const files::Json&, const std::string&);

}  // namespace ablations
