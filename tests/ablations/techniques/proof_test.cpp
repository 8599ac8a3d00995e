// Every optimization of the CPU, on and switched off behind the recipe's back: the proof passes on the one and fails on
// the other, with a real trainer.
#include "ablations/gpt2/gpt2_workload.h"
#include "ablations/gpt2/run.h"
#include "harness/machine/machine.h"
#include "model/host_memory.h"
#include "tests/ablations/techniques/proven.h"
#include "tests/harness/machines.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

namespace proof_test {

using namespace proven;

TEST(Proof, ThePlainRecipeIsProven) {
  for (const Proof& proof : prove({}, facts({}))) EXPECT_TRUE(proof.passed) << proof.field << ": " << proof.observed;
}

// Every optimization that any machine has.
TEST(Proof, TellsEachWayFromTheOthers) {
  const Recipe flash{.attention = Attention::flash}, math{.attention = Attention::math};
  expect_told_apart("attention", {{}, flash});
  EXPECT_TRUE(passes("attention", math, facts(math)));  // its softmax may be a safe one, the plain recipe's may not
  EXPECT_FALSE(passes("attention", {}, facts(math)));
  EXPECT_FALSE(passes("attention", math, facts(flash)));
  expect_told_apart("attention", {{}, {.attention = Attention::packed}});
  expect_told_apart("cross_entropy",
                    {{}, {.cross_entropy = CrossEntropy::in_place}, {.cross_entropy = CrossEntropy::fused}});
  expect_told_apart("residual",
                    {{.autocast = Autocast::bf16}, {.autocast = Autocast::bf16, .residual = Residual::autocast}});
  expect_told_apart("vocabulary_rows", {{}, {.vocabulary_rows = 50304}});
  expect_told_apart("optimizer", {{}, {.optimizer = Optimizer::foreach}, {.optimizer = Optimizer::fused}});
  expect_told_apart("deterministic", {{}, {.deterministic = true}});
  expect_told_apart("norm", {{}, {.norm = Norm::fused}});
  expect_told_apart("mlp", {{}, {.mlp = Mlp::fused}});
  expect_told_apart("products", {{}, {.products = Products::packed}});
}

TEST(Proof, KeptMemoryByItsFaults) {
  const Recipe keep{.host_memory = HostMemory::keep};
  EXPECT_FALSE(passes("host_memory", keep, facts(keep)));  // mallopt was never called
  apply_host_memory(HostMemory::keep);
  const RunFacts kept = facts(keep);
  EXPECT_TRUE(passes("host_memory", keep, kept)) << proof("host_memory", keep, kept).observed;
  EXPECT_FALSE(passes("host_memory", {}, kept));
  RunFacts faulting = kept;
  faulting.page_faults_per_step = 100000;
  EXPECT_FALSE(passes("host_memory", keep, faulting));
}

TEST(Proof, OneDnnByTheLibraryThatMultiplied) {
  if (!harness::this_machine().cpu.has("avx512f")) GTEST_SKIP() << "ATen leaves this CPU's float32 products to MKL";
  const Recipe medium{.matmul_precision = MatmulPrecision::medium};
  EXPECT_TRUE(passes("matmul_precision", medium, facts(medium)));
  const auto highest = [](Trainer&) { at::globalContext().setFloat32MatmulPrecision("highest"); };
  EXPECT_FALSE(passes("matmul_precision", medium, facts(medium, highest)));
  // The flag alone: it reads "medium", but the product is MKL's.
  RunFacts flag = facts({});
  flag.observations.matmul_precision.aten = "medium";
  EXPECT_FALSE(passes("matmul_precision", medium, flag));
}

TEST(Proof, Bf16ByLogitsAndProducts) {
  if (!harness::this_machine().cpu.has("avx512_bf16") && !harness::this_machine().cpu.has("amx_bf16")) {
    GTEST_SKIP() << "this CPU has no bfloat16 products";
  }
  const Recipe bf16{.autocast = Autocast::bf16};
  expect_told_apart("autocast", {{}, bf16});
  const auto without_autocast = [](Trainer& trainer) {
    trainer.ops().head = [head = trainer.ops().head](const at::Tensor& x, const at::Tensor& wte) {
      const c10::impl::ExcludeDispatchKeyGuard off(c10::DispatchKeySet(c10::DispatchKey::AutocastCPU));
      return head(x.to(at::kFloat), wte);
    };
  };
  EXPECT_FALSE(passes("autocast", bf16, facts(bf16, without_autocast)));
}

TEST(Proof, OneLayerThatFallsBackIsSeen) {
  const auto expect_seen = [](const char* field, const Recipe& recipe, auto Ops::*operation, const Ops& other) {
    const auto falls_back = [&](Trainer& trainer) {
      trainer.ops().*operation = by_turns(trainer.ops().*operation, other.*operation);
    };
    EXPECT_FALSE(passes(field, recipe, facts(recipe, falls_back))) << field;
  };
  Ops manual = reference_ops();
  manual.attention = manual_attention();
  expect_seen("attention", {.attention = Attention::flash}, &Ops::attention, manual);
  expect_seen("norm", {.norm = Norm::fused}, &Ops::add_norm, reference_ops());
  expect_seen("mlp", {.mlp = Mlp::fused}, &Ops::mlp, reference_ops());
  expect_seen("products", {.products = Products::packed}, &Ops::linear, reference_ops());
  // One LayerNorm of five that autocast gets hold of.
  const Recipe low{.autocast = Autocast::bf16, .residual = Residual::autocast};
  const auto one = [](Trainer& trainer) {
    trainer.ops().layer_norm = [n = 0, low = trainer.ops().layer_norm](const at::Tensor& x, const at::Tensor& weight,
                                                                       const at::Tensor& bias, double eps) mutable {
      return n++ % 5 == 0 ? reference_ops().layer_norm(x.to(at::kFloat), weight, bias, eps) : low(x, weight, bias, eps);
    };
  };
  EXPECT_FALSE(passes("residual", low, facts(low, one)));
  // Nor may a micro-step lack one.
  for (const Recipe& recipe : {Recipe{}, Recipe{.attention = Attention::flash}}) {
    RunFacts run = facts(recipe);
    run.attentions = 2;
    EXPECT_FALSE(passes("attention", recipe, run));
  }
}

TEST(Proof, PackedAttentionByItsNodeWhichSaysWhoMakesIt) {
  const Recipe packed{.attention = Attention::packed};
  const Recipe on_gpu{.device = Device::cuda, .autocast = Autocast::bf16, .attention = Attention::packed};
  RunFacts run = facts(packed);
  EXPECT_FALSE(passes("attention", on_gpu, run));
  // As a GPU's step has them: by FlashAttention.
  Counts nodes;
  for (const auto& [name, calls] : run.observations.backward_nodes) {
    std::string renamed = name;
    if (const size_t at = name.find("PackedAttention"); at != std::string::npos) renamed.insert(at, "Flash");
    nodes[renamed] = calls;
  }
  run.observations.backward_nodes = nodes;
  EXPECT_TRUE(passes("attention", on_gpu, run));
  EXPECT_FALSE(passes("attention", packed, run));
  run.attentions += 1;
  EXPECT_FALSE(passes("attention", on_gpu, run));
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

TEST(Proof, DeviceAndExecutionAreSeenNotBelieved) {
  RunFacts run = facts({});
  EXPECT_TRUE(passes("execution", {}, run));
  EXPECT_FALSE(passes("execution", {.execution = Execution::graph}, run));
  run.observations.cuda_calls = StepCalls{.unavailable = "no driver"};
  EXPECT_FALSE(passes("device", {.device = Device::cuda}, run));
}

const Recipe eager{.device = Device::cuda}, graph{.device = Device::cuda, .execution = Execution::graph};

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
  EXPECT_TRUE(passes("device", eager, on_cuda(1400, 0, 0, 500)));
  EXPECT_FALSE(passes("device", eager, on_cuda(1400, 0, 1, 500)));
  EXPECT_FALSE(passes("device", {}, on_cuda(1400, 0, 0, 500)));
}

TEST(Proof, CallsThatShouldNotBeAreNamed) {
  const auto observed = [](const Recipe& recipe, const RunFacts& run, const std::string& field) {
    EXPECT_FALSE(passes(field, recipe, run)) << field;
    return proof(field, recipe, run).observed;
  };
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
  EXPECT_TRUE(passes("execution", eager, on_cuda(1400, 0, 0, 500)));
  EXPECT_FALSE(passes("execution", eager, on_cuda(1400, 1, 0, 500)));
  EXPECT_TRUE(passes("execution", graph, on_cuda(0, 1, 0, 0)));
  for (const RunFacts& run : {on_cuda(1, 1, 0, 0), on_cuda(0, 2, 0, 0), on_cuda(0, 0, 0, 0), on_cuda(0, 1, 0, 500)}) {
    EXPECT_FALSE(passes("execution", graph, run)) << proof("execution", graph, run).observed;
  }
  // Without CUPTI what was dispatched still tells, and the proof says what it lacks.
  RunFacts blind = on_cuda(0, 0, 0, 0);
  blind.observations.cuda_calls = StepCalls{.unavailable = "another tool"};
  EXPECT_TRUE(passes("execution", graph, blind));
  EXPECT_NE(proof("execution", graph, blind).observed.find("not counted: another tool"), std::string::npos);
}

TEST(Proof, NothingIsSaidOfCallsThatWereNotCounted) {
  RunFacts run = on_cuda(1400, 0, 0, 500);
  EXPECT_EQ(proof("device", eager, run).expected, "parameters on cuda; the host waits for nothing in a step");
  EXPECT_EQ(proof("execution", eager, run).expected,
            "forward and backward are dispatched operation by operation; no graph is launched");
  EXPECT_EQ(proof("execution", graph, run).expected,
            "a step dispatches nothing of forward and backward; it is one graph launch and no other kernel launch");
  run.observations.cuda_calls = StepCalls{.unavailable = "another tool"};
  EXPECT_EQ(proof("device", eager, run).expected, "parameters on cuda");
  EXPECT_EQ(proof("execution", eager, run).expected, "forward and backward are dispatched operation by operation");
  EXPECT_EQ(proof("execution", graph, run).expected, "a step dispatches nothing of forward and backward");
}

TEST(Proof, FullPrecisionIsReadBackFromCublasToo) {
  RunFacts run = on_cuda(1400, 0, 0, 500);
  EXPECT_TRUE(passes("matmul_precision", eager, run));
  run.observations.matmul_precision.backend = "tf32";
  EXPECT_FALSE(passes("matmul_precision", eager, run));
}

// As a record's file has it, which `ladder verify` proves again.
TEST(Proof, AProductThatIsNoNumberProvesNothing) {
  RunFacts run = facts({});
  auto json = json_of(run.observations);
  json["fingerprint"]["float32"] = {
      {"size", 512}, {"relative_error", nullptr}, {"precision", "wrong"}, {"kernel", nullptr}};
  run.observations = value_from<Observations>(json, "record.json");
  const Proof precision = proof("matmul_precision", {}, run);
  EXPECT_FALSE(precision.passed);
  EXPECT_NE(precision.observed.find("error not finite, wrong"), std::string::npos) << precision.observed;
}

TEST(Proof, DeterminismIsReadBack) {
  const Recipe on{.deterministic = true};
  auto& context = at::globalContext();
  const auto warn_only = [&](Trainer&) { context.setDeterministicAlgorithms(true, /*warn_only=*/true); };
  EXPECT_FALSE(passes("deterministic", on, facts(on, warn_only)));
  EXPECT_FALSE(passes("deterministic", on, facts(on, [&](Trainer&) { context.setBenchmarkCuDNN(true); })));
  // On a GPU it needs cuBLAS's workspace.
  const Recipe on_gpu{.device = Device::cuda, .deterministic = true};
  RunFacts run = on_cuda(1400, 0, 0, 500);
  run.observations.determinism = facts(on).observations.determinism;
  for (const auto& [workspace, is_good] : std::vector<std::pair<std::optional<std::string>, bool>>{
           {":4096:8", true}, {":16:8", true}, {":4096:2:16:8", false}, {std::nullopt, false}}) {
    run.observations.determinism.cublas_workspace = workspace;
    EXPECT_EQ(passes("deterministic", on_gpu, run), is_good) << workspace.value_or("none");
  }
}

TEST(Warmup, ThatCapturesAGraphInATimedStepIsRefused) {
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
