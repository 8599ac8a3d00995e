// The Pythons that --peer-python names: who runs a study's peers in place of the program's own Python.
#pragma once

#include "results/plan.h"

#include <filesystem>
#include <string>
#include <vector>

namespace cli {

struct PeerPython {
  std::string torch;  // short_version of its PyTorch
  std::filesystem::path program;
};

// Starts each one to ask for the version of its PyTorch. `named`: as on the command line, paths or names on PATH. A
// study's folder never names one, because it may come from a stranger. Throws std::invalid_argument that says what to
// do for one that has no PyTorch which the peer's script can use, and for two of the same version.
std::vector<PeerPython> peer_pythons(const std::vector<std::string>& named);

// Throws std::invalid_argument unless these are the versions that the plan in `out` was made for.
void check_are_of(const Plan& plan, const std::vector<PeerPython>& pythons, const std::string& out);

}  // namespace cli
