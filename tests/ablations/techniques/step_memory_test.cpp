// What a step takes, against counts made by hand. estimate_test.cpp compares it with every recorded run.
#include "ablations/techniques/step_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace step_memory_test {

using namespace ablations;
using namespace model;

constexpr double gib = 1LL << 30;

Recipe recipe(Autocast autocast = Autocast::off, int64_t rows = 50257) {
  Recipe result;
  result.autocast = autocast;
  result.vocabulary_rows = rows;
  return result;
}

Recipe fused(Autocast autocast, Weights weights) {
  Recipe result = recipe(autocast, 50304);
  result.attention = Attention::packed;
  result.norm = Norm::fused;
  result.mlp = Mlp::fused;
  result.cross_entropy = CrossEntropy::fused;
  result.optimizer = Optimizer::fused;
  result.weights = weights;
  return result;
}

// tiny: 2 layers, 2 heads, C=32, 64 positions.
double weights_of_tiny(double rows) {
  return rows * 32 + 64 * 32 + 2 * (4 * 32 + 32 * 96 + 96 + 1024 + 32 + 4096 + 128 + 4096 + 32) + 64;
}

// B=3, T=8: 24 tokens, 768 numbers in a (B, T, C), 384 in the T x T matrices of a layer.
TEST(StepMemory, Float32ByHand) {
  const StepMemory memory = step_memory(preset("tiny"), recipe(), 3, 8);
  const double V = 50257, N = weights_of_tiny(V);
  for (const Moment moment : all_moments) {
    const StepMemory::Parts& parts = memory.at(moment);
    EXPECT_DOUBLE_EQ(parts.weights, 4 * N);
    EXPECT_DOUBLE_EQ(parts.optimizer, 8 * N);
    EXPECT_EQ(parts.weight_copies, 0);
    EXPECT_EQ(parts.remainders, 0);
    EXPECT_DOUBLE_EQ(parts.process, 0.4 * gib);
    EXPECT_DOUBLE_EQ(parts.allocator, 0.4 * (4 * N + 4 * 32 * V)) << "of the smaller pass, which is backward";
    EXPECT_DOUBLE_EQ(parts.total(), parts.tensors() + parts.allocator + parts.process);
    const bool has_activations = moment == Moment::loss || moment == Moment::backward_begin;
    EXPECT_DOUBLE_EQ(parts.activations, has_activations ? 2 * 4 * (2 + 14) * 768 + 2 * 4 * 768 + 5 * 8 * 24 : 0)
        << "of five LayerNorms two numbers a token";
    EXPECT_DOUBLE_EQ(parts.attention, has_activations ? 2 * 4 * 384 : 0);
  }
  const StepMemory::Parts &loss = memory.at(Moment::loss), &begin = memory.at(Moment::backward_begin),
                          &end = memory.at(Moment::backward_end), &update = memory.at(Moment::update);
  EXPECT_EQ(loss.gradients, 0) << "they are made anew";
  EXPECT_DOUBLE_EQ(loss.logits, 3 * 4 * 24 * V);
  EXPECT_DOUBLE_EQ(memory.left_by_forward, loss.activations + loss.attention + 4 * 24 * V);
  EXPECT_DOUBLE_EQ(begin.gradients, 4 * 32 * V) << "the head's";
  EXPECT_DOUBLE_EQ(begin.working, 2 * 4 * 4 * 768);
  EXPECT_DOUBLE_EQ(end.gradients, 4 * N);
  EXPECT_DOUBLE_EQ(end.working, 4 * 32 * V) << "a dense gradient of the embedding";
  EXPECT_DOUBLE_EQ(update.gradients, 4 * N);
  EXPECT_DOUBLE_EQ(update.working, 4 * 32 * V) << "denominators of the largest tensor";
  EXPECT_EQ(memory.peak(), Moment::loss);
  EXPECT_EQ(memory.total(), loss.total());
  EXPECT_EQ(memory.largest().logits, loss.logits);
  EXPECT_EQ(memory.largest().gradients, end.gradients);
}

TEST(StepMemory, TheUpdateOfAllTensorsAtOnceHoldsAllDenominators) {
  Recipe lists = recipe();
  lists.optimizer = Optimizer::foreach;
  const StepMemory memory = step_memory(preset("gpt2-124m"), lists, 1, 128);
  EXPECT_EQ(memory.at(Moment::update).working, memory.at(Moment::update).weights);
  EXPECT_EQ(memory.peak(), Moment::update);
  lists.device = Device::cuda;
  lists.execution = Execution::graph;
  const StepMemory captured = step_memory(preset("gpt2-124m"), lists, 1, 128);
  EXPECT_EQ(captured.at(Moment::update).working, 2 * captured.at(Moment::update).weights) << "and their numerators";
}

TEST(StepMemory, AttentionWrittenOutGrowsWithTheSquareOfTheContext) {
  const Config config = preset("gpt2-124m");
  Recipe manual = recipe(Autocast::bf16);
  manual.device = Device::cuda;
  const auto kept = [&](int64_t T) { return step_memory(config, manual, 1, T).at(Moment::loss).attention; };
  EXPECT_DOUBLE_EQ(kept(512), 12.0 * 12 * 512 * 512 * 6);  // softmax in float32, and its copy for the product
  EXPECT_DOUBLE_EQ(kept(1024), 4 * kept(512));
  for (const Attention attention : {Attention::efficient, Attention::flash, Attention::cudnn, Attention::packed}) {
    manual.attention = attention;
    EXPECT_EQ(kept(1024), 0);
  }
  const auto activations = [&](int64_t B) { return step_memory(config, manual, B, 1024).at(Moment::loss).activations; };
  EXPECT_DOUBLE_EQ(activations(8), 8 * activations(1));
  manual.attention = Attention::manual;
  const double written_out = activations(1);
  manual.attention = Attention::flash;
  EXPECT_DOUBLE_EQ(activations(1) - written_out, 4.0 * 12 * 12 * 1024) << "sums of softmax";
}

// Numbers of the products' type: 2 for the residual stream in it, and what GELU makes on a CPU.
TEST(StepMemory, FusedOperationsAndThe16BitStreamKeepLess) {
  const double BTC = 3 * 8 * 32;
  const auto kept = [](const Recipe& of) { return step_memory(preset("tiny"), of, 3, 8).at(Moment::loss).activations; };
  Recipe plain = recipe(Autocast::bf16), stream = plain, mlp = plain;
  stream.residual = Residual::autocast;
  EXPECT_DOUBLE_EQ(kept(plain) - kept(stream), 2 * 2 * 2 * BTC + 2 * BTC);  // of two layers, and of ln_f
  mlp.mlp = Mlp::fused;
  EXPECT_DOUBLE_EQ(kept(plain) - kept(mlp), 2 * 4 * 2 * BTC);
  mlp.device = Device::cuda;
  EXPECT_EQ(kept(plain), kept(mlp)) << "a GPU keeps GELU's result";
}

// Bytes for each of B T V logits.
TEST(StepMemory, LogitsByLoss) {
  const auto bytes = [](Device device, Autocast autocast, CrossEntropy loss, int64_t B) {
    Recipe of = recipe(autocast, 50304);
    of.device = device;
    of.cross_entropy = loss;
    return step_memory(preset("gpt2-124m"), of, B, 1024).at(Moment::loss).logits;
  };
  const double one = 1024.0 * 50304;
  struct Case {
    Autocast autocast;
    CrossEntropy loss;
    int64_t B;
    double on_cpu, on_cuda;
  };
  for (const auto& [autocast, loss, B, on_cpu, on_cuda] :
       {Case{Autocast::off, CrossEntropy::aten, 2, 2 * 12 * one, 2 * 12 * one},
        {Autocast::off, CrossEntropy::in_place, 1, 8 * one, 8 * one},
        {Autocast::bf16, CrossEntropy::aten, 1, 12 * one, 10 * one},
        {Autocast::bf16, CrossEntropy::in_place, 1, 10 * one, 4 * one},
        // A chunk of 65,536 rows: one of 52 on a CPU, of 7 on a GPU, in multiples of 128.
        {Autocast::bf16, CrossEntropy::fused, 64, 1280 * 2 * 50304, 9472 * 2 * 50304}}) {
    EXPECT_DOUBLE_EQ(bytes(Device::cpu, autocast, loss, B), on_cpu);
    EXPECT_DOUBLE_EQ(bytes(Device::cuda, autocast, loss, B), on_cuda);
  }
  EXPECT_DOUBLE_EQ(bytes(Device::cpu, Autocast::bf16, CrossEntropy::fused, 1), 2 * one);
}

TEST(StepMemory, MasterWeightsNeedNoCopiesAndKeepTheirGradients) {
  const double N = weights_of_tiny(50304), matrices = 50304 * 32 + 2 * 12 * 32 * 32;
  const StepMemory master = step_memory(preset("tiny"), fused(Autocast::bf16, Weights::master), 3, 8),
                   separate = step_memory(preset("tiny"), fused(Autocast::bf16, Weights::separate), 3, 8);
  for (const Moment moment : all_moments) {
    EXPECT_DOUBLE_EQ(master.at(moment).remainders, 2 * matrices);
    EXPECT_DOUBLE_EQ(master.at(moment).weights, 4 * N - 2 * matrices);
    EXPECT_DOUBLE_EQ(master.at(moment).gradients, 4 * N);
    EXPECT_EQ(master.at(moment).weight_copies, 0);
    EXPECT_EQ(separate.at(moment).remainders, 0);
  }
  EXPECT_DOUBLE_EQ(separate.at(Moment::loss).weight_copies,
                   2 * (matrices - 50304 * 32 + 2 * 9 * 32));  // none of the head
  EXPECT_DOUBLE_EQ(separate.at(Moment::loss).gradients, 4 * 50304 * 32) << "made in the loss";
  EXPECT_DOUBLE_EQ(separate.left_by_forward - master.left_by_forward, 4 * 50304 * 32);
  EXPECT_EQ(master.at(Moment::backward_end).working, 0);
  EXPECT_EQ(step_memory(preset("tiny"), fused(Autocast::off, Weights::master), 3, 8).largest().remainders, 0);
  Recipe on_gpu = fused(Autocast::bf16, Weights::master);
  on_gpu.device = Device::cuda;
  EXPECT_DOUBLE_EQ(step_memory(preset("tiny"), on_gpu, 3, 8).largest().remainders, 2 * (matrices + 2 * 9 * 32));
}

TEST(StepMemory, GradientsStayFromOneMicroStepToTheNext) {
  const Config config = preset("gpt2-124m");
  const StepMemory one = step_memory(config, recipe(), 1, 128, 1), two = step_memory(config, recipe(), 1, 128, 2);
  const double gradients = one.at(Moment::update).gradients;
  EXPECT_EQ(two.at(Moment::loss).tensors() - one.at(Moment::loss).tensors(), gradients);
  EXPECT_EQ(two.at(Moment::backward_begin).tensors() - one.at(Moment::backward_begin).tensors(), gradients);
  EXPECT_EQ(two.at(Moment::backward_end).working, 2 * one.at(Moment::backward_end).working);
  EXPECT_EQ(step_memory(config, recipe(), 1, 128, 8).total(), two.total());
}

TEST(StepMemory, AHeapThatKeepsWhatIsFreedHoldsMore) {
  const auto more = [](Recipe of, int64_t T) {
    const auto between = [&](HostMemory policy) {
      of.host_memory = policy;
      return step_memory(preset("gpt2-124m"), of, 1, T).at(Moment::loss).allocator;
    };
    return between(HostMemory::keep) - between(HostMemory::release);
  };
  const double N = 124439808;
  EXPECT_NEAR(more(recipe(), 128), 4 * N, 1);
  EXPECT_NEAR(more(recipe(Autocast::bf16), 128), 2 * N, 1);
  // Two matrices 12 x T x T less what else is kept in a layer, 16 C + 4 numbers a token.
  EXPECT_NEAR(more(recipe(), 1024), 4 * N + 12 * 4 * (2.0 * 12 * 1024 * 1024 - 1024 * (16.0 * 768 + 4)), 1);
  // 47 more rows of the embedding, and half of 1024 x 50304 logits.
  EXPECT_NEAR(more(fused(Autocast::bf16, Weights::separate), 1024), 2 * (N + 47 * 768) + 1024 * 50304, 1);
  EXPECT_EQ(more(fused(Autocast::bf16, Weights::master), 1024), 0) << "gradients stay in place";
}

// What PyTorch's allocator took in reserve on the fake device.
TEST(StepMemory, OnAGpuIsWhatTheAllocatorReserves) {
  Recipe graph = recipe(Autocast::bf16);
  graph.device = Device::cuda;
  graph.execution = Execution::graph;
  graph.optimizer = Optimizer::foreach;
  for (const auto& [B, reserved] : std::map<int64_t, double>{{64, 118.6}, {32, 60.9}, {16, 31.2}, {1, 3.8}}) {
    const StepMemory memory = step_memory(preset("gpt2-124m"), graph, B, 1024);
    const StepMemory::Parts& peak = memory.at(memory.peak());
    EXPECT_NEAR((peak.total() - peak.process) / gib, reserved, 0.05 * reserved) << B;
  }
}

TEST(StepMemory, TheLargestBatchFitsAndTheNextDoesNot) {
  const Config config = preset("gpt2-124m");
  Recipe on_gpu = recipe(Autocast::bf16);
  on_gpu.device = Device::cuda;
  Recipe kept = recipe();
  kept.host_memory = HostMemory::keep;
  for (const Recipe& of : {recipe(), kept, on_gpu, fused(Autocast::bf16, Weights::master)}) {
    for (const double bytes : {6 * gib, 24 * gib, 79.1 * gib}) {
      const int64_t B = largest_batch(config, of, 1024, 2, bytes);
      ASSERT_GE(B, 1);
      EXPECT_LE(step_memory(config, of, B, 1024, 2).total(), bytes);
      EXPECT_GT(step_memory(config, of, B + 1, 1024, 2).total(), bytes);
    }
    EXPECT_EQ(largest_batch(config, of, 1024, 1, 1 * gib), 0);
    EXPECT_EQ(largest_batch(preset("tiny"), of, 1, 1, 1e15), 65536);
  }
  // Exactly so much.
  EXPECT_EQ(largest_batch(config, kept, 256, 1, step_memory(config, kept, 5, 256).total()), 5);
}

}  // namespace step_memory_test
