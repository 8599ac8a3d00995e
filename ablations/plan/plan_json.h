// A plan as the document in its study's folder (results/schemas/plan.v1.json).
#pragma once

#include "ablations/plan/plan.h"
#include "files/json_file.h"

#include <string>

namespace ablations {

// The field "ladder" of plans and studies.
files::Json ladder_json(const Plan& plan);

files::Json to_json(const Plan& plan);
// Throws std::invalid_argument where the document contradicts itself; `where` begins the message.
Plan plan_from_json(const files::Json& json, const std::string& where);

}  // namespace ablations
