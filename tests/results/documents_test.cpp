// Documents are the same after they were read and written: the recorded ones to the last digit, and those that nobody
// recorded. They refuse what contradicts itself. That every kind of field is kept and checked: fields_test.cpp.
#include "files/files.h"
#include "files/resources.h"
#include "plots/gate_text.h"
#include "results/ladder.h"
#include "results/plan.h"
#include "results/trace.h"
#include "results/training.h"
#include "study/archive/history_points.h"
#include "study/gate/baseline_file.h"
#include "study/gate/compare.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace documents_test {

namespace fs = std::filesystem;
using namespace plots;
using files::Json;

const fs::path evidence = files::resource_root() / "results" / "evidence";

template <Document T>
Json copied(const Json& json) {
  return json_of(value_from<T>(json, "it"));
}

template <Document... T>
std::map<std::string, Json (*)(const Json&)> copying() {
  return {{T::kind, copied<T>}...};
}

const auto kinds = copying<Baseline, Checkpoint, Comparison, CountersDocument, GateResult, History, Ladder, Noise, Plan,
                           Record, Study, TraceDocument, Training>();

TEST(Documents, ThatAreRecordedAreTheSameWhenCopied) {
  std::map<std::string, size_t> seen;
  for (const fs::path& folder : {evidence, files::resource_root() / "ladders"}) {
    for (const fs::path& file :
         files::files_below(folder, [](const auto& path) { return path.extension() == ".json"; })) {
      const Json json = files::read_any_json(file), kind = files::kind_of(json);
      if (!kind.is_string() || !kinds.contains(kind)) continue;  // of earlier programs
      ++seen[kind];
      const Json copy = kinds.at(kind)(json);
      EXPECT_TRUE(copy.dump() == json.dump()) << file << Json::diff(json, copy).dump(1);
    }
  }
  const std::map<std::string, size_t> least{{"ladder", 4}, {"noise", 2},  {"plan", 20},   {"record", 600},
                                            {"study", 20}, {"trace", 20}, {"training", 4}};
  for (const auto& [kind, count] : least) EXPECT_GE(seen[kind], count) << kind;
}

const Side& measured() {
  static const Side side = read_side(evidence / "intel-xeon-2-cores-2026-11-23");
  return side;
}

Training training() {
  Training made{.created = "2026-11-26T10:00:00Z", .recipe_from = "--recipe"};
  made.settings.recipe["autocast"] = "bf16";
  made.settings.data = {.source = "book.txt", .sha256 = "ab", .tokens = 5000};
  made.settings.weights = FirstWeights{"w.safetensors", "cd"};
  made.settings.steps = 100;
  made.parameters = 1000;
  made.files = {.data = "/text/book.txt", .vocabulary = "/text/gpt2.tiktoken", .weights = {}};
  return made;
}

TEST(Documents, ThatNobodyRecordedAreReadAsTheyWereWritten) {
  GateResult gate;
  gate.verdict = GateOutcome::calibrated;
  gate.pairs = 8;
  gate.noise = {NoiseFloor{0.01, NoiseSource::these_pairs}, std::nullopt};
  gate.calibration = {read_document<Noise>(evidence / "intel-xeon-2-cores-2026-11-23" / "with" / "noise.json")};
  gate.comparison = compare_sides(measured(), measured(), {});
  gate.said = said_of(gate);
  Json other_seed = json_of(*gate.comparison);
  other_seed["entries"][0]["loss"] = {{"compared", false}, {"message", "losses are not compared: another seed"}};
  for (const Json& written : {json_of(gate), json_of(*gate.comparison), other_seed, json_of(history_of(evidence)),
                              json_of(baseline_of(measured().samples.front())),
                              json_of(Checkpoint{.step = 40, .loss = 4.25, .training = training()})}) {
    EXPECT_EQ(kinds.at(written.at("kind"))(written), written);
  }
  EXPECT_TRUE(value_from<Comparison>(other_seed, "it").entries.at(0).loss.is_good());
}

TEST(Documents, OfALadderMayLeaveOutWhatHasADefault) {
  Json json = files::read_any_json(files::resource_root() / "ladders" / "gpt2.json");
  for (const char* field : {"comment", "start_title", "reference"}) json.erase(field);
  const auto ladder = value_from<Ladder>(json, "the ladder");
  EXPECT_EQ(ladder.start_title, "baseline");
  EXPECT_EQ(ladder.workload.accumulation, 1);
  EXPECT_EQ(ladder.start.at("optimizer"), "foreach");
  EXPECT_EQ(json_of(ladder), json);
}

TEST(Documents, OfABaselineGrowByASession) {
  const Sample& sample = measured().samples.front();
  const Baseline baseline = baseline_of(sample);
  EXPECT_EQ(json_of(baseline).at("records").at(0), json_of(sample.records.front()));
  EXPECT_EQ(sample_of(baseline).sessions, std::vector<double>{baseline.median_ms});
  EXPECT_EQ(with_session(baseline, sample).sessions.size(), 2U);
}

TEST(Documents, OfTrainingsSayWhatDiffers) {
  Training other = training();
  other.files.data = "/elsewhere/book.txt";  // its place does not matter
  other.keep = 7;
  EXPECT_TRUE(differences(training().settings, other.settings).empty());
  other.settings.recipe["autocast"] = "off";
  other.settings.seed = 2;
  other.settings.data.sha256 = "ef";
  EXPECT_EQ(differences(training().settings, other.settings),
            (std::vector<std::string>{"data/sha256: ab against ef", "recipe/autocast: bf16 against off",
                                      "seed: 1 against 2"}));
}

TEST(Documents, AreRefusedWhereTheyContradictThemselves) {
  const auto recorded = [](const char* file) { return files::read_any_json(evidence / file); };
  const Json gone(Json::value_t::discarded);
  const Json study = recorded("intel-xeon-2-cores-2026-11-23/study.json"),
             swept = recorded("amd-epyc-avx2-batch-2026-11-24/study.json"),
             plan = recorded("amd-epyc-avx2-batch-2026-11-24/plan.json"),
             trace = recorded("nvidia-h200-products-2026-11-26/master_weights-b64.trace.json"),
             failed{{"kind", "record"},
                    {"schema_version", 1},
                    {"id", "r1-00-start"},
                    {"started", "2026-11-21T11:06:00Z"},
                    {"duration_s", 2.5},
                    {"status", "failed"},
                    {"failure", {{"kind", "signal"}, {"message", "why"}}}},
             begun = json_of(training()),
             gate = json_of(GateResult{.pairs = 6, .comparison = compare_sides(measured(), measured(), {})});
  struct Case {
    const Json& of;
    const char* field;
    Json value;
    std::string says;
  };
  for (const auto& [of, field, value, says] : std::vector<Case>{
           {study, "/runs/0/rung", 7, "it: field [runs][0] refers to rung 7; there are 7, counted from 0"},
           {study, "/runs/1/rung", -1, "[runs][1]"},
           {study, "/runs/1/repeat", -1, "\"repeat\" is -1"},
           {study, "/runs/1/position", -1, "\"position\" is -1"},
           {study, "/rungs/1/index", 0, "has the index 0"},
           {study, "/rungs/1/against", 9, "refers to rung 9"},
           {study, "/rungs/1/guard/guarded_by", 9, "refers to rung 9"},
           {study, "/headline/last", 9, "refers to rung 9"},
           {study, "/rungs/1/peer", "pytorch-eager", "is a peer's, and \"against\" is no rung of this program"},
           {study, "/rungs/1/status", "voided", "[rungs][1][status]"},
           {swept, "/rungs/2/workload", gone, "it: field [rungs][2] of a sweep has no \"workload\""},
           {plan, "/rungs/0/status", "ready", "it: field [rungs][0][status]"},
           {plan, "/swept", "seed", "it: field [swept]"},
           {plan, "/rungs/0/recipe/device", "tpu", "it: rung 0: recipe field \"device\""},
           {plan, "/reference", 99, "it: reference 99 is not a rung"},
           {trace, "/device/kind", "cpu", "it: "},
           {failed, "/status", "missing", "must be one of ok, failed, got missing"},
           {failed, "/failure", gone, "field \"failure\" is missing"},
           {gate, "/comparison/entries/0/verdict", "FASTER", "it: field [comparison][entries][0][verdict]"},
           {begun, "/settings/dropout", 0.1, "unknown field \"dropout\""},
           {begun, "/settings/steps", 0, "[settings][steps]"},
       }) {
    EXPECT_NO_THROW((void)kinds.at(of.at("kind"))(of));
    Json edited = of;
    const Json::json_pointer place(field);
    edited[place] = value;
    if (value.is_discarded()) edited[place.parent_pointer()].erase(place.back());
    try {
      (void)kinds.at(of.at("kind"))(edited);
      ADD_FAILURE() << field << " is taken";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  }
}

TEST(PeerName, HasAVersionOnlyWhereItBeginsWithADigit) {
  for (const auto& [peer, torch, mode] : {std::tuple{"pytorch-cuda-graphs", "", "cuda-graphs"},
                                          {"pytorch-2.15-cuda-graphs", "2.15", "cuda-graphs"},
                                          {"pytorch-2.16.0.dev20261101-eager", "2.16.0.dev20261101", "eager"},
                                          {"", "", ""}}) {
    EXPECT_EQ(peer_name(peer).torch, torch);
    EXPECT_EQ(peer_name(peer).mode, mode);
  }
  for (const auto& [version, shown] : {std::pair{"2.15.0+cu130", "2.15"}, {"2.15.1", "2.15.1"}, {"2.0", "2.0"}}) {
    EXPECT_EQ(short_version(version), shown);
  }
  EXPECT_EQ(with_version("PyTorch eager", "2.15"), "PyTorch 2.15 eager");
  EXPECT_EQ(with_version("PyTorch eager", ""), "PyTorch eager");
  EXPECT_EQ(with_version("JAX", "2.15"), "JAX");
}

}  // namespace documents_test
