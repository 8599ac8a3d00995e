// What makes two times comparable.
#include "ablations/run/run_setting.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace run_setting_test {

using namespace ablations;
using files::Json;

const Json said{{"cpu", {{"model", "AMD EPYC"}, {"logical_cores", 2}}},
                {"gpu", {{"name", "NVIDIA H200"}}},
                {"driver", "580.82.07"},
                {"driver_cuda", "13.0"},
                {"cuda", "13.0"},
                {"torch", "2.11.0"},
                {"threads", 2},
                {"torch_cpu_capability", "AVX512"},
                {"kernel_switches", Json::object()},
                {"load_average", {1, 2, 3}}};
const Workload workload{.model = "gpt2-124m", .B = 16, .T = 1024, .positions = 1024};

Environment read(const Json& json) { return value_from<Environment>(json, "the environment"); }

const Environment environment = read(said);

TEST(Setting, OfAGpuHasItsDriverAndOfACpuItsThreads) {
  const auto expect_has = [](const Json& recipe, const Json& facts, const char* lacks) {
    const Json setting = json_of(setting_of(environment, workload, recipe));
    Json merged = setting;
    merged.update(facts);
    EXPECT_EQ(merged, setting);
    EXPECT_FALSE(setting.contains(lacks)) << setting;
  };
  expect_has({{"device", "cuda"}, {"autocast", "bf16"}},
             {{"device", "NVIDIA H200"}, {"driver", "580.82.07"}, {"dtype", "bf16"}, {"batch", 16}}, "threads");
  expect_has({{"device", "cpu"}, {"autocast", "off"}},
             {{"device", "AMD EPYC"},
              {"threads", 2},
              {"cores", 2},
              {"cpu_capability", "AVX512"},
              {"kernel_switches", "none"},
              {"dtype", "float32"}},
             "driver");
}

TEST(Setting, WhatItsSourceDoesNotSayIsNullAndWhatAnOlderFileLacksStaysAway) {
  Environment silent = environment;
  silent.kernel_switches.reset();
  silent.threads.reset();
  const Json cpu = json_of(setting_of(silent, workload, {{"device", "cpu"}}));
  EXPECT_TRUE(cpu.at("kernel_switches").is_null() && cpu.at("threads").is_null() && cpu.at("dtype").is_null());
  EXPECT_EQ(json_of(value_from<Setting>(cpu, "it")), cpu);
  Json older = cpu;
  for (const char* field : {"cores", "cpu_capability", "kernel_switches"}) older.erase(field);
  EXPECT_EQ(json_of(value_from<Setting>(older, "it")), older);
  older["batch"] = "many";
  EXPECT_THROW((void)value_from<Setting>(older, "it"), std::invalid_argument);
}

TEST(Setting, OfAMachineSaysNothingOfTheWork) {
  const auto known = [](const Setting& setting) {
    std::string names;
    for (const auto& [name, value] : setting.facts()) names += value ? name + " " : "";
    return names;
  };
  EXPECT_EQ(known(machine_setting(environment, true)), "cuda device driver driver_cuda kernel_switches torch ");
  EXPECT_EQ(known(machine_setting(environment, false)), "cores cpu_capability device kernel_switches threads torch ");
  EXPECT_EQ(machine_setting(environment, true).device, "NVIDIA H200");
}

TEST(Setting, EveryFieldThatDiffersIsNamed) {
  const Facts facts = setting_of(environment, workload, {{"device", "cuda"}, {"autocast", "bf16"}}).facts();
  EXPECT_TRUE(differences(facts, facts).empty());
  for (const auto& [name, value] : facts) {
    Facts other = facts;
    other[name] = "something else";
    const auto lines = differences(facts, other);
    if (!value && (name == "cores" || name == "cpu_capability")) {  // below
      EXPECT_TRUE(lines.empty()) << name;
      continue;
    }
    ASSERT_EQ(lines.size(), 1U) << name;
    EXPECT_TRUE(lines[0].starts_with(name + ": ")) << lines[0];
    EXPECT_TRUE(lines[0].ends_with(" against something else")) << lines[0];
    if (!value || name == "kernel_switches") continue;  // below
    other.erase(name);
    EXPECT_EQ(differences(facts, other).size(), 1U) << name;
    EXPECT_EQ(differences(other, facts).size(), 1U) << name;
  }
}

TEST(Setting, WhatChoosesTheKernelsCountsAndOlderRecordsMayBeSilent) {
  const auto setting = [](const Json& edit) {
    Json other = said;
    other.merge_patch(edit);
    return setting_of(read(other), workload, {{"device", "cpu"}});
  };
  const Setting now = setting(Json::object());
  EXPECT_EQ(differences(now, setting({{"torch_cpu_capability", "DEFAULT"}})),
            std::vector<std::string>{"cpu_capability: AVX512 against DEFAULT"});
  EXPECT_EQ(differences(now, setting({{"cpu", {{"logical_cores", 1}}}})),
            std::vector<std::string>{"cores: 2 against 1"});
  const Setting switched = setting({{"kernel_switches", {{"MKL_CBWR", "AVX2"}, {"OMP_PROC_BIND", "close"}}}});
  EXPECT_EQ(differences(now, switched),
            std::vector<std::string>{"kernel_switches: none against MKL_CBWR=AVX2, OMP_PROC_BIND=close"});
  const Setting gpu = setting_of(environment, workload, {{"device", "cuda"}});
  Environment elsewhere = environment;
  elsewhere.kernel_switches = std::map<std::string, std::string>{{"NVIDIA_TF32_OVERRIDE", "1"}};
  EXPECT_EQ(differences(gpu, setting_of(elsewhere, workload, {{"device", "cuda"}})).size(), 1U);
  // Null takes a field out.
  const Setting older =
      setting({{"torch_cpu_capability", nullptr}, {"kernel_switches", nullptr}, {"cpu", {{"logical_cores", nullptr}}}});
  for (const auto& [one, other] : {std::pair{older, older}, {older, now}, {now, older}}) {
    EXPECT_TRUE(differences(one, other).empty());
  }
  EXPECT_EQ(differences(older, switched).size(), 1U);  // an older program did not look: there may have been none
  EXPECT_EQ(differences(switched, older).size(), 1U);
}

TEST(Setting, OneProgramIsKnownByItsCommitOrElseItsFile) {
  const auto program = [](const char* commit, bool dirty, const Json& sha256) {
    return read({{"cpu", Json::object()},
                 {"gpu", nullptr},
                 {"git_commit", commit},
                 {"git_dirty", dirty},
                 {"program_sha256", sha256}});
  };
  const auto a = program("a", false, nullptr), changed1 = program("a", true, "1");
  EXPECT_TRUE(are_of_one_program(a, a) && are_of_one_program(changed1, changed1));
  EXPECT_FALSE(are_of_one_program(a, program("b", false, nullptr)));
  EXPECT_FALSE(are_of_one_program(changed1, program("a", true, "2")));
  EXPECT_FALSE(are_of_one_program(program("a", true, nullptr), program("a", true, nullptr)));
  // Built outside of git, every program has the commit "unknown".
  const auto outside = program("unknown", false, nullptr), outside1 = program("unknown", false, "1");
  EXPECT_TRUE(are_of_one_program(outside1, outside1));
  EXPECT_FALSE(are_of_one_program(outside, outside) || are_of_one_program(outside1, program("unknown", false, "2")));
  EXPECT_FALSE(are_of_one_program({}, {}));
}

TEST(RecipeHash, ChangesWithTheRecipeAndTheStepAndNothingElse) {
  const std::string hash = recipe_hash({{"autocast", "bf16"}}, workload);
  EXPECT_EQ(hash.size(), 12U);
  EXPECT_EQ(recipe_hash({{"device", "cpu"}, {"autocast", "bf16"}}, workload), hash);  // a default, said
  Workload seeded = workload;
  seeded.seed = 2;
  EXPECT_EQ(recipe_hash({{"autocast", "bf16"}}, seeded), hash);
  EXPECT_NE(recipe_hash({{"autocast", "fp16"}}, workload), hash);
  Workload larger = workload;
  larger.B = 64;
  EXPECT_NE(recipe_hash({{"autocast", "bf16"}}, larger), hash);
}

TEST(Setting, ARunThatBeganWithoutItsDataInThePageCacheIsNoOthers) {
  Record record;
  record.environment = environment;
  record.workload = workload;
  record.recipe = {{"device", "cpu"}, {"autocast", "off"}};
  const Setting plain = setting_of(record);
  EXPECT_FALSE(json_of(plain).contains("page_cache"));
  record.data = DataUse{.cold = true};
  EXPECT_EQ(differences(plain, setting_of(record)), std::vector<std::string>{"page_cache: as it was against cold"});
  record.data->cold = false;
  EXPECT_TRUE(differences(plain, setting_of(record)).empty());
}

TEST(DeviceSlug, CanBePartOfAFileName) {
  const auto slug = [](std::optional<std::string> device, std::optional<int64_t> threads) {
    Setting setting;
    setting.device = std::move(device);
    setting.threads = threads;
    return setting.device_slug();
  };
  EXPECT_EQ(slug("NVIDIA H200", {}), "nvidia-h200");
  EXPECT_EQ(slug("AMD EPYC", 2), "amd-epyc-2-threads");
  EXPECT_EQ(slug("../../Intel(R) Xeon(R) @ 2.0GHz", {}), "intel-r-xeon-r-2-0ghz");
  EXPECT_EQ(slug({}, {}), "unknown-device");
}

TEST(Setting, TakesWhatItDoesNotSayFromAnother) {
  const Json cpu{{"device", "cpu"}};
  const Setting known = setting_of(environment, workload, cpu);
  Environment silent = environment;
  silent.torch_cpu_capability.reset();
  silent.threads = 4;
  Setting setting = setting_of(silent, workload, cpu);
  setting.fill_from(known);
  EXPECT_EQ(differences(setting, known), std::vector<std::string>{"threads: 4 against 2"});
  EXPECT_EQ(json_of(setting).at("cpu_capability"), "AVX512");
}

}  // namespace run_setting_test

namespace program_versions_test {

namespace fs = std::filesystem;

TEST(ProgramVersions, AreOfTheLoadedPackages) {
  const fs::path folder = fs::path(testing::TempDir()) / "versions" / "lib" / "python3.11" / "site-packages";
  for (const char* name : {"torch-2.11.0+cu130.dist-info", "flash_attn-2.7.dist-info", "numpy-2.1.3.dist-info"}) {
    fs::create_directories(folder / name);
  }
  EXPECT_EQ(ablations::versions_of({folder / "torch" / "lib" / "libtorch_cpu.so", folder / "flash_attn" / "a.so",
                                    "/usr/bin/python3.11", "/usr/lib/libc.so.6"}),
            (std::map<std::string, std::string>{{"python", "3.11"}, {"torch", "2.11.0+cu130"}, {"flash_attn", "2.7"}}));
  EXPECT_EQ(ablations::versions_of({"/opt/lib/libpython3.12.so.1.0", "/gone/site-packages/jax/x.so"}),
            (std::map<std::string, std::string>{{"python", "3.12"}}));
  EXPECT_TRUE(ablations::versions_of({}).empty());
  fs::remove_all(fs::path(testing::TempDir()) / "versions");
}

}  // namespace program_versions_test
