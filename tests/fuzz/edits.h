// Seeds that differ from their kind's valid.json in a few values: what is changed in it, as a JSON patch
// (https://www.rfc-editor.org/rfc/rfc6902). A header of its own, since libFuzzer's programs begin from these too.
#pragma once

#include "files/files.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace fuzz {

struct Edit {
  std::string kind, name;
  nlohmann::json patch;
  bool taken = false;

  [[nodiscard]] std::string bytes() const {
    const auto file = std::filesystem::path(FUZZ_SEEDS) / kind / "valid.json";
    return nlohmann::json::parse(files::read_file(file)).patch(patch).dump();
  }
};

// A verdict with what is said of it.
constexpr const char* gate_with_said = R"({
  "kind": "gate", "schema_version": 1, "created": "2026-11-21T11:06:00Z", "subject": "", "verdict": "SAME", "exit_status": 0,
  "against": "program", "pairs": 1, "topped_up": false, "min_effect": 0.02, "reasons": [], "warnings": [], "noise": [null],
  "calibration": [], "saved": [], "added_to": [],
  "comparison": {
    "kind": "comparison", "schema_version": 1, "created": "2026-11-21T11:06:00Z", "min_effect": 0.02, "confidence": 0.95,
    "method": "paired", "base": {"source": "old", "runs": 1, "programs": [], "left_out": []},
    "head": {"source": "new", "runs": 1, "programs": ["0123abc"], "left_out": ["r2: killed"]},
    "forced": ["torch: 2.10 against 2.11"], "warnings": ["a debug build"],
    "entries": [{
      "label": "float32", "recipe_hash": "2bc5f3bc033a", "recipe": {"device": "cpu"}, "recipe_diff": {},
      "setting": {"model": null, "batch": 1, "context": 16, "accumulation": 1, "positions": null, "dtype": null, "torch": null, "device": "CPU"},
      "pairs": 1, "base_runs": 1, "head_runs": 1, "sessions": null, "base_runs_ms": [3.0], "head_runs_ms": [3.5],
      "base_ms": 3.0, "head_ms": 3.5, "ratio": 1.17, "lo": null, "hi": null, "verdict": "INCONCLUSIVE",
      "slower_pairs": 1, "sign_test_p": 1.0, "loss": {"compared": false, "message": "another seed"}, "memory": null,
      "flags": ["base r1 shared: the processor was busy"]}],
    "unmatched": [{"side": "base", "label": "+ flash"}]},
  "said": {"title": "a title", "headline": "No change that matters", "lines": [], "command": "",
           "remarks": [{"severity": "good", "code": "verdict", "text": "a text", "fix": ""}]}})";

inline const std::vector<Edit>& edits() {
  using Json = nlohmann::json;
  using Patch = std::vector<Json>;
  constexpr bool taken = true;
  const auto add = [](const char* path, Json value) {
    return Json::object({{"op", "add"}, {"path", path}, {"value", std::move(value)}});
  };
  const auto remove = [](const char* path) { return Json::object({{"op", "remove"}, {"path", path}}); };
  const auto replace = [](const char* path, Json value) {
    return Json::object({{"op", "replace"}, {"path", path}, {"value", std::move(value)}});
  };
  static const std::vector<Edit> all{
      {"plan", "batch-overflows", Patch{replace("/workload/batch", int64_t{1} << 62)}},
      {"plan", "line-end-in-a-run", Patch{replace("/runs/0/id", "r1\n/../../x")}},
      {"plan", "path-in-a-run", Patch{replace("/runs/0/id", "../../x")}},
      {"plan", "path-in-a-rung", Patch{replace("/rungs/3/name", "../x")}},
      {"plan", "text-of-copies",
       Patch{add("/workload/repeated", {{"source", "play.txt"}, {"bytes", 500000000}}),
             add("/workload/cold_cache", true)},
       taken},
      {"record", "fewer-faults-than-steps", Patch{replace("/timing/page_faults", Json::array({1}))}},
      {"record", "losses-that-overflow", Patch{replace("/timing/loss", Json::array({1.7e308, -1.7e308, 1e308, 0}))}},
      {"record", "more-skipped-than-2-63", Patch{replace("/timing/skipped_steps", UINT64_MAX)}},
      {"record", "no-load-average", Patch{replace("/environment/load_average", Json::array())}},
      {"record", "not-finite", Patch{replace("/timing/loss/3", nullptr)}, taken},
      {"record", "observation-of-2-63", Patch{add("/observations/operations", uint64_t{1} << 63)}},
      {"record", "odd-observations",
       Patch{replace("/observations/fingerprint", Json::array({1})), replace("/observations/backward_nodes", 7)}},
      {"record", "onednn",
       Patch{replace("/observations/fingerprint/float32/precision", "bf16"),
             replace("/observations/backward_nodes", Json::parse(R"({"ScaledDotProductCudnnAttentionBackward0": 1})"))},
       taken},
      {"record", "time-too-short-for-a-rate", Patch{replace("/timing/step_ms", std::vector<double>(4, 1e-320))}},
      {"record", "tokens-as-text", Patch{replace("/workload/tokens_per_step", "many")}},
      {"record", "unproven", Patch{replace("/proofs/0/passed", false)}, taken},
      {"record", "without-processor",
       Patch{remove("/environment/cpu"), remove("/environment/gpu"), remove("/environment/threads"),
             remove("/environment/load_average"), remove("/environment/torch")}},
      {"report", "gate", Patch{add("/gates/-", Json::parse(gate_with_said))}, taken},
      {"report", "gate-of-another-severity",
       Patch{add("/gates/-", Json::parse(gate_with_said)), replace("/gates/0/said/remarks/0/severity", "sad")}},
      {"report", "gate-with-other-fields",
       Patch{add("/gates/-", Json::parse(gate_with_said)), add("/gates/0/words", {{"mood", "good"}})}},
      {"report", "run-of-no-rung", Patch{replace("/studies/0/runs/0/rung", 99)}},
      {"report", "study-of-another-version", Patch{replace("/studies/0/study/schema_version", 2)}},
      {"study", "escapes",
       Patch{replace("/device/name", "\u009b1m"), replace("/rungs/0/label", "@\a"),
             replace("/rungs/0/title", "\x1b[31m=1+1\u202e\r\n,\"")},
       taken},
      {"study", "rung-beyond-the-last", Patch{replace("/runs/0/rung", 99)}},
      {"study", "sweep-without-a-size", Patch{remove("/rungs/0/workload"), add("/swept", "batch")}},
      {"study", "text-of-copies",
       Patch{add("/plan/repeated", {{"source", "play.txt"}, {"bytes", 500000000}}), add("/plan/cold_cache", true)},
       taken},
      {"study", "time-without-a-rate", Patch{replace("/rungs/0/tokens_per_s", nullptr)}},
      {"trace", "cuda",
       Patch{replace("/device", {{"kind", "cuda"}, {"name", "GPU"}}), replace("/summary/launch_bound_percent", 1.5),
             replace("/summary/kernels", 6), replace("/summary/kernel_launches", 5),
             replace("/summary/graph_launches", 1)},
       taken},
      {"trace", "escapes",
       Patch{replace(
           "/summary/by_name",
           Json::parse(R"([{"name": "\u001b[2J<b>|\u202e", "ms": 1.0, "min_ms": 1.0, "max_ms": 1.0, "count": 2}])"))},
       taken},
      {"trace", "launches-of-nothing", Patch{replace("/device/kind", "cuda")}},
      {"trace", "rows-without-names",
       Patch{replace("/summary/by_name", Json::parse(R"([{"ms": 1.0, "min_ms": 1.0, "max_ms": 1.0, "count": 2}])"))}},
      {"trace", "times-beyond-counting", Patch{replace("/summary/wall_ms", 1e300)}},
  };
  return all;
}

}  // namespace fuzz
