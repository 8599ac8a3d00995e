#include "results/history.h"

namespace ablations {

template files::Json json_of(const History&);
template History value_from(const files::Json&, const std::string&);

}  // namespace ablations
