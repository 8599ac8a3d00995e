// Every optimization of the CPU, on and switched off behind the recipe's back: the proof passes on the one and fails on
// the other, with a real trainer.
#include "ablations/gpt2/gpt2_workload.h"
#include "ablations/gpt2/observe.h"
#include "ablations/gpt2/run.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/techniques.h"
#include "harness/machine/machine.h"
#include "model/host_memory.h"
#include "model/trainer.h"
#include "tests/ablations/techniques/numbers.h"
#include "tests/harness/machines.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace proof_test {

using namespace ablations;
using namespace model;

// What a run of `recipe` is seen to do; `sabotage` comes between making the trainer and its steps.
RunFacts facts(
    const Recipe& recipe, const std::function<void(Trainer&)>& sabotage = [](Trainer&) {}, int64_t accumulation = 1) {
  const TokenStream stream = numbers::text();
  Trainer trainer(preset("tiny"), recipe,
                  {.B = 2, .T = 32, .accumulation = accumulation, .max_steps = 1 + observed_steps}, stream,
                  step_parts());
  sabotage(trainer);
  trainer.step();
  return {.observations = observe(trainer).observations,
          .page_faults_per_step = 0,
          .peak_bytes = int64_t{1} << 30,
          .attentions = 2 * accumulation};
}

const Proof& proof_of(const std::vector<Proof>& proofs, const std::string& field) {
  for (const Proof& proof : proofs) {
    if (proof.field == field) return proof;
  }
  throw std::runtime_error("no proof of " + field);
}

bool passes(const Recipe& recipe, const RunFacts& run, const std::string& field) {
  const auto proofs = prove(recipe, run);
  return proof_of(proofs, field).passed;
}

TEST(Proof, ThePlainRecipeIsProven) {
  for (const Proof& proof : prove({}, facts({}))) EXPECT_TRUE(proof.passed) << proof.field << ": " << proof.observed;
}

TEST(Proof, KeptMemoryByItsFaults) {
  const Recipe keep{.host_memory = HostMemory::keep};
  EXPECT_FALSE(passes(keep, facts(keep), "host_memory"));  // mallopt was never called
  apply_host_memory(HostMemory::keep);
  const RunFacts kept = facts(keep);
  EXPECT_TRUE(passes(keep, kept, "host_memory")) << proof_of(prove(keep, kept), "host_memory").observed;
  EXPECT_FALSE(passes({}, kept, "host_memory"));
  RunFacts faulting = kept;
  faulting.page_faults_per_step = 100000;
  EXPECT_FALSE(passes(keep, faulting, "host_memory"));
}

TEST(Proof, OneDnnByTheLibraryThatMultiplied) {
  if (!harness::this_machine().cpu.has("avx512f")) GTEST_SKIP() << "ATen leaves this CPU's float32 products to MKL";
  const Recipe medium{.matmul_precision = MatmulPrecision::medium};
  EXPECT_TRUE(passes(medium, facts(medium), "matmul_precision"));
  EXPECT_FALSE(passes(medium, facts(medium, [](Trainer&) { at::globalContext().setFloat32MatmulPrecision("highest"); }),
                      "matmul_precision"));
  // The flag alone: it reads "medium", but the product is MKL's.
  RunFacts flag = facts({});
  flag.observations.matmul_precision.aten = "medium";
  EXPECT_FALSE(passes(medium, flag, "matmul_precision"));
}

TEST(Proof, Bf16ByLogitsAndProducts) {
  if (!harness::this_machine().cpu.has("avx512_bf16") && !harness::this_machine().cpu.has("amx_bf16")) {
    GTEST_SKIP() << "this CPU has no bfloat16 products";
  }
  const Recipe bf16{.autocast = Autocast::bf16};
  EXPECT_TRUE(passes(bf16, facts(bf16), "autocast"));
  EXPECT_FALSE(passes({}, facts(bf16), "autocast"));
  const auto without_autocast = [](Trainer& trainer) {
    const auto head = trainer.ops().head;
    trainer.ops().head = [head](const at::Tensor& x, const at::Tensor& wte) {
      const c10::impl::ExcludeDispatchKeyGuard off(c10::DispatchKeySet(c10::DispatchKey::AutocastCPU));
      return head(x.to(at::kFloat), wte);
    };
  };
  EXPECT_FALSE(passes(bf16, facts(bf16, without_autocast), "autocast"));
}

TEST(Proof, FlashByItsNodeInTheGraph) {
  const Recipe flash{.attention = Attention::flash};
  EXPECT_TRUE(passes(flash, facts(flash), "attention"));
  EXPECT_FALSE(
      passes(flash, facts(flash, [](Trainer& trainer) { trainer.ops().attention = manual_attention(); }), "attention"));
  EXPECT_FALSE(passes({}, facts(flash), "attention"));
  // One layer of two falls back.
  const auto half = [](Trainer& trainer) {
    trainer.ops().attention = [n = 0, flash = trainer.ops().attention](const at::Tensor& q, const at::Tensor& k,
                                                                       const at::Tensor& v) mutable {
      return ++n % 2 == 0 ? manual_attention()(q, k, v) : flash(q, k, v);
    };
  };
  EXPECT_FALSE(passes(flash, facts(flash, half), "attention"));
}

TEST(Proof, PackedAttentionByItsNodeWhichSaysWhoMakesIt) {
  const Recipe packed{.attention = Attention::packed};
  Recipe on_gpu{.device = Device::cuda, .autocast = Autocast::bf16, .attention = Attention::packed};
  RunFacts run = facts(packed);
  EXPECT_TRUE(passes(packed, run, "attention"));
  EXPECT_FALSE(passes({}, run, "attention"));
  EXPECT_FALSE(passes(on_gpu, run, "attention"));
  // As a GPU's step has them: by FlashAttention.
  Counts nodes;
  for (const auto& [name, calls] : run.observations.backward_nodes) {
    std::string renamed = name;
    if (const size_t at = name.find("PackedAttention"); at != std::string::npos) renamed.insert(at, "Flash");
    nodes[renamed] = calls;
  }
  run.observations.backward_nodes = nodes;
  EXPECT_TRUE(passes(on_gpu, run, "attention"));
  EXPECT_FALSE(passes(packed, run, "attention"));
  run.attentions += 1;
  EXPECT_FALSE(passes(on_gpu, run, "attention"));
}

TEST(Attentions, SayWherePackedOnesCannotBe) {
  Recipe recipe{.device = Device::cuda, .attention = Attention::packed};
  EXPECT_EQ(recipe_obstacle(recipe, machines::hopper),
            "attention packed reads 16-bit types only: autocast bf16 or fp16 before it, or attention efficient");
  for (const Autocast autocast : {Autocast::bf16, Autocast::fp16}) {
    recipe.autocast = autocast;
    EXPECT_EQ(recipe_obstacle(recipe, machines::hopper), "");
  }
  harness::Machine turing = machines::hopper;
  turing.gpu->compute_capability = 75;
  recipe.autocast = Autocast::fp16;
  EXPECT_EQ(recipe_obstacle(recipe, turing), "attention packed needs compute capability 8.0, H200 has 7.5");
  recipe.device = Device::cpu;
  EXPECT_EQ(recipe_obstacle(recipe, machines::cpu),
            "packed attention on a CPU knows float32 and bfloat16, not float16");

  // Where cuDNN's is on, FlashAttention's kernels are no gain.
  const Optimization& packed = *find_optimization("packed_attention");
  Recipe before{.device = Device::cuda, .autocast = Autocast::bf16, .attention = Attention::cudnn};
  EXPECT_NE(packed.obstacle(before, machines::hopper).find("cuDNN's attention"), std::string::npos);
  before.attention = Attention::flash;
  EXPECT_EQ(packed.obstacle(before, machines::hopper), "");
}

TEST(Proof, MathByItsSafeSoftmax) {
  const Recipe math{.attention = Attention::math};
  EXPECT_TRUE(passes(math, facts(math), "attention"));
  EXPECT_FALSE(passes({}, facts(math), "attention"));
  EXPECT_FALSE(passes(math, facts({.attention = Attention::flash}), "attention"));
}

TEST(Proof, EveryMicroStepHasItsAttention) {
  const auto nothing = [](Trainer&) {};
  for (const Recipe& recipe : {Recipe{}, Recipe{.attention = Attention::flash}}) {
    RunFacts run = facts(recipe, nothing, /*accumulation=*/3);
    EXPECT_TRUE(passes(recipe, run, "attention"));
    run.attentions = 2;
    EXPECT_FALSE(passes(recipe, run, "attention"));
  }
}

TEST(Proof, TheLossByItsNodes) {
  const Recipe aten, in_place{.cross_entropy = CrossEntropy::in_place};
  const RunFacts of_aten = facts(aten), of_in_place = facts(in_place);
  EXPECT_TRUE(passes(aten, of_aten, "cross_entropy"));
  EXPECT_TRUE(passes(in_place, of_in_place, "cross_entropy"));
  EXPECT_FALSE(passes(aten, of_in_place, "cross_entropy"));
  EXPECT_FALSE(passes(in_place, of_aten, "cross_entropy"));
}

TEST(Proof, TheResidualStreamByItsTensors) {
  const Recipe plain{.autocast = Autocast::bf16}, low{.autocast = Autocast::bf16, .residual = Residual::autocast};
  const RunFacts of_low = facts(low);
  EXPECT_TRUE(passes(low, of_low, "residual")) << proof_of(prove(low, of_low), "residual").observed;
  EXPECT_TRUE(passes(plain, facts(plain), "residual"));
  EXPECT_FALSE(passes(plain, of_low, "residual"));
  EXPECT_FALSE(passes(low, facts(plain), "residual"));
  // One LayerNorm alone that autocast gets hold of.
  const auto one = [](Trainer& trainer) {
    trainer.ops().layer_norm = [n = 0, low = trainer.ops().layer_norm](const at::Tensor& x, const at::Tensor& weight,
                                                                       const at::Tensor& bias, double eps) mutable {
      return n++ % 5 == 0 ? reference_ops().layer_norm(x.to(at::kFloat), weight, bias, eps) : low(x, weight, bias, eps);
    };
  };
  EXPECT_FALSE(passes(low, facts(low, one), "residual"));
}

TEST(Proof, PaddingByTheLogitsColumns) {
  const Recipe padded{.vocabulary_rows = 50304};
  EXPECT_TRUE(passes(padded, facts(padded), "vocabulary_rows"));
  EXPECT_FALSE(passes(padded, facts({}), "vocabulary_rows"));
}

TEST(Proof, OptimizersByTheirOperations) {
  const std::array kinds{Optimizer::loop, Optimizer::foreach, Optimizer::fused};
  for (const Optimizer really : kinds) {
    const RunFacts run = facts({.optimizer = really});
    for (const Optimizer claimed : kinds) {
      EXPECT_EQ(passes({.optimizer = claimed}, run, "optimizer"), really == claimed)
          << static_cast<int>(really) << " " << static_cast<int>(claimed);
    }
  }
}

TEST(Proof, DeviceAndExecutionAreSeenNotBelieved) {
  RunFacts run = facts({});
  EXPECT_TRUE(passes({}, run, "execution"));
  EXPECT_FALSE(passes({.execution = Execution::graph}, run, "execution"));
  run.observations.cuda_calls = StepCalls{.unavailable = "no driver"};
  EXPECT_FALSE(passes({.device = Device::cuda}, run, "device"));
}

// What a step on a GPU would be seen to do, from a real one on the CPU.
RunFacts on_cuda(int64_t kernels, int64_t graphs, int64_t waits, int64_t dispatched) {
  RunFacts run = facts({});
  run.observations.parameters_device = "cuda:0";
  run.observations.matmul_precision.backend = "ieee";
  run.observations.operations["forward"] = dispatched;
  run.observations.operations["backward"] = 0;
  run.observations.cuda_calls = StepCalls{.kernel_launches = kernels, .graph_launches = graphs, .host_waits = waits};
  return run;
}

TEST(Proof, AStepOnAGpuWaitsForNothing) {
  const Recipe gpu{.device = Device::cuda};
  EXPECT_TRUE(passes(gpu, on_cuda(1400, 0, 0, 500), "device"));
  EXPECT_FALSE(passes(gpu, on_cuda(1400, 0, 1, 500), "device"));
  EXPECT_FALSE(passes({}, on_cuda(1400, 0, 0, 500), "device"));
}

TEST(Proof, CallsThatShouldNotBeAreNamed) {
  const auto observed = [](const Recipe& recipe, const RunFacts& run, const std::string& field) {
    const Proof proof = proof_of(prove(recipe, run), field);
    EXPECT_FALSE(proof.passed) << field;
    return proof.observed;
  };
  const Recipe eager{.device = Device::cuda}, graph{.device = Device::cuda, .execution = Execution::graph};
  RunFacts run = on_cuda(7, 1, 3, 0);
  run.observations.cuda_calls->calls = {{"cudaStreamSynchronize", 2}, {"cudaFree", 1},         {"cudaMemcpyAsync", 9},
                                        {"cudaLaunchKernel", 4},      {"cuLaunchKernelEx", 3}, {"cudaGraphLaunch", 1}};
  EXPECT_EQ(observed(eager, run, "device"),
            "parameters on cuda:0; 3 waits in a step: 1 cudaFree, 2 cudaStreamSynchronize");
  const std::string launches = observed(graph, run, "execution");
  EXPECT_TRUE(
      launches.ends_with("; 7 kernel launches, 1 graph launch: 3 cuLaunchKernelEx, 1 cudaGraphLaunch, 4 "
                         "cudaLaunchKernel"))
      << launches;
  run = on_cuda(0, 0, 0, 500);  // a launch by a name that is not known as one
  run.observations.cuda_calls->calls = {{"cudaStartKernel", 1400}};
  EXPECT_TRUE(observed(eager, run, "execution").ends_with("; calls: 1400 cudaStartKernel"));
}

TEST(Proof, AGraphIsOneLaunchAndNothingElse) {
  const Recipe eager{.device = Device::cuda};
  const Recipe graph{.device = Device::cuda, .execution = Execution::graph};
  EXPECT_TRUE(passes(eager, on_cuda(1400, 0, 0, 500), "execution"));
  EXPECT_FALSE(passes(eager, on_cuda(1400, 1, 0, 500), "execution"));
  EXPECT_TRUE(passes(graph, on_cuda(0, 1, 0, 0), "execution"));
  EXPECT_FALSE(passes(graph, on_cuda(1, 1, 0, 0), "execution"));
  EXPECT_FALSE(passes(graph, on_cuda(0, 2, 0, 0), "execution"));
  EXPECT_FALSE(passes(graph, on_cuda(0, 0, 0, 0), "execution"));
  EXPECT_FALSE(passes(graph, on_cuda(0, 1, 0, 500), "execution"));
  // Without CUPTI what was dispatched still tells, and the proof says what it lacks.
  RunFacts blind = on_cuda(0, 0, 0, 0);
  blind.observations.cuda_calls = StepCalls{.unavailable = "another tool"};
  const auto proofs = prove(graph, blind);
  EXPECT_TRUE(proof_of(proofs, "execution").passed);
  EXPECT_NE(proof_of(proofs, "execution").observed.find("not counted: another tool"), std::string::npos);
}

TEST(Proof, NothingIsSaidOfCallsThatWereNotCounted) {
  const auto expected = [](const Recipe& recipe, const RunFacts& run, const std::string& field) {
    return proof_of(prove(recipe, run), field).expected;
  };
  const Recipe eager{.device = Device::cuda};
  const Recipe graph{.device = Device::cuda, .execution = Execution::graph};
  RunFacts run = on_cuda(1400, 0, 0, 500);
  EXPECT_EQ(expected(eager, run, "device"), "parameters on cuda; the host waits for nothing in a step");
  EXPECT_EQ(expected(eager, run, "execution"),
            "forward and backward are dispatched operation by operation; no graph is launched");
  EXPECT_EQ(expected(graph, run, "execution"),
            "a step dispatches nothing of forward and backward; it is one graph launch and no other kernel launch");
  run.observations.cuda_calls = StepCalls{.unavailable = "another tool"};
  EXPECT_EQ(expected(eager, run, "device"), "parameters on cuda");
  EXPECT_EQ(expected(eager, run, "execution"), "forward and backward are dispatched operation by operation");
  EXPECT_EQ(expected(graph, run, "execution"), "a step dispatches nothing of forward and backward");
}

TEST(Proof, FullPrecisionIsReadBackFromCublasToo) {
  const Recipe gpu{.device = Device::cuda};
  RunFacts run = on_cuda(1400, 0, 0, 500);
  EXPECT_TRUE(passes(gpu, run, "matmul_precision"));
  run.observations.matmul_precision.backend = "tf32";
  EXPECT_FALSE(passes(gpu, run, "matmul_precision"));
}

// As a record's file has it, which `ladder verify` proves again.
TEST(Proof, AProductThatIsNoNumberProvesNothing) {
  RunFacts run = facts({});
  auto json = json_of(run.observations);
  json["fingerprint"]["float32"] = {
      {"size", 512}, {"relative_error", nullptr}, {"precision", "wrong"}, {"kernel", nullptr}};
  run.observations = value_from<Observations>(json, "record.json");
  const auto proofs = prove({}, run);
  const auto precision = std::ranges::find(proofs, "matmul_precision", &Proof::field);
  EXPECT_FALSE(precision->passed);
  EXPECT_NE(precision->observed.find("error not finite, wrong"), std::string::npos) << precision->observed;
}

TEST(Proof, DeterminismIsReadBackAndRefuses) {
  const Recipe on{.deterministic = true};
  EXPECT_TRUE(passes(on, facts(on), "deterministic"));
  EXPECT_FALSE(passes({}, facts(on), "deterministic"));
  EXPECT_FALSE(passes(on, facts({}), "deterministic"));
  auto& context = at::globalContext();
  const auto warn_only = [&](Trainer&) { context.setDeterministicAlgorithms(true, /*warn_only=*/true); };
  EXPECT_FALSE(passes(on, facts(on, warn_only), "deterministic"));
  EXPECT_FALSE(passes(on, facts(on, [&](Trainer&) { context.setBenchmarkCuDNN(true); }), "deterministic"));
}

TEST(Proof, DeterminismOnAGpuNeedsCublasWorkspace) {
  const Recipe on{.device = Device::cuda, .deterministic = true};
  RunFacts run = on_cuda(1400, 0, 0, 500);
  run.observations.determinism = facts({.deterministic = true}).observations.determinism;
  for (const char* good : {":4096:8", ":16:8"}) {
    run.observations.determinism.cublas_workspace = good;
    EXPECT_TRUE(passes(on, run, "deterministic")) << good;
  }
  run.observations.determinism.cublas_workspace = ":4096:2:16:8";
  EXPECT_FALSE(passes(on, run, "deterministic"));
  run.observations.determinism.cublas_workspace.reset();
  EXPECT_FALSE(passes(on, run, "deterministic"));
}

TEST(Warmup, ThatCapturesAGraphInATimedStepIsRefused) {
  const Recipe eager{.device = Device::cuda}, graph{.device = Device::cuda, .execution = Execution::graph};
  EXPECT_NO_THROW(check_warmup(eager, 0));
  EXPECT_NO_THROW(check_warmup(graph, runs_before_replay));
  EXPECT_THROW(check_warmup(graph, runs_before_replay - 1), std::invalid_argument);
  RunOptions options;  // refused before anything is looked for
  options.warmup_steps = 3;
  options.recipe = graph;
  try {
    const Gpt2Workload workload(options, 10);
    FAIL() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("--warmup must be at least 4 with execution graph, got 3"))
        << error.what();
  }
}

}  // namespace proof_test
