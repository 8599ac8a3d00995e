// A record is the same after it was read and written: the recorded ones, and what only some have.
#include "results/record.h"

#include "files/files.h"
#include "files/resources.h"
#include "results/trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

namespace record_test {

namespace fs = std::filesystem;
using namespace results;
using files::Json;

fs::path evidence() { return files::resource_root() / "results" / "evidence"; }

// To the last digit.
void expect_kept(const Json& json) {
  const Json again = json_of(value_from<Record>(json, "the record"));
  EXPECT_TRUE(again.dump() == json.dump()) << Json::diff(json, again).dump(1);
}

Json recorded() {
  return files::read_any_json(evidence() / "amd-epyc-2-cores-2026-11-22" / "records" / "r1-04-flash.flagged.json");
}

Json monitored() {
  const Json range{{"min", 1.5}, {"median", 2.0}, {"max", 3.0}};
  return {{"samples", 4},
          {"sm_clock_mhz", range},
          {"memory_clock_mhz", nullptr},
          {"power_w", range},
          {"temperature_c", range},
          {"utilization_percent", range},
          {"throttle", {{{"reason", "SwPowerCap"}, {"share", 0.5}}}},
          {"energy_j", 12.5},
          {"joules_per_token", nullptr},
          {"other_processes", 0},
          {"notes", {{"memory_clock_mhz", "Not Supported"}}}};
}

TEST(RecordDocument, OfTheEvidenceIsTheSameWhenCopied) {
  size_t seen = 0;
  for (const fs::path& file : files::files_below(evidence(), [](const fs::path& path) {
         return path.parent_path().filename() == "records" && path.extension() == ".json";
       })) {
    SCOPED_TRACE(file);
    expect_kept(files::read_any_json(file));
    ++seen;
  }
  EXPECT_GE(seen, 200U);
}

TEST(RecordDocument, KeepsTheLeastWorkOfAStep) {
  Json json = recorded();
  EXPECT_FALSE(value_from<Record>(json, "the record").least_work.has_value());
  json["least_work"] = {{"flops", 8.5e11}, {"bytes", 2.5e10}};
  expect_kept(json);
}

TEST(RecordDocument, KeepsWhatItsDataCost) {
  Json json = recorded();
  EXPECT_FALSE(value_from<Record>(json, "the record").data.has_value());
  json["timing"]["data_ms"] = {0.5, 0.25};
  json["data"] = {{"file", "tokens.bin"},   {"file_bytes", 1000}, {"bytes_read", nullptr},     {"reads", 7},
                  {"storage_bytes", 4096},  {"major_faults", 1},  {"resident_bytes", nullptr}, {"cached_before", 0},
                  {"cached_after", nullptr}};
  expect_kept(json);
  EXPECT_FALSE(value_from<Record>(json, "the record").data->cold);
  json["data"]["cold"] = true;
  expect_kept(json);
}

TEST(RecordDocument, KeepsWhatOnlyAGpusHas) {
  Json json = recorded();
  json["recipe"]["device"] = "cuda";
  json["monitor"] = monitored();
  json["timing"].update({{"device_ms", 12.5}, {"allocator", {{"allocations", 1}, {"frees", 2}, {"retries", 3}}}});
  json["timing"]["processor_lost"] = nullptr;
  json["timing"]["loss"][1] = nullptr;
  json["memory"].update({{"reserved_peak_bytes", 9}, {"run_peak_bytes", 10}});
  json["environment"]["gpu"] = {{"name", "NVIDIA H200"}, {"compute_capability", 90}, {"memory_bytes", 1 << 30}};
  json["environment"].update({{"driver", "580.82.07"}, {"cudnn", 91002}, {"no_gpu_reason", nullptr}});
  expect_kept(json);
  const auto record = value_from<Record>(json, "the record");
  EXPECT_TRUE(record.is_on_gpu());
  EXPECT_EQ(record.environment.cudnn.value(), 91002);
  EXPECT_EQ(record.monitor.value().throttle.value().at(0).reason, "SwPowerCap");
  EXPECT_FALSE(record.timing.loss.at(1).has_value());
}

TEST(RecordDocument, KeepsAPeers) {
  Json json = recorded();
  json["observations"] = {{"peer", {{"program", "PyTorch"}}}, {"compiled_graphs", 3}};
  json["environment"] = {{"cpu", {{"model", "CPU"}, {"logical_cores", 2}}},
                         {"gpu", nullptr},
                         {"cuda", nullptr},
                         {"threads", 2},
                         {"load_average", {0.5, 0.25, 1.0}},
                         {"python", "3.13.1"}};
  expect_kept(json);
  EXPECT_TRUE(value_from<Record>(json, "the record").is_of_peer());
}

TEST(RecordDocument, OfAFailedRunIsItsEndAlone) {
  Json json{{"kind", "record"},
            {"schema_version", 1},
            {"id", "r1-00-start"},
            {"started", "2026-11-21T11:06:00Z"},
            {"duration_s", 2.5},
            {"status", "failed"},
            {"plan", {{"id", "x"}, {"sha256", std::string(64, 'a')}}},
            {"since_boot", {{"boot", "b"}, {"seconds", 1.5}}}};
  for (const char* kind : {"signal", "timeout", "exit", "invalid_record", "spawn", "out_of_memory"}) {
    json["failure"] = {{"kind", kind}, {"message", "why"}};
    expect_kept(json);
  }
  json.erase("failure");
  EXPECT_THROW((void)value_from<Record>(json, "it"), std::invalid_argument);
  json["status"] = "missing";
  EXPECT_THROW((void)value_from<Record>(json, "it"), std::invalid_argument);
}

}  // namespace record_test

namespace trace_test {

// A trace is the same after it was read and written: the recorded ones, and what only some have.

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
