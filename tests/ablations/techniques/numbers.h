// A text that needs no vocabulary.
#pragma once

#include "model/data.h"

#include <cstdint>
#include <vector>

namespace numbers {

// `count` token numbers of GPT-2's vocabulary, the same each time.
inline model::TokenStream text(int64_t count = 2000) {
  model::TokenStream stream;
  for (int64_t i = 0; i < count; ++i) stream.tokens.push_back(static_cast<uint16_t>(i * 31 % 50257));
  return stream;
}

// Of 97 numbers again and again, which a model learns.
inline model::TokenStream text_that_repeats(int64_t count = 2000) {
  model::TokenStream stream{.source = "made up"};
  for (int64_t i = 0; i < count; ++i) stream.tokens.push_back(static_cast<uint16_t>(i * i % 97 * 500));
  return stream;
}

}  // namespace numbers
