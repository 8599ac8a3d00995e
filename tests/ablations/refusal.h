// What a call is refused with, and whether a text has a part.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace refusals {

template <class Call>
std::string refusal_of(const Call& call) {
  try {
    (void)call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

inline testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "no \"" << part << "\" in: " << text;
}

}  // namespace refusals
