// libFuzzer's side of one target, FUZZ_TARGET (https://llvm.org/docs/LibFuzzer.html). Whatever a target throws ends the
// program, which is how libFuzzer learns of a finding. Documents are also changed value by value: changes of bytes
// alone rarely leave JSON behind.
#include "fuzz/edits.h"
#include "fuzz/mutate.h"
#include "fuzz/targets.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  at::set_num_threads(1);
  // The first folder is the corpus, and not read yet: the seeds that are no files join it.
  namespace fs = std::filesystem;
  char** const end = *argv + *argc;
  char** const corpus = std::find_if(*argv + 1, end, [](const char* word) { return fs::is_directory(word); });
  for (const fuzz::Edit& edit : fuzz::edits()) {
    if (corpus != end && edit.kind == FUZZ_TARGET) std::ofstream(fs::path(*corpus) / edit.name) << edit.bytes();
  }
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
