// Why something refuses what it is given.
#pragma once

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
