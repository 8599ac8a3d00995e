// The ways to make a study of a ladder. Its optimizations on top of each other, each left out, each alone, or every
// subset. Some rungs over a range of sizes. PyTorch can do the same work beside them. Each way gives rungs that say
// what they are compared with.
#pragma once

#include "ablations/gpt2/ladder_file.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// The flags' texts. Empty means not given.
struct DesignFlags {
  std::string mode, factors, sweep, peer, peer_modes;
  std::vector<std::string> rungs, peer_rungs, peer_torches;  // peer_torches: versions of --peer-python's
};

struct Design {
  Mode mode = Mode::cumulative;
  std::vector<std::string> factors;       // factorial: optimizations; empty: all that apply
  std::optional<Swept> swept;             // sweep
  std::vector<int64_t> values;            // sweep
  std::vector<std::string> rungs;         // sweep: of the ladder, the first guards the others; empty: its last
  std::vector<std::string> peer_modes;    // "eager", "compile", ...; empty: no peer
  std::vector<std::string> peer_rungs;    // cumulative: those that have a twin of each mode; empty: the last
  std::vector<std::string> peer_torches;  // versions, each of which runs the modes; empty: the program's own Python
};

// Throws std::invalid_argument that names the flag, its value and what is allowed.
Design design_of(const DesignFlags& flags, const harness::Machine& machine);

// The rungs of a study. `shape`: the plan's. Rung 0, or in a cumulative ladder the first planned one, is the reference.
// Throws std::invalid_argument for an unknown factor or rung, or an impossible subset. Throws harness::Unfit for a rung
// that does not apply here.
std::vector<Rung> rungs_of(const Ladder& ladder, const Design& design, const Shape& shape,
                           const harness::Machine& machine, const Choose& choose = nullptr);

// "PyTorch 2.15 compile" for "pytorch-2.15-compile".
std::string peer_title(const std::string& peer);

}  // namespace ablations
