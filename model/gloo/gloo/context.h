// Declarations only, which only data_parallel.cpp sees. LibTorch's wheel has c10d's ProcessGroupGloo.hpp, and a library
// with Gloo in it. That header includes Gloo's own headers, which the wheel lacks. The classes of c10d hold Gloo's
// objects by pointers alone, and data_parallel.cpp only hands such pointers on. So these few declarations are all that
// the compiler needs.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
