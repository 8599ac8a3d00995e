// A trace is the same after it was read and written: the recorded ones, and what only some have.
#include "results/trace.h"

#include "files/resources.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace trace_test {

namespace fs = std::filesystem;
using namespace results;
using files::Json;

std::string copied(const Json& json) { return json_of(value_from<TraceDocument>(json, "the trace")).dump(); }

fs::path evidence() { return files::resource_root() / "results" / "evidence"; }

TEST(TraceDocument, OfTheEvidenceIsTheSameWhenCopied) {
  size_t seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator(evidence())) {
    if (entry.path().extension() != ".json") continue;
    const Json json = files::read_any_json(entry.path());
    if (files::kind_of(json) != "trace") continue;
    ++seen;
    EXPECT_EQ(copied(json), json.dump()) << entry.path();
  }
  EXPECT_GE(seen, 16U);
}

TEST(TraceDocument, KeepsWhatIsNullOrAbsent) {
  Json json = files::read_any_json(evidence() / "intel-xeon-2-cores-2026-11-23" / "with" / "roofline.json");
  ASSERT_TRUE(json.contains("flags"));
  json.erase("flags");
  json["memory"]["reserved_peak_bytes"] = 7;
  json["roofline"]["parts"][0]["flops_per_s"] = nullptr;
  EXPECT_EQ(copied(json), json.dump());
  json.erase("roofline");
  EXPECT_EQ(copied(json), json.dump());
}

TEST(TraceDocument, OfAGpuHasLaunchesAndTransfersAndOfACpuNoLaunches) {
  Json json = files::read_any_json(evidence() / "intel-xeon-2-cores-2026-11-23" / "with" / "roofline.json");
  json["device"]["kind"] = "cuda";
  json["summary"].update({{"launch_bound_percent", 1.5}, {"kernel_launches", 5}, {"graph_launches", 1}});
  Json transfer{
      {"kind", "host to device"}, {"bytes", 4096}, {"ms", 0.1}, {"min_ms", 0.1}, {"max_ms", 0.1}, {"count", 1}};
  json["summary"]["transfers"].push_back(transfer);
  const auto trace = value_from<TraceDocument>(json, "the trace");
  EXPECT_TRUE(trace.summary.on_gpu());
  EXPECT_EQ(trace.summary.transfers.at(0).bytes, 4096);
  EXPECT_EQ(json_of(trace).dump(), json.dump());
  json["device"]["kind"] = "cpu";
  EXPECT_THROW((void)value_from<TraceDocument>(json, "the trace"), std::invalid_argument);
}

}  // namespace trace_test
