// Why something refuses what it is given, and whether a text has a part.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

// The message of the error that `call` throws; "accepted" where it throws none.
template <class Error = std::invalid_argument, class Call>
std::string refusal_of(const Call& call) {
  try {
    (void)call();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

inline testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "no \"" << part << "\" in: " << text;
}
