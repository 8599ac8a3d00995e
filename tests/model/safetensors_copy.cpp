// Reads one safetensors file and writes its tensors to another: `safetensors_copy in out`, for test_safetensors.py.
// Exits with status 2 and one line on the standard error where the input is refused.
#include "model/safetensors.h"

#include <exception>
#include <iostream>
#include <stdexcept>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: safetensors_copy in out\n";
    return 2;
  }
  try {
    model::write_safetensors(argv[2], model::read_safetensors(argv[1]), {{"format", "pt"}});
  } catch (const std::invalid_argument& error) {
    std::cerr << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
