// libFuzzer's side of one target, FUZZ_TARGET (https://llvm.org/docs/LibFuzzer.html). Whatever a target throws ends the
// program, which is how libFuzzer learns of a finding. Documents are also changed value by value: changes of bytes
// alone rarely leave JSON behind.
#include "fuzz/mutate.h"
#include "fuzz/targets.h"

#include <ATen/Parallel.h>

#include <cstring>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  at::set_num_threads(1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::Target target = fuzz::targets().at(FUZZ_TARGET);
  (void)target({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  static const std::vector<std::string>& words = fuzz::words_of(FUZZ_TARGET);
  fuzz::Random random(seed);
  const bool by_value = !words.empty() && random() % 4 > 0;
  if (!by_value && random() % 2 > 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string before(reinterpret_cast<const char*>(data), size);
  const std::string after = by_value ? fuzz::damaged_json(before, words, random) : fuzz::damaged_bytes(before, random);
  if (after.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, after.data(), after.size());
  return after.size();
}
