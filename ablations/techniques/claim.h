// What others have claimed of a technique.
#pragma once

#include "model/recipe.h"

#include <optional>
#include <string>

namespace ablations {

// Who says so, on what machine.
struct ClaimSource {
  std::string name;
  std::string url = {};  // empty: it can be looked up nowhere, as an author's notes
};

// A figure that somebody has published. plots/claims.h compares it with the records.
struct Claim {
  // Times: of a rung's step against the rung below's, of a step, of its batch, of a rung's step against the first's.
  // Two sorts of memory. Kernels that a step launches.
  enum class About { step, milliseconds, batch, ladder, activations, peak, kernels, other };

  std::string claim;  // "333 -> 300 ms per step"
  ClaimSource source;
  About about = About::other;  // which figure of a rung it is about
  double least = 0, most = 0;  // how many times smaller it is claimed to become; 0: no one figure can be compared
  model::Device device = model::Device::cuda;  // of the source
  std::string note = {};                       // what to know before comparing it
  std::string wrong = {};                      // why it cannot be true; empty: it can
  std::optional<std::string> command = {};     // measures it; empty: nothing here does; none: the ladder with the rung
  std::string shown = {};                      // for `other`: what a record shows of it, and which
  std::string until = {};                      // for `ladder`: the optimization at which the claim's ladder ends
};

namespace sources {

inline const ClaimSource lecture{"Karpathy's lecture on GPT-2; A100-class, B=16 T=1024",
                                 "https://github.com/karpathy/build-nanogpt"};
inline const ClaimSource lecture_notes{"notes on that lecture"};
inline const ClaimSource notes{"notes on a 16x speedup; A100-class, 134M, 64 x 512 tokens"};
inline const ClaimSource blog{"PyTorch's blog; nanoGPT, A100, T=1024",
                              "https://pytorch.org/blog/accelerating-large-language-models/"};
inline const ClaimSource llm_c{"llm.c, its history", "https://github.com/karpathy/llm.c"};

}  // namespace sources

}  // namespace ablations
