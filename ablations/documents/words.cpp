#include "ablations/documents/words.h"

namespace ablations {

template files::Json json_of(const StudyWords&);
template StudyWords value_from(const files::Json&, const std::string&);

}  // namespace ablations
