// The rungs that each mode makes of a ladder, and what it refuses.
#include "ablations/gpt2/modes.h"

#include "ablations/plan/make_plan.h"
#include "ablations/techniques/techniques.h"
#include "files/resources.h"
#include "harness/process/unfit.h"
#include "tests/harness/machines.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace modes_test {

using namespace ablations;
using harness::Machine;
using machines::cpu;
using machines::hopper;

const Shape plain{.B = 2, .T = 8, .accumulation = 1, .positions = 64};

// Of gpt2 the rungs by PyTorch's operations, which every build has.
Ladder ladder_of(const std::string& name) {
  Ladder ladder = load_ladder(name);
  if (name == "gpt2") ladder.rungs.erase(std::ranges::find(ladder.rungs, "packed_attention"), ladder.rungs.end());
  return ladder;
}

std::vector<Rung> made(const std::string& ladder, const DesignFlags& flags, const Machine& machine) {
  return rungs_of(ladder_of(ladder), design_of(flags, machine), plain, machine);
}

std::string refusal(const std::string& ladder, const DesignFlags& flags, const Machine& machine) {
  try {
    return refusal_of([&] { return made(ladder, flags, machine); });
  } catch (const harness::Unfit& error) {
    return std::string("unfit: ") + error.what();
  }
}

const Rung& named(const std::vector<Rung>& rungs, const std::string& name) {
  for (const Rung& rung : rungs) {
    if (name_of(rung) == name) return rung;
  }
  throw std::runtime_error("no rung " + name);
}

// A study judges a rung and tells of it by what stands in the plan.
TEST(Rungs, SayWhatAStudyNeedsToKnowOfThem) {
  const DesignFlags peers{.peer = "pytorch", .peer_modes = "eager,fp8", .peer_rungs = {"vocab"}};
  for (const DesignFlags& flags : {DesignFlags{}, DesignFlags{.mode = "leave-one-out"}, peers}) {
    for (const Rung& rung : made("gpt2", flags, hopper)) {
      SCOPED_TRACE(name_of(rung));
      const ExpectedLosses expected = expected_losses(recipe_of(rung), !rung.peer.empty());
      const bool is_fp8 = rung.peer == "pytorch-fp8";
      EXPECT_EQ(rung.losses.value().tolerance, is_fp8 ? 2e-2 : expected.tolerance);
      EXPECT_EQ(rung.losses->offset, expected.offset);
      EXPECT_FALSE(rung.summary.empty());
      EXPECT_EQ(rung.text.empty(), rung.optimization.empty());
      EXPECT_TRUE(std::filesystem::is_regular_file(files::resource_root() / rung.text) || rung.text.empty());
    }
  }
  EXPECT_GT(named(made("gpt2", {}, hopper), "vocab").losses->offset, 0);
  EXPECT_EQ(named(made("gpt2", {.mode = "leave-one-out"}, hopper), "full").summary,
            "Every optimization of the ladder that applies on this machine.");
}

TEST(LeaveOneOut, FullWithoutEachIsGuardedByTheBaseAndComparedWithFull) {
  const auto rungs = made("gpt2", {.mode = "leave-one-out"}, hopper);
  ASSERT_EQ(rungs.size(), 9U);  // gpu, full, and full without each of the seven after gpu
  EXPECT_EQ(rungs[0].optimization, "gpu");
  EXPECT_FALSE(rungs[0].reference);
  EXPECT_EQ(rungs[1].recipe, climb(ladder_of("gpt2"), hopper).back().recipe);
  for (size_t i = 2; i < rungs.size(); ++i) {
    EXPECT_EQ(rungs[i].reference, 0U);
    EXPECT_EQ(rungs[i].against, 1U);
    EXPECT_EQ(rungs[i].applied.size(), rungs[i].optimization == "bf16" ? 6U : 7U) << rungs[i].title;  // see below
    EXPECT_EQ(std::ranges::count(rungs[i].applied, rungs[i].optimization), 0) << rungs[i].title;
  }
  // The edits are made anew: without bf16 the fastest attention is another.
  EXPECT_EQ(recipe_of(named(rungs, "without-bf16")).attention, model::Attention::efficient);
  EXPECT_EQ(recipe_of(named(rungs, "without-bf16")).autocast, model::Autocast::off);
  EXPECT_EQ(recipe_of(named(rungs, "without-bf16")).residual, model::Residual::float32);
  EXPECT_EQ(recipe_of(named(rungs, "without-bf16")).execution, model::Execution::graph);
  EXPECT_EQ(std::ranges::count(named(rungs, "without-bf16").applied, "residual16"), 0);  // not on: it changes nothing
}

TEST(LeaveOneOut, WhatOthersNeedAndWhatChangesNothingStay) {
  const auto rungs = made("tiny", {.mode = "leave-one-out"}, hopper);  // counts from the CPU: gpu is one of them
  const Rung& gpu = named(rungs, "without-gpu");
  EXPECT_EQ(gpu.status, Rung::Status::not_applicable);
  EXPECT_EQ(gpu.reason, "others need it: \"graph\": needs \"gpu\"");
  const Rung& foreach = named(rungs, "without-foreach");  // fused_adamw comes after it
  EXPECT_EQ(foreach.status, Rung::Status::not_applicable);
  EXPECT_NE(foreach.reason.find("changes nothing"), std::string::npos);
}

TEST(OneAtATime, EachAloneIsComparedWithTheBase) {
  const auto rungs = made("gpt2-cpu", {.mode = "one-at-a-time"}, cpu);
  ASSERT_EQ(rungs.size(), 7U);
  for (size_t i = 1; i < rungs.size(); ++i) {
    EXPECT_EQ(rungs[i].applied, std::vector<std::string>{rungs[i].optimization});
    EXPECT_EQ(recipe_diff(rungs[0].recipe, rungs[i].recipe).size(), 1U);
    EXPECT_EQ(rungs[i].against, 0U);
    EXPECT_EQ(rungs[i].reference, 0U);
  }
  const auto on_gpu = made("gpt2", {.mode = "one-at-a-time"}, hopper);
  EXPECT_EQ(named(on_gpu, "residual16").status, Rung::Status::not_applicable);
  EXPECT_EQ(named(on_gpu, "residual16").reason, "by itself it changes nothing");
  EXPECT_EQ(named(on_gpu, "flash").status, Rung::Status::planned);
}

TEST(Factorial, HasEverySubsetOnce) {
  const auto rungs = made("gpt2-cpu", {.mode = "factorial", .factors = "flash,memory,bf16"}, cpu);
  ASSERT_EQ(rungs.size(), 8U);
  std::set<std::string> recipes;
  for (const Rung& rung : rungs) recipes.insert(rung.recipe.dump());
  EXPECT_EQ(recipes.size(), 8U);
  EXPECT_EQ(rungs.back().applied, (std::vector<std::string>{"memory", "bf16", "flash"}));  // the ladder's order
  EXPECT_EQ(rungs.back().title, "memory + bf16 + flash");
}

TEST(Factorial, KnowsASubsetInWhichOneChangesNothing) {
  const auto rungs = made("gpt2", {.mode = "factorial", .factors = "bf16,residual16"}, hopper);
  ASSERT_EQ(rungs.size(), 4U);
  EXPECT_EQ(named(rungs, "residual16").recipe, rungs[0].recipe);
  EXPECT_EQ(named(rungs, "residual16").applied.back(), "residual16");  // by which Shapley's value knows the subset
  EXPECT_EQ(named(rungs, "bf16-residual16").applied.size(), rungs[0].applied.size() + 2);
}

TEST(Factorial, RefusesWhatItCannotHave) {
  const auto factorial = [](const char* ladder, const char* factors, const Machine& machine) {
    return refusal(ladder, {.mode = "factorial", .factors = factors}, machine);
  };
  EXPECT_TRUE(has(factorial("gpt2-cpu", "", cpu), "choose with --factors among memory,onednn,bf16"));
  EXPECT_TRUE(has(factorial("gpt2-cpu", "bf16,tf32", cpu),
                  "--factors tf32: no such optimization; on this machine ladder gpt2-cpu has"));
  EXPECT_TRUE(
      has(factorial("gpt2", "graph", cpu), "--factors graph: no such optimization; on this machine ladder gpt2"));
  EXPECT_TRUE(
      has(factorial("tiny", "gpu,graph", hopper), "the subset graph cannot be measured: \"graph\": needs \"gpu\""));
  EXPECT_EQ(factorial("gpt2", "tf32,bf16,graph,flash,vocab,fused_adamw", hopper), "accepted");
  EXPECT_TRUE(has(factorial("tiny", "gpu,bf16,graph,flash,vocab,foreach,fused_adamw", hopper), "at most 6"));
}

TEST(Sweep, MeasuresTheLastRungAtEachValue) {
  const auto rungs = made("gpt2", {.sweep = "batch=16,32"}, hopper);
  ASSERT_EQ(rungs.size(), 2U);
  EXPECT_EQ(rungs[1].optimization, "residual16");
  EXPECT_EQ(rungs[1].shape->B, 32);
  EXPECT_EQ(rungs[1].shape->T, 8);
  EXPECT_FALSE(rungs[0].reference || rungs[1].reference);  // nothing of equal size to compare with
  EXPECT_EQ(name_of(rungs[1]), "residual16-B32");
}

TEST(Sweep, TheFirstRungNamedGuardsTheOthersAtItsValue) {
  const auto rungs = made("gpt2-cpu", {.sweep = "accumulation=1,2", .rungs = {"start", "bf16", "flash"}}, cpu);
  ASSERT_EQ(rungs.size(), 6U);
  EXPECT_FALSE(rungs[3].reference);
  EXPECT_EQ(rungs[4].reference, 3U);
  EXPECT_EQ(rungs[5].reference, 3U);
  EXPECT_EQ(rungs[5].against, 3U);
  EXPECT_EQ(rungs[5].shape->accumulation, 2);
  // The largest context gives the positions of all.
  for (const Rung& rung : made("tiny", {.sweep = "context=32,256,128"}, cpu)) EXPECT_EQ(rung.shape->positions, 256);
  for (const Rung& rung : made("tiny", {.sweep = "context=8,16"}, cpu)) EXPECT_EQ(rung.shape->positions, 64);
}

TEST(Peers, EagerRungsHaveAnEagerTwinAndTheLastHasAll) {
  const auto rungs = made("gpt2", {.peer = "pytorch"}, hopper);
  std::vector<std::string> twins;
  for (size_t i = 9; i < rungs.size(); ++i) {
    const Rung& own = rungs[*rungs[i].against];
    EXPECT_TRUE(own.peer.empty());
    EXPECT_EQ(own.recipe, rungs[i].recipe);
    twins.push_back(name_of(rungs[i]));
  }
  // From graph on the recipes are not eager; the last has one twin for each mode.
  EXPECT_EQ(twins, (std::vector<std::string>{"gpu-pytorch-eager", "tf32-pytorch-eager", "bf16-pytorch-eager",
                                             "residual16-pytorch-eager", "residual16-pytorch-compile",
                                             "residual16-pytorch-max-autotune", "residual16-pytorch-cuda-graphs"}));
  EXPECT_EQ(rungs.back().title, "PyTorch compile with CUDA graphs");
  EXPECT_EQ(made("gpt2-cpu", {.peer = "pytorch", .peer_modes = "compile"}, cpu).size(), 8U);
  const auto chosen =
      made("gpt2", {.peer = "pytorch", .peer_modes = "eager,compile", .peer_rungs = {"flash", "gpu"}}, hopper);
  twins.clear();
  for (size_t i = 9; i < chosen.size(); ++i) twins.push_back(name_of(chosen[i]));
  EXPECT_EQ(twins, (std::vector<std::string>{"gpu-pytorch-eager", "gpu-pytorch-compile", "tf32-pytorch-eager",
                                             "bf16-pytorch-eager", "flash-pytorch-eager", "flash-pytorch-compile"}));
  const auto two = made("tiny", {.peer = "pytorch", .peer_modes = "compile", .peer_torches = {"2.15", "2.11"}}, cpu);
  EXPECT_EQ(name_of(two.at(two.size() - 2)), name_of(two.at(two.size() - 3)) + "-pytorch-2.15-compile");
  EXPECT_EQ(two.back().peer, "pytorch-2.11-compile");
  EXPECT_EQ(two.back().title, "PyTorch 2.11 compile");
  const auto swept = made("gpt2-cpu", {.sweep = "batch=1,2", .peer = "pytorch"}, cpu);
  ASSERT_EQ(swept.size(), 6U);  // eager and compile at each size
  EXPECT_EQ(swept[5].reference, 1U);
  EXPECT_EQ(swept[5].shape->B, 2);
}

TEST(Peers, Fp8IsOnlyWhereItIsNamedAndCanBe) {
  const DesignFlags flags{.peer = "pytorch", .peer_modes = "fp8", .peer_rungs = {"tf32", "bf16", "vocab"}};
  const auto rungs = made("gpt2", flags, hopper);
  std::vector<std::string> reasons;
  for (size_t i = 9; i < rungs.size(); ++i) reasons.push_back(rungs[i].reason);
  EXPECT_EQ(reasons, (std::vector<std::string>{"PyTorch's fp8 products need autocast bf16",
                                               "PyTorch's fp8 products need multiples of 16: vocabulary_rows is "
                                               "50257, and a batch has 16 tokens",
                                               ""}));
  EXPECT_EQ(name_of(rungs.back()), "vocab-pytorch-fp8");
  const DesignFlags other{.peer = "pytorch", .peer_modes = "fp8", .peer_rungs = {"tf32"}, .peer_torches = {"2.15"}};
  EXPECT_EQ(made("gpt2", other, hopper).back().reason, reasons.front());
  const DesignFlags swept{.sweep = "batch=1,2", .peer = "pytorch", .peer_modes = "fp8"};
  EXPECT_EQ(made("gpt2", swept, hopper).at(2).status, Rung::Status::not_applicable);
  EXPECT_EQ(made("gpt2", swept, hopper).at(3).status, Rung::Status::planned);
  Machine ampere = hopper;
  ampere.gpu->compute_capability = 80;
  EXPECT_EQ(refusal("gpt2", swept, ampere),
            "--peer-modes fp8: fp8 needs compute capability 8.9; this machine can run eager, compile, max-autotune, "
            "cuda-graphs");
  EXPECT_EQ(refusal("gpt2-cpu", swept, cpu),
            "--peer-modes fp8: fp8 needs a CUDA device; this machine can run eager, compile");
}

TEST(Design, RefusesFlagsThatDoNotFit) {
  const auto says = [](const DesignFlags& flags, const std::string& words) {
    EXPECT_TRUE(has(refusal("gpt2-cpu", flags, cpu), words));
  };
  says({.mode = "all"}, "--mode must be one of cumulative, leave-one-out, one-at-a-time, factorial, sweep, got all");
  says({.mode = "sweep"}, "--mode sweep needs --sweep");
  says({.mode = "cumulative", .sweep = "batch=1"}, "cannot be combined with --mode cumulative");
  says({.factors = "bf16"}, "--factors needs --mode factorial");
  says({.mode = "factorial", .factors = "bf16,"}, "without empty items");
  says({.mode = "factorial", .factors = "bf16,bf16"}, "bf16 is given twice");
  says({.rungs = {"bf16"}}, "--rung needs --sweep");
  says({.sweep = "batch"},
       "--sweep must be WHAT=N,N,..., where WHAT is one of batch, context, accumulation; got batch");
  says({.sweep = "depth=1"}, "got depth=1");
  says({.sweep = "batch=0"}, "--sweep batch=0: values must be whole numbers between 1 and 65536, got 0");
  says({.sweep = "batch=1,-2"}, "got -2");
  says({.sweep = "batch=1,2x"}, "got 2x");
  says({.sweep = "batch=65537"}, "got 65537");
  says({.sweep = "batch=99999999999999999999"}, "got 99999999999999999999");
  says({.sweep = "batch=2,02"}, "2 is given twice");
  says({.sweep = "batch="}, "without empty items");
  says({.sweep = "batch=1,,2"}, "without empty items");
  says({.sweep = "batch=1", .rungs = {"flsh"}},
       "--rung flsh: no such rung; did you mean flash? Ladder gpt2-cpu has start, memory");
  says({.sweep = "batch=1", .rungs = {"bf16", "bf16"}}, "--rung bf16: given twice");
  says({.peer = "jax"}, "--with-peer must be pytorch, got jax");
  says({.mode = "factorial", .peer = "pytorch"}, "--with-peer needs --mode cumulative or sweep");
  says({.peer_rungs = {"flash"}}, "--peer-rung needs --with-peer");
  says({.sweep = "batch=1", .peer = "pytorch", .peer_rungs = {"flash"}},
       "--peer-rung needs --with-peer and --mode cumulative");
  says({.peer_modes = "eager"}, "--peer-modes needs --with-peer");
  says({.peer = "pytorch", .peer_modes = "cuda-graphs"},
       "cuda-graphs needs a CUDA device; this machine can run eager, compile");
  says({.peer = "pytorch", .peer_modes = "jit"}, "jit is unknown; this machine can run eager, compile");
  EXPECT_EQ(refusal("gpt2", {.sweep = "batch=1", .rungs = {"graph"}}, cpu),
            "unfit: --rung graph: not applicable here: no CUDA device");
}

}  // namespace modes_test
