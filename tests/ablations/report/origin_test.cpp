// What a page and its charts are of.
#include "ablations/report/origin.h"

#include "tests/ablations/made_up_study.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace origin_test {

using namespace ablations;

TEST(Origin, CallsDevicesByTheirNames) {
  for (const auto& [name, called] :
       {std::pair("AMD EPYC, 2 threads", "an AMD EPYC (2 threads)"),
        {"Intel(R) Xeon(R) Processor @ 2.70GHz, 2 threads", "an Intel Xeon (2 threads)"},
        {"NVIDIA H100 80GB HBM3", "an NVIDIA H100 80GB HBM3"},
        {"Tesla T4", "a Tesla T4"},
        {"AMD Ryzen 9 5950X 16-Core Processor, 1 thread", "an AMD Ryzen 9 5950X (1 thread)"},
        {"CPU", "a CPU"},
        {"", "an unknown device"}}) {
    EXPECT_EQ(subject_words("gpt2-124m", {model::Device::cpu, name}), std::string("Training GPT-2 124M on ") + called);
  }
  EXPECT_EQ(subject_words("tiny", {model::Device::cuda, "Tesla T4"}), "Training the tiny model on a Tesla T4");
  EXPECT_EQ(subject_words("gpt2-m", {model::Device::cuda, "Tesla T4"}), "Training the gpt2-m model on a Tesla T4");
}

TEST(Origin, SaysWhatWasMeasuredWhereAndWhen) {
  Study study = made_up::study();
  study.created = "2026-01-02T03:04:05Z";
  study.workload.parameters = 124439808;
  study.workload.tokens_per_step = 4096;
  study.workload.accumulation = 4;
  EXPECT_EQ(origin_of(study).source,
            "A ladder \u00b7 gpt2-124m, B=4 T=256 \u00d7 4 micro-steps \u00b7 A processor \u00b7 2026-01-02 \u00b7 CPU "
            "figures, not comparable with a GPU's \u00b7 unfinished: 15 of 15 runs");
  EXPECT_EQ(measured_words(study),
            "Measured on A processor (CPU), 2026-01-02: gpt2-124m, 124,439,808 parameters, B=4 T=256 \u00d7 4 "
            "micro-steps, 4,096 tokens per step.");
  study.device.kind = model::Device::cuda;
  study.finished = study.created;
  study.swept = Swept::batch;
  EXPECT_EQ(origin_of(study).source,
            "A ladder \u00b7 gpt2-124m, T=256 \u00d7 4 micro-steps \u00b7 A processor \u00b7 2026-01-02");
  EXPECT_EQ(measured_words(study),
            "Measured on A processor (CUDA GPU), 2026-01-02: gpt2-124m, 124,439,808 parameters, T=256 \u00d7 4 "
            "micro-steps.");
}

TEST(Origin, OfATraceAndOfATraining) {
  TraceDocument trace;
  trace.title = "+ flash attention";
  trace.created = "2026-01-02T03:04:05Z";
  trace.device = {model::Device::cuda, "Tesla T4"};
  trace.workload.model = "gpt2-124m";
  trace.workload.B = 16;
  trace.workload.T = 1024;
  EXPECT_EQ(origin_of(trace).subject, "Training GPT-2 124M on a Tesla T4");
  EXPECT_EQ(origin_of(trace).source, "+ flash attention \u00b7 B=16 T=1024 \u00b7 Tesla T4 \u00b7 2026-01-02");
  Training training;
  training.created = trace.created;
  training.settings.model = "tiny";
  training.settings.B = 1;
  training.settings.T = 64;
  training.settings.accumulation = 2;
  training.settings.data.source = "plays.txt";
  EXPECT_EQ(origin_of(training, trace.device).subject, "Training the tiny model on a Tesla T4");
  EXPECT_EQ(origin_of(training, trace.device).source,
            "tiny, B=1 T=64 \u00d7 2 micro-steps \u00b7 plays.txt \u00b7 Tesla T4 \u00b7 2026-01-02");
}

TEST(Origin, OfAGate) {
  GateResult result;
  result.created = "2026-01-02T03:04:05Z";
  result.pairs = 6;
  result.warnings = {"one: with its explanation", "two", "three"};
  ComparedRecipe entry;
  entry.setting.model = "gpt2-124m";
  entry.setting.device = "Tesla T4";
  result.comparison.emplace().entries = {entry, entry};
  Origin origin = origin_of(result);
  EXPECT_EQ(origin.subject, "Training GPT-2 124M on a Tesla T4");
  EXPECT_EQ(origin.source, "Tesla T4 \u00b7 2026-01-02 \u00b7 against a program \u00b7 6 pairs of runs");
  EXPECT_EQ(origin.warnings, "Warnings: one: with its explanation; two (and 1 more)");
  result.subject = "rung flash of ladder gpt2, B=16 T=1024";
  EXPECT_TRUE(
      origin_of(result).source.starts_with("Tesla T4 \u00b7 rung flash of ladder gpt2, B=16 T=1024 \u00b7 2026"));
  result.comparison->entries[1].setting.device = "NVIDIA H200";  // compared by force
  origin = origin_of(result);
  EXPECT_EQ(origin.subject, "");
  EXPECT_TRUE(origin.source.starts_with("Tesla T4 \u00b7 NVIDIA H200 \u00b7 rung flash of ladder gpt2"));
}

TEST(Origin, NamesTheFirstWarningsWithoutTheirExplanations) {
  Study study = made_up::study();
  EXPECT_EQ(origin_of(study).warnings, "");
  study.warnings = {"1 of 35 runs was disturbed: r1-04 shared"};
  EXPECT_EQ(origin_of(study).warnings, "Warning: 1 of 35 runs was disturbed");
  study.warnings.insert(study.warnings.end(),
                        {"rung 2 \"flash\": losses differ", "load average 9: other work", "d: e"});
  EXPECT_EQ(origin_of(study).warnings,
            "Warnings: 1 of 35 runs was disturbed; rung 2 \"flash\": losses differ; load average 9 (and 1 more)");
}

}  // namespace origin_test
