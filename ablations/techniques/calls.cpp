#include "ablations/techniques/calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace ablations {

const StepCalls* counted_calls(const Observations& observations) {
  const auto& calls = observations.cuda_calls;
  return calls && !calls->unavailable ? &*calls : nullptr;
}

harness::CudaCalls by_name(const StepCalls& calls) {
  return {.calls = calls.calls.value_or(Counts()), .unavailable = ""};
}

std::string in_words(const Counts& calls) {
  std::vector<std::string> words;
  for (const auto& [name, count] : calls) words.push_back(fmt::format("{} {}", count, name));
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace ablations
