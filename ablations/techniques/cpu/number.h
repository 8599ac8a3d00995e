// The type of a matrix's numbers.
#pragma once

namespace model::cpu {

enum class Number { f32, bf16 };

}  // namespace model::cpu
