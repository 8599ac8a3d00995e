#include "results/ladder.h"

namespace ablations {

template files::Json json_of(const Ladder&);
template Ladder value_from(const files::Json&, const std::string&);

}  // namespace ablations
