#include "results/gate.h"

namespace ablations {

template files::Json json_of(const GateResult&);
template GateResult value_from(const files::Json&, const std::string&);

}  // namespace ablations
