// Whether a step fits, in words, as a table and as JSON.
#include "ablations/profile/memory_plan.h"

#include <gtest/gtest.h>

#include <sstream>

namespace memory_plan_test {

using namespace ablations;

constexpr double gibibyte = 1LL << 30;

RunOptions step(model::Device device, int64_t B) {
  RunOptions options;
  options.B = B;
  options.T = 1024;
  options.recipe.device = device;
  options.recipe.autocast = model::Autocast::bf16;
  options.recipe.host_memory = model::HostMemory::keep;
  return options;
}

MemoryPlan on_gpu(int64_t B, double gib) {
  return memory_plan(step(model::Device::cuda, B), gib * gibibyte, "the GPU has a size");
}

TEST(MemoryPlan, NamesTheLargestBatchThatFits) {
  const MemoryPlan large = on_gpu(64, 80);
  EXPECT_FALSE(large.fits());
  const int64_t B = large.largest_batch;
  EXPECT_GT(B, 1);
  EXPECT_LT(B, 64);
  const std::string says = verdict_text(large);
  EXPECT_EQ(says.find("B=64 does not fit: its step takes about 1"), 0U) << says;
  EXPECT_NE(says.find(" GiB, and the GPU has a size; the largest B that fits is " + std::to_string(B)),
            std::string::npos)
      << says;
  const MemoryPlan fitting = on_gpu(B, 80);
  EXPECT_TRUE(fitting.fits());
  EXPECT_EQ(fitting.largest_batch, B);
  EXPECT_EQ(verdict_text(fitting).find("B=" + std::to_string(B) + " fits: "), 0U) << verdict_text(fitting);
  EXPECT_FALSE(on_gpu(B + 1, 80).fits());
}

TEST(MemoryPlan, SaysThatNotEvenOneSequenceFits) {
  const MemoryPlan none = on_gpu(2, 1);
  EXPECT_FALSE(none.fits());
  EXPECT_EQ(none.largest_batch, 0);
  EXPECT_TRUE(verdict_text(none).ends_with("; not even B=1 fits")) << verdict_text(none);
}

TEST(MemoryPlan, WithoutASizeItIsComparedWithNothing) {
  const MemoryPlan unknown = memory_plan(step(model::Device::cuda, 2), std::nullopt, "no CUDA device");
  EXPECT_FALSE(unknown.fits());
  EXPECT_TRUE(verdict_text(unknown).ends_with(" GiB, compared with nothing: no CUDA device")) << verdict_text(unknown);
  const files::Json json = to_json(unknown);
  EXPECT_TRUE(json.at("fits").is_null() && json.at("memory_bytes").is_null() && json.at("largest_batch").is_null());
}

TEST(MemoryPlan, ItsPartsAreItsTotal) {
  for (const model::Device device : {model::Device::cpu, model::Device::cuda}) {
    for (const int64_t B : {1, 16}) {
      const MemoryPlan plan = memory_plan(step(device, B), 20 * gibibyte, "there is so much");
      const files::Json json = to_json(plan);
      double sum = 0;
      for (const files::Json& part : json.at("parts")) {
        EXPECT_GE(part.at("largest_bytes").get<double>(), part.at("at_peak_bytes").get<double>()) << part;
        sum += part.at("at_peak_bytes").get<double>();
      }
      EXPECT_DOUBLE_EQ(sum, plan.memory.total());
      EXPECT_EQ(json.at("total_bytes"), plan.memory.total());
      EXPECT_LT(json.at("tensor_bytes").get<double>(), plan.memory.total());
      EXPECT_EQ(json.at("fits"), plan.fits());
      EXPECT_EQ(json.at("batch"), B);
    }
  }
}

TEST(MemoryPlan, TheTableFitsATerminal) {
  for (const model::Device device : {model::Device::cpu, model::Device::cuda}) {
    RunOptions options = step(device, 16);
    options.model = "gpt2-1558m";
    options.accumulation = 1000;
    const std::string text = parts_text(memory_plan(options, std::nullopt, "?"));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
    for (const char* has : {"gpt2-1558m, B=16 T=1024, 1000 micro-steps, on a ", "\nweights ", "\nweight copies ",
                            "\nattention ", "\nlogits ", "\nallocator ", "\nprocess ", "\ntotal "}) {
      EXPECT_NE(text.find(has), std::string::npos) << has << "\n" << text;
    }
    EXPECT_EQ(text.find("\nremainders"), std::string::npos) << "nothing is shown of what there is not\n" << text;
  }
}

}  // namespace memory_plan_test
