// The request is right, but this machine cannot do it: no GPU, no permission, another tool in the way. Ends with exit
// status 3.
#pragma once

#include <stdexcept>

namespace harness {

class Unfit : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace harness
