#include "results/observations.h"

namespace ablations {

int64_t count(const Counts& counts, const std::string& name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

template files::Json json_of(const Observations&);
template Observations value_from(const files::Json&, const std::string&);

}  // namespace ablations
