// Why a document does not follow its schema, in terms of its fields. Whether it does, valijson decides.
#pragma once

#include "files/json_file.h"

#include <string>

namespace files {

// "field [timing][step_ms][2]: must be at least 1e-06, got 0.0"; empty where none is found.
[[nodiscard]] std::string schema_fault(const Json& document, const Json& schema);

// A value for a message of one line.
[[nodiscard]] std::string shown_value(const Json& value);

}  // namespace files
