// The registry: every technique, and every optimization that a ladder may name.
#pragma once

#include "ablations/techniques/technique.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

// One for each field of the recipe, in the order of their proofs.
const std::vector<Technique>& techniques();

// Those of all techniques.
const std::vector<Optimization>& optimizations();

// nullptr for an unknown name.
const Optimization* find_optimization(const std::string& name);

// The file of its text for new readers, below files::resource_root(): "ablations/techniques/attention/flash.md".
// `name`: of an optimization, or of a field that none edits.
std::string text_file(const std::string& name);

// Whether a typed text means the optimization of that name and title. It is the name, or begins with the title's first
// word and has the title's other words, in any order. Other words may be among them: a proof adds some ("oneDNN float32
// products" for "oneDNN products"). Neither case nor the "+" of tables counts.
bool matches_name(const std::string& typed, const std::string& name, const std::string& title);

// The title of a rung after its proof (Optimization::title_seen). `observations`: of one of its runs.
std::string title_after_proof(const Optimization& optimization, const Observations& observations);

// Why a step cannot be executed as the recipe says on this machine; empty if it can. Checked before a run, so that
// nothing falls back silently or fails half-way.
std::string recipe_obstacle(const model::Recipe& recipe, const harness::Machine& machine);

// Why batches cannot be made so of the data, a text or a token file; empty: they can.
std::string batches_obstacle(model::Batches batches, const std::filesystem::path& data);

// What a correct program's losses are. The tolerance is the widest that a technique gives the recipe, and at least
// 1e-3, float32's. The offset is the logarithm of how many times as many columns as words the softmax has. Padding rows
// of the vocabulary are columns, except where the fused loss leaves them out. A peer has no such loss.
ExpectedLosses expected_losses(const model::Recipe& recipe, bool of_peer = false);

// A proof of each field of the recipe that has a meaning on its device, also for plain values. Only observations of the
// run count: the error of a product, attention's node in the autograd graph, operations, library calls, page faults. A
// flag that was set proves nothing.
std::vector<Proof> prove(const model::Recipe& recipe, const RunFacts& facts);

}  // namespace ablations
