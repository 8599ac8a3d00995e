#include "results/mfu.h"

namespace ablations {

template files::Json json_of(const Mfu&);
template Mfu value_from(const files::Json&, const std::string&);

}  // namespace ablations
