// The text of a technique for new readers, and what others have claimed of it.
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

// A figure that somebody has published. report/claims.h compares it with the records.
struct Claim {
  enum class About {
    step,
    batch,
    activations,
    peak,
    other
  };  // two times, of a step and its batch; two sorts of memory

  std::string claim;                           // "333 -> 300 ms per step"
  std::string source;                          // who says so, on what machine
  About about = About::other;                  // which figure of a rung it is about
  double least = 0, most = 0;                  // how many times smaller that is claimed to become; not for `other`
  model::Device device = model::Device::cuda;  // of the source
  std::string note = {};                       // what to know before comparing it
  std::string wrong = {};                      // why it cannot be true; empty: it can
  std::string command = {};                    // the command that measures it; empty: that of the ladder with the rung
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
