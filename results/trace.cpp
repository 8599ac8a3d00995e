#include "results/trace.h"

namespace ablations {

template files::Json json_of(const TraceDocument&);
template TraceDocument value_from(const files::Json&, const std::string&);

}  // namespace ablations
