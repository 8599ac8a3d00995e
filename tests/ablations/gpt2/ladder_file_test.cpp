// Ladder files and the rungs they make on machines with and without a GPU.
#include "ablations/gpt2/ladder_file.h"

#include "ablations/techniques/techniques.h"
#include "files/files.h"
#include "harness/process/unfit.h"
#include "tests/harness/machines.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

namespace ladder_file_test {

namespace fs = std::filesystem;
using namespace ablations;
using files::Json;
using harness::Machine;
using machines::cpu;
using machines::hopper;

class LadderFile : public testing::Test {
 protected:
  const files::TemporaryFolder temporary_{"ladder-test"};
  const fs::path file_ = temporary_.path() / "ladder.json";

  // A ladder of these rungs with some fields changed; null removes one.
  static std::string document(const std::vector<std::string>& rungs, const Json& changes) {
    Json json{{"kind", "ladder"},
              {"schema_version", 1},
              {"name", "test"},
              {"title", "test"},
              {"start", Json::object()},
              {"rungs", rungs},
              {"workload", {{"model", "tiny"}, {"batch", 1}, {"context", 8}}},
              {"plan", {{"repeats", 1}, {"warmup_steps", 0}, {"timed_steps", 1}}}};
    json.merge_patch(changes);
    return json.dump();
  }
  std::string refusal(const std::vector<std::string>& rungs, const Json& changes = Json::object()) {
    std::ofstream(file_, std::ios::binary) << document(rungs, changes);
    const std::string message = refusal_of([&] { return load_ladder(file_.string()); });
    EXPECT_TRUE(message == "accepted" || message.starts_with(file_.string())) << message;
    return message;
  }
};

// files_test.cpp has what is no JSON, fields_test.cpp what has wrong types, recipe_test.cpp wrong recipes.
TEST_F(LadderFile, TellsWhatIsWrongWithIt) {
  EXPECT_EQ(refusal({"foreach", "fused_adamw"}), "accepted");
  EXPECT_EQ(refusal({"graph"}, {{"start", {{"device", "cuda"}}}}), "accepted");
  for (const auto& [changes, words] : std::vector<std::pair<Json, const char*>>{
           {{{"kind", "plan"}}, "not a ladder: \"kind\" is \"plan\""},
           {{{"rugns", Json::array()}}, "rugns"},
           {{{"workload", {{"btach", 2}}}}, "btach"},
           {{{"workload", {{"batch", 1e30}}}}, "batch"},
           {{{"workload", {{"model", "gpt5"}}}}, "unknown model \"gpt5\""},
           {{{"plan", {{"repeats", 1'000'000'000}}}}, "repeats"},
           {{{"start", {{"attn", "flash"}}}},
            "field [start]: unknown recipe field \"attn\"; the known fields are device"},
           {{{"start", {{"vocabulary_rows", 1e30}}}},
            "\"vocabulary_rows\" must be a whole number between 1 and 1048576, got 1e+30"},
           {{{"reference", "gpu"}}, "reference \"gpu\" is not one of its rungs"},
           {{{"shown", "gpu"}}, "shown \"gpu\" is not one of its rungs"}}) {
    EXPECT_TRUE(has(refusal({"bf16"}, changes), words));
  }
  for (const auto& [rungs, words] : std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{"bf16", "warp"}, "rungs[1] \"warp\": unknown optimization; the known optimizations are gpu"},
           {{"bf16", "bf16"}, "rungs[1] \"bf16\": already on"},
           {{"gpu", "bf16", "fp16"}, "rungs[2] \"fp16\": cannot follow \"bf16\""},
           {{"gpu", "onednn", "tf32"}, "rungs[2] \"tf32\": cannot follow \"onednn\""},
           {{"tf32"}, "rungs[0] \"tf32\": needs \"gpu\" before it"},
           {{"tf32", "gpu"}, "rungs[0] \"tf32\": needs \"gpu\" before it"},
           {{"fused_adamw", "foreach"}, "cannot follow \"fused_adamw\""}}) {
    EXPECT_TRUE(has(refusal(rungs), words));
  }
}

TEST_F(LadderFile, TellsThatItCannotBeRead) {
  fs::resize_file((std::ofstream(file_), file_), (size_t{64} << 20) + 1);  // a hole, not written to the disk
  for (const auto& [name, words] : std::vector<std::pair<std::string, const char*>>{
           {"nowhere.json", "nowhere.json: No such file"},
           {"../ladders/tiny", "../ladders/tiny: No such file"},
           {"/dev/zero", "/dev/zero: must be a file, got a device or a pipe"},
           {"./", "./: is a folder, not a file"},
           {file_.string(), "must be at most 67108864 bytes, got 67108865"}}) {
    EXPECT_TRUE(has(refusal_of([&, name = name] { return load_ladder(name); }), words));
  }
}

TEST_F(LadderFile, ShippedLaddersLoad) {
  const auto names = ladder_names();
  EXPECT_NE(std::find(names.begin(), names.end(), "gpt2"), names.end());
  for (const std::string& name : names) EXPECT_EQ(load_ladder(name).name, name);
}

TEST(Climb, EveryRungIsOneEditMore) {
  const auto rungs = climb(load_ladder("gpt2-cpu"), cpu);
  ASSERT_EQ(rungs.size(), 7U);
  for (size_t i = 1; i < rungs.size(); ++i) {
    EXPECT_EQ(rungs[i].status, Rung::Status::planned) << rungs[i].reason;
    EXPECT_EQ(recipe_diff(rungs[i - 1].recipe, rungs[i].recipe).size(), 1U) << rungs[i].optimization;
    EXPECT_EQ(rungs[i].applied.size(), i);
  }
  EXPECT_EQ(recipe_of(rungs.back()).vocabulary_rows, 50304);
  EXPECT_EQ(reference_rung(rungs), 0U);
}

// On a GPU no rung that has not trained on one.
TEST(DefaultRung, IsTheLastThatIsShownAndAppliesHere) {
  const auto default_of = [](const char* name, const std::string& shown, const Machine& machine) {
    Ladder ladder = load_ladder(name);
    if (!shown.empty()) ladder.shown = shown;
    const auto rungs = climb(ladder, machine);
    return name_of(rungs[default_rung(ladder, rungs)]);
  };
  EXPECT_EQ(default_of("gpt2", "", hopper), "master_weights");
  EXPECT_EQ(default_of("gpt2", "packed_attention", hopper), "residual16") << "cuDNN's attention is on";
  EXPECT_EQ(default_of("gpt2", "fp8", hopper), "fp8");
  EXPECT_EQ(default_of("gpt2-cpu", "", cpu), name_of(climb(load_ladder("gpt2-cpu"), cpu).back()));
}

TEST(Climb, TheDataPipelineChangesHowBatchesComeToBeAndNothingElse) {
  for (const auto& [name, machine] : {std::pair{"data-pipeline", &hopper}, {"data-pipeline-cpu", &cpu}}) {
    const auto rungs = climb(load_ladder(name), *machine);
    const size_t first = reference_rung(rungs);
    ASSERT_EQ(rungs.size() - first, 6U) << name;
    EXPECT_EQ(recipe_of(rungs[first]).batches, model::Batches::tokenized);
    for (size_t i = first + 1; i < rungs.size(); ++i) {
      EXPECT_EQ(rungs[i].status, Rung::Status::planned) << name << ": " << rungs[i].reason;
      const Json changed = recipe_diff(rungs[i - 1].recipe, rungs[i].recipe);
      EXPECT_TRUE(changed.size() == 1 && changed.contains("batches")) << name << ": " << changed;
    }
    EXPECT_EQ(recipe_of(rungs.back()).batches, model::Batches::prefetched);
  }
}

TEST(Climb, WithoutAGpuItsRungsSayWhy) {
  const auto rungs = climb(load_ladder("gpt2"), cpu);
  for (const Rung& rung : rungs) {
    const bool of_kernel = rung.optimization == "joined_qkv_gradient";
    const bool gpu_only = rung.optimization == "gpu" || rung.optimization == "tf32" || rung.optimization == "graph";
    EXPECT_EQ(rung.status, gpu_only || of_kernel ? Rung::Status::not_applicable : Rung::Status::planned)
        << rung.optimization;
    EXPECT_EQ(rung.reason, gpu_only    ? "no CUDA device"
                           : of_kernel ? "the joined QKV gradient is a kernel for a GPU"
                                       : "");
    EXPECT_EQ(recipe_of(rung).device, model::Device::cpu);
  }
}

TEST(Climb, WithAGpuCountsFromIt) {
  const auto rungs = climb(load_ladder("gpt2"), hopper);
  EXPECT_EQ(rungs[0].status, Rung::Status::not_measured);
  EXPECT_EQ(reference_rung(rungs), 1U);
  const auto own = static_cast<size_t>(  // by PyTorch's operations up to it
      std::ranges::find(rungs, "packed_attention", &Rung::optimization) - rungs.begin());
  for (size_t i = 1; i < own; ++i) EXPECT_EQ(rungs[i].status, Rung::Status::planned) << rungs[i].reason;
  EXPECT_EQ(recipe_of(rungs.back()).attention, model::Attention::cudnn);
  Machine ampere = hopper;
  ampere.gpu->compute_capability = 80;
  EXPECT_EQ(recipe_of(climb(load_ladder("gpt2"), ampere)[own - 1]).attention, model::Attention::flash);
  Machine turing = hopper;
  turing.gpu->compute_capability = 75;
  EXPECT_EQ(climb(load_ladder("gpt2"), turing)[2].status, Rung::Status::not_applicable);
}

TEST(Climb, LeavesOutWhatChangesNothingAndWhatIsNotDeterministic) {
  Ladder ladder = load_ladder("gpt2");
  ladder.start["deterministic"] = true;
  const auto deterministic = climb(ladder, hopper);
  EXPECT_EQ(recipe_of(deterministic[find_rung(deterministic, "flash", "test", "gpt2")]).attention,
            model::Attention::flash);
  for (const Rung& rung : deterministic) EXPECT_TRUE(recipe_of(rung).deterministic) << rung.title;
  ladder.rungs = {"gpu", "residual16", "bf16"};  // a stream in autocast's type, before there is one
  const auto rungs = climb(ladder, hopper);
  EXPECT_EQ(rungs[2].status, Rung::Status::not_applicable);
  EXPECT_EQ(rungs[2].reason, "it changes nothing of what is on before it");
  EXPECT_EQ(rungs[3].applied, (std::vector<std::string>{"gpu", "bf16"}));
}

TEST(Climb, OneDnnAndBf16RungsNeedACpuThatHasThem) {
  const auto applicable = [](std::vector<std::string> features) {
    Machine machine = cpu;
    machine.cpu.features = std::move(features);
    const auto rungs = climb(load_ladder("gpt2-cpu"), machine);
    EXPECT_EQ(rungs[2].optimization + " " + rungs[3].optimization, "onednn bf16");
    const bool onednn = rungs[2].status == Rung::Status::planned, bf16 = rungs[3].status == Rung::Status::planned;
    EXPECT_EQ(recipe_of(rungs[4]).matmul_precision == model::MatmulPrecision::medium, onednn);
    EXPECT_EQ(recipe_of(rungs[4]).autocast == model::Autocast::bf16, bf16);
    return std::pair(onednn, bf16);
  };
  EXPECT_EQ(applicable({"avx2"}), std::pair(false, false));
  EXPECT_EQ(applicable({"avx512f"}), std::pair(true, false));
  EXPECT_EQ(applicable({"avx2", "avx_ne_convert"}), std::pair(true, false));
  EXPECT_EQ(applicable({"avx512f", "avx512_bf16"}), std::pair(true, true));
}

TEST(RecipeObstacle, WhatADeviceCannotDoIsRefused) {
  const Machine turing{.cpu = {}, .gpu = harness::Gpu{"T4", 75, int64_t{16} << 30}, .no_gpu_reason = ""};
  const auto refused = [](const model::Recipe& recipe, const Machine& machine, const std::string& reason) {
    EXPECT_NE(recipe_obstacle(recipe, machine).find(reason), std::string::npos)
        << to_json(recipe).dump() << ": " << recipe_obstacle(recipe, machine);
  };
  const auto possible = [](const model::Recipe& recipe, const Machine& machine) {
    EXPECT_EQ(recipe_obstacle(recipe, machine), "") << to_json(recipe).dump();
  };
  using model::Attention;
  using model::Autocast;
  using model::Device;
  using model::MatmulPrecision;
  refused({.device = Device::cuda}, cpu, "no CUDA device");
  refused({.execution = model::Execution::graph}, hopper, "execution graph needs device cuda");
  refused({.device = Device::cuda, .matmul_precision = MatmulPrecision::medium}, hopper, "has highest and high");
  refused({.device = Device::cuda, .matmul_precision = MatmulPrecision::high}, turing, "T4 has 7.5");
  refused({.device = Device::cuda, .autocast = Autocast::bf16}, turing, "needs compute capability 8.0");
  possible({.device = Device::cuda, .autocast = Autocast::fp16}, turing);
  for (const Attention attention : {Attention::flash, Attention::cudnn}) {
    refused({.device = Device::cuda, .attention = attention}, hopper, "16-bit types only");
    refused({.device = Device::cuda, .autocast = Autocast::fp16, .attention = attention}, turing, "T4 has 7.5");
    possible({.device = Device::cuda, .autocast = Autocast::bf16, .attention = attention}, hopper);
  }
  refused({.device = Device::cuda, .autocast = Autocast::bf16, .attention = Attention::cudnn, .deterministic = true},
          hopper, "no deterministic backward pass");
  possible({.device = Device::cuda, .autocast = Autocast::bf16, .attention = Attention::flash, .deterministic = true},
           hopper);
  for (const Attention attention : {Attention::manual, Attention::math, Attention::efficient}) {
    possible({.device = Device::cuda, .attention = attention}, hopper);
  }
  refused({.attention = Attention::efficient}, cpu, "attention efficient needs device cuda; a CPU has manual, math");
  refused({.attention = Attention::cudnn}, cpu, "attention cudnn needs device cuda; a CPU has manual, math");
  possible({.attention = Attention::flash}, cpu);
}

TEST(FindRung, ARungThatDoesNotApplyHereIsNotAMistake) {
  const auto rungs = climb(load_ladder("gpt2"), cpu);
  EXPECT_THROW((void)find_rung(rungs, "gpu", "--rung", "gpt2"), harness::Unfit);
  EXPECT_THROW((void)find_rung(rungs, "warp", "--rung", "gpt2"), std::invalid_argument);
}

TEST(FindRung, ATitleInAnyCaseWillDo) {
  const auto rungs = climb(load_ladder("gpt2-cpu"), cpu);
  const auto found = [&](const std::string& typed) { return name_of(rungs[find_rung(rungs, typed, "--rung", "x")]); };
  for (const char* typed : {"bf16", "BF16", "bf16 autocast", "+ BF16 Autocast"}) EXPECT_EQ(found(typed), "bf16");
  EXPECT_EQ(found("Float32"), "start");
  EXPECT_EQ(found("START"), "start");
  EXPECT_EQ(found("oneDNN float32 products"), "onednn") << "what its proof has made of the title";
  EXPECT_EQ(found("flash attention (cuDNN)"), "flash");
  EXPECT_THROW((void)found("autocast"), std::invalid_argument);
  EXPECT_THROW((void)found(""), std::invalid_argument);
  EXPECT_TRUE(refusal_of([&] { return found("fash"); }).starts_with("--rung fash: no such rung; did you mean flash?"));
}

// Studies compare recipes without knowing their fields.
TEST(Recipes, DocumentsKnowThePlainOne) { EXPECT_EQ(plain_recipe(), model::to_json(model::Recipe())); }

}  // namespace ladder_file_test
