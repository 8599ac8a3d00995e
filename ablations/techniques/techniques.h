// The registry: every technique, and every optimization that a ladder may name.
#pragma once

#include "ablations/techniques/technique.h"

#include <string>
#include <vector>

namespace ablations {

// One for each field of the recipe, in the order of their proofs.
const std::vector<Technique>& techniques();

// Those of all techniques.
const std::vector<Optimization>& optimizations();

// What is claimed of techniques that no file here has yet.
const std::vector<Claim>& claims_not_here();

// nullptr for an unknown name.
const Optimization* find_optimization(const std::string& name);

// Whether somebody who typed this means what has that name and title: in any case, with or without the "+ " of tables,
// and also by the title that a proof has made of it ("oneDNN float32 products" is meant for "oneDNN products").
bool is_meant(const std::string& typed, const std::string& name, const std::string& title);

// What a rung is to be called after its proof (Optimization::title_seen). `observations` of one of its runs.
std::string title_after_proof(const Optimization& optimization, const Observations& observations);

// Why a step cannot be executed as the recipe says on this machine; empty where it can. Asked before a run, so that
// nothing falls back to something else and nothing fails half-way.
std::string recipe_obstacle(const model::Recipe& recipe, const harness::Machine& machine);

// By how much the losses of two right programs may differ, in nats: by the coarser of the number types that the two
// recipes compute in. Nothing else of the recipes counts, nor what came before them on a ladder.
double tolerance_between(const model::Recipe& recipe, const model::Recipe& reference);

// What the recipe adds to the loss of a right program over that of the reference, in nats, at most: padding rows of the
// vocabulary add to the softmax until training has made them small.
double known_offset(const model::Recipe& recipe, const model::Recipe& reference);

// A proof of each field of the recipe that has a meaning on its device, plain values included. What counts is what a
// run was seen to do: the error of a product, the node that attention left in the autograd graph, the operations and
// library calls that were made, the page faults that were not. A flag that was set proves nothing.
std::vector<Proof> prove(const model::Recipe& recipe, const RunFacts& facts);

}  // namespace ablations
