// Damage for files: what the readers' tests and the fuzzers put into them. The same random numbers give the same damage
// with every standard library, so a failure that names its seed can be repeated.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

using Random = std::mt19937_64;  // its numbers are the same everywhere; those of std's distributions are not

// One to three small changes: bits, bytes, stretches, lengths at the front, numbers, the end.
std::string damaged_bytes(std::string bytes, Random& random);

// A JSON document that is still one, with one to three values in it changed for others: of other types, extreme, long,
// from elsewhere in the document, or one of `words`. Text that is no JSON comes back as damaged_bytes.
std::string damaged_json(const std::string& text, const std::vector<std::string>& words, Random& random);

}  // namespace fuzz
