// A technique is one field of the recipe with everything about it. It knows the optimizations that edit it, what can
// prevent them, its proof, how far losses may differ under it, and its text. A run observes the field as observers.h
// says. To add one: the field in model/recipe.h, its effect in model/, its folder here, its name in techniques.cpp, a
// test.
#pragma once

#include "ablations/techniques/step_table.h"
#include "harness/machine/machine.h"
#include "model/recipe.h"
#include "results/common.h"
#include "results/observations.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// What others have claimed of a technique.

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

// A named edit of the recipe. A ladder applies one after another. Its text for new readers is the file NAME.md in the
// folder of its field.
struct Optimization {
  std::string name;                        // in ladder files: "bf16"
  std::string title;                       // in tables: "bf16 autocast"
  std::string summary;                     // two sentences for a newcomer
  std::vector<std::string> needs = {};     // optimizations that must come before
  std::vector<std::string> excludes = {};  // optimizations that must not have come before
  std::function<void(model::Recipe&, const harness::Machine&)> edit;
  // Why it is of no use on this machine on top of this recipe, although the resulting recipe may be possible. Null: it
  // is useful everywhere.
  std::function<std::string(const model::Recipe&, const harness::Machine&)> pointless = nullptr;
  // The title of a rung after its proof, if that depends on the machine. nullptr, or empty: `title`.
  std::function<std::string(const Observations&)> title_seen = nullptr;
  std::vector<Claim> claims = {};
  // The day since which its code on a GPU is another; records before it are an older program's.
  std::string rewritten = {};
  // The operations that it replaces (trace_run.h), and what its own are called. "mlp" and "fused" make mlp_fused among
  // the micro benchmarks.
  std::vector<std::string> replaces = {};
  std::string by = {};
  // Two micro benchmarks whose ratio a report shows: what it replaces, and its own. Empty: it has none.
  std::string micro_below = {}, micro = {};

  // Why it cannot be applied on this machine on top of this recipe: from `pointless`, or recipe_obstacle of the
  // resulting recipe. Empty if it can.
  [[nodiscard]] std::string obstacle(const model::Recipe& recipe, const harness::Machine& machine) const;

  // Whether this optimization is on in the recipe.
  [[nodiscard]] bool is_on(const model::Recipe& recipe, const harness::Machine& machine) const;
};

// The facts that a proof uses.
struct RunFacts {
  Observations observations;
  double page_faults_per_step = 0;  // median of the timed steps
  int64_t peak_bytes = 0;
  int64_t attentions = 0;  // in a step: one for each layer and micro-step
};

struct Technique {
  std::string field;  // of the recipe: "attention"
  std::vector<Optimization> optimizations = {};

  // Why a step cannot be executed with the recipe's value of the field on this machine; empty: it can. For a GPU's
  // recipe it is called only if there is a GPU.
  std::function<std::string(const model::Recipe&, const harness::Machine&)> obstacle = nullptr;

  // How far the losses of two correct programs may differ because of the field's value alone, in nats.
  std::function<double(const model::Recipe&)> tolerance = nullptr;

  // Changes what a step computes, moves and keeps in memory, as the recipe's value of the field does.
  std::function<void(const StepSizes&, StepTable&)> amend = nullptr;

  // Whether the run did what the field says, also for its plain value; none if the field has no meaning on the recipe's
  // device.
  std::function<std::optional<Proof>(const model::Recipe&, const RunFacts&)> prove;
};

}  // namespace ablations
