// What there is to tell of a technique: to a reader who has just met it, and what others have claimed of it.
#pragma once

#include "model/recipe.h"

#include <string>

namespace ablations {

// For docs/techniques.md and the report's sections of rungs. Paragraphs with a blank line between them, in which `...`
// is code and nothing else is markup; lines that begin with four spaces are a block of figures or code.
struct Text {
  std::string mechanism;   // what moves and what is computed, with one small example
  std::string faster;      // why that is faster; empty: it is not meant to be
  std::string costs;       // memory, accuracy, conditions
  std::string no_help;     // when it does not help
  std::string pytorch;     // the lines of PyTorch that a reader knows it by
  std::string proven;      // how a run shows that it was on
  std::string alone = {};  // the commands that try it by itself; empty: made from its name (report/techniques_page.h)
};

// A figure that somebody has published. What the records say of it: report/claims.h.
struct Claim {
  enum class About { step, activations, peak, other };  // the time of a step; two sorts of memory

  std::string claim;                           // "333 -> 300 ms per step"
  std::string source;                          // who says so, on what machine
  About about = About::other;                  // what a rung of a study must be asked for
  double least = 0, most = 0;                  // how many times less of that there is said to be; not of `other`
  model::Device device = model::Device::cuda;  // of the source
  std::string note = {};                       // what must be known before it is compared with anything
  std::string wrong = {};                      // why it cannot be so; empty: it can
  std::string command = {};                    // what would measure it; empty: the ladder that has the rung
};

namespace sources {

inline constexpr const char* lecture = "a lecture that reproduces GPT-2; B=16, T=1024, A100-class GPU";
inline constexpr const char* notes =
    "notes on a 16x training speedup; a model of 134M, 64 x 512 tokens, A100-class GPU";
inline constexpr const char* blog = "PyTorch's blog on accelerating language models; nanoGPT, T=1024, A100 80GB";
inline constexpr const char* llm_c = "the history of llm.c, GPT-2 in plain CUDA";
inline constexpr const char* hearsay = "notes on training, by several hands";
inline constexpr const char* trials = "trials before this project; GPT-2 124M, two-core CPUs with avx512_bf16";

}  // namespace sources

}  // namespace ablations
