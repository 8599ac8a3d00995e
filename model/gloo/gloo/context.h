// Declarations only. LibTorch's wheel has c10d's ProcessGroupGloo.hpp, and a library with Gloo in it, but not Gloo's
// own headers, which that header includes. c10d's classes hold Gloo's objects by pointers alone, and data_parallel.cpp
// hands such pointers on without looking into them. So these few declarations are all that the compiler needs. Only
// data_parallel.cpp sees this folder.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
