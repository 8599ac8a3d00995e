#include "harness/gpu/metrics.h"

#include "files/nearest.h"
#include "harness/gpu/cupti.h"

#include <cupti_profiler_host.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace harness {
namespace {

constexpr std::pair<CUpti_MetricType, const char*> kinds[] = {{CUPTI_METRIC_TYPE_COUNTER, "counter"},
                                                              {CUPTI_METRIC_TYPE_RATIO, "ratio"},
                                                              {CUPTI_METRIC_TYPE_THROUGHPUT, "throughput"}};

ChipObject open_chip(const std::string& name, std::span<const uint8_t> availability = {}) {
  const std::vector<std::string> known = counter_chips();
  if (std::ranges::find(known, name) == known.end()) {
    throw std::invalid_argument(fmt::format("chip \"{}\": CUPTI knows {}", name, fmt::join(known, ", ")));
  }
  CUpti_Profiler_Host_Initialize_Params params{CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE};
  params.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
  params.pChipName = name.c_str();
  params.pCounterAvailabilityImage = availability.empty() ? nullptr : availability.data();
  const CUptiResult result = cuptiProfilerHostInitialize(&params);
  if (result == CUPTI_ERROR_NOT_SUPPORTED) {
    throw std::invalid_argument(fmt::format("chip \"{}\": this CUPTI knows its name but cannot count on it", name));
  }
  check_cupti("cuptiProfilerHostInitialize", result);
  return ChipObject(params.pHostObject);
}

std::vector<const char*> pointers(const std::vector<std::string>& names) {
  std::vector<const char*> result;
  result.reserve(names.size());
  for (const std::string& name : names) result.push_back(name.c_str());
  return result;
}

CUptiResult add_metrics(const ChipObject& chip, const std::vector<std::string>& names) {
  std::vector<const char*> c_names = pointers(names);
  CUpti_Profiler_Host_ConfigAddMetrics_Params params{CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE};
  params.pHostObject = chip.get();
  params.ppMetricNames = c_names.data();
  params.numMetrics = c_names.size();
  return cuptiProfilerHostConfigAddMetrics(&params);
}

std::vector<std::string> names_of_kind(const ChipObject& chip, CUpti_MetricType kind) {
  CUpti_Profiler_Host_GetBaseMetrics_Params params{CUpti_Profiler_Host_GetBaseMetrics_Params_STRUCT_SIZE};
  params.pHostObject = chip.get();
  params.metricType = kind;
  check_cupti("cuptiProfilerHostGetBaseMetrics", cuptiProfilerHostGetBaseMetrics(&params));
  return {params.ppMetricNames, params.ppMetricNames + params.numMetrics};
}

// ".sum", ".avg.per_second", ...: what may follow a base metric's name.
std::vector<std::string> suffixes(const ChipObject& chip, const std::string& base, CUpti_MetricType kind) {
  CUpti_Profiler_Host_GetSubMetrics_Params params{CUpti_Profiler_Host_GetSubMetrics_Params_STRUCT_SIZE};
  params.pHostObject = chip.get();
  params.metricType = kind;
  params.pMetricName = base.c_str();
  if (cuptiProfilerHostGetSubMetrics(&params) != CUPTI_SUCCESS) return {};
  return {params.ppSubMetrics, params.ppSubMetrics + params.numOfSubmetrics};
}

BaseMetric properties(const ChipObject& chip, const std::string& name, const char* kind) {
  CUpti_Profiler_Host_GetMetricProperties_Params params{CUpti_Profiler_Host_GetMetricProperties_Params_STRUCT_SIZE};
  params.pHostObject = chip.get();
  params.pMetricName = name.c_str();
  check_cupti("cuptiProfilerHostGetMetricProperties", cuptiProfilerHostGetMetricProperties(&params));
  const auto text = [](const char* string) { return std::string(string == nullptr ? "" : string); };
  return {name, kind, text(params.pDimUnit), text(params.pDescription)};
}

std::string base_of(const std::string& metric) { return metric.substr(0, metric.find('.')); }

std::string fault_of(const ChipObject& chip, const std::string& chip_name, const std::string& metric) {
  const std::string base = base_of(metric), suffix = metric.substr(base.size());
  std::vector<std::string> all;
  for (const auto& [kind, word] : kinds) {
    const std::vector<std::string> names = names_of_kind(chip, kind);
    if (std::ranges::find(names, base) != names.end()) {
      const std::vector<std::string> possible = suffixes(chip, base, kind);
      if (std::ranges::find(possible, suffix) != possible.end()) {
        return fmt::format("metric \"{}\": {} has it, but not on this device", metric, chip_name);
      }
      std::vector<std::string> endings = files::nearest(suffix, possible);
      if (endings.empty()) {
        endings = possible;
        std::ranges::stable_sort(endings, {}, &std::string::size);
        endings.resize(std::min<size_t>(endings.size(), 5));
      }
      return fmt::format("metric \"{}\": the {} {} has no such ending on {}; possible: {}", metric, word, base,
                         chip_name, fmt::join(endings, ", "));
    }
    all.insert(all.end(), names.begin(), names.end());
  }
  std::vector<std::string> similar = files::nearest(base, all);
  for (std::string& name : similar) name += suffix;
  return fmt::format("metric \"{}\": {} has no metric of this name; {}", metric, chip_name,
                     similar.empty() ? fmt::format("`ladder profile --list-metrics --chip {}` lists them", chip_name)
                                     : fmt::format("similar: {}", fmt::join(similar, ", ")));
}

}  // namespace

void ReleaseChip::operator()(CUpti_Profiler_Host_Object* chip) const {
  CUpti_Profiler_Host_Deinitialize_Params params{CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE};
  params.pHostObject = chip;
  cuptiProfilerHostDeinitialize(&params);
}

std::vector<std::string> counter_chips() {
  CUpti_Profiler_Host_GetSupportedChips_Params params{CUpti_Profiler_Host_GetSupportedChips_Params_STRUCT_SIZE};
  check_cupti("cuptiProfilerHostGetSupportedChips", cuptiProfilerHostGetSupportedChips(&params));
  return {params.ppChipNames, params.ppChipNames + params.numChips};
}

std::vector<BaseMetric> base_metrics(const std::string& chip_name) {
  const ChipObject chip = open_chip(chip_name);
  std::vector<BaseMetric> metrics;
  for (const auto& [kind, word] : kinds) {
    for (const std::string& name : names_of_kind(chip, kind)) metrics.push_back(properties(chip, name, word));
  }
  return metrics;
}

std::vector<std::string> default_metrics(const std::string& chip_name) {
  static const std::vector<std::string> wanted = {
      "gpu__time_duration.sum",
      "dram__bytes_read.sum",
      "dram__bytes_write.sum",
      "dram__bytes_op_read.sum",  // the same on chips with GDDR7
      "dram__bytes_op_write.sum",
      "dram__throughput.avg.pct_of_peak_sustained_elapsed",
      "lts__t_bytes.sum",
      "lts__t_sectors_op_read.sum",
      "lts__t_sectors_op_write.sum",
      "l1tex__t_bytes.sum",
      "sm__cycles_active.avg",
      "sm__cycles_active.avg.pct_of_peak_sustained_elapsed",
      "sm__warps_active.avg.pct_of_peak_sustained_active",
      "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
      "sm__inst_executed_pipe_tensor.sum",
      "gpc__cycles_elapsed.max",
      "gpc__cycles_elapsed.avg.per_second",
  };
  const ChipObject chip = open_chip(chip_name);
  std::vector<std::string> known;
  for (const auto& [kind, word] : kinds) {
    const std::vector<std::string> names = names_of_kind(chip, kind);
    known.insert(known.end(), names.begin(), names.end());
  }
  std::vector<std::string> metrics = wanted;
  std::erase_if(metrics,
                [&](const std::string& name) { return std::ranges::find(known, base_of(name)) == known.end(); });
  return metrics;
}

MetricSet::MetricSet(const std::string& chip, std::vector<std::string> metrics, std::span<const uint8_t> availability)
    : names_(std::move(metrics)),
      availability_(availability.begin(), availability.end()),
      chip_(open_chip(chip, availability_)) {
  if (names_.empty()) throw std::invalid_argument("no metrics to count");
  if (add_metrics(chip_, names_) != CUPTI_SUCCESS) {
    for (const std::string& name : names_) {
      const ChipObject alone = open_chip(chip, availability_);
      const CUptiResult result = add_metrics(alone, {name});
      if (result == CUPTI_ERROR_INVALID_METRIC_NAME || result == CUPTI_ERROR_INVALID_PARAMETER) {  // 13.0: the latter
        throw std::invalid_argument(fault_of(alone, chip, name));
      }
      check_cupti(fmt::format("metric {}: cuptiProfilerHostConfigAddMetrics", name).c_str(), result);
    }
    throw std::invalid_argument(fmt::format("metrics {}: {} cannot count them together", fmt::join(names_, ","), chip));
  }
  CUpti_Profiler_Host_GetConfigImageSize_Params size{CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE};
  size.pHostObject = chip_.get();
  check_cupti("cuptiProfilerHostGetConfigImageSize", cuptiProfilerHostGetConfigImageSize(&size));
  config_.resize(size.configImageSize);
  CUpti_Profiler_Host_GetConfigImage_Params image{CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE};
  image.pHostObject = chip_.get();
  image.configImageSize = config_.size();
  image.pConfigImage = config_.data();
  check_cupti("cuptiProfilerHostGetConfigImage", cuptiProfilerHostGetConfigImage(&image));
  CUpti_Profiler_Host_GetNumOfPasses_Params passes{CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE};
  passes.configImageSize = config_.size();
  passes.pConfigImage = config_.data();
  check_cupti("cuptiProfilerHostGetNumOfPasses", cuptiProfilerHostGetNumOfPasses(&passes));
  passes_ = static_cast<int64_t>(passes.numOfPasses);
}

std::vector<std::string> MetricSet::units() const {
  std::vector<std::string> units;
  for (const std::string& name : names_) {
    const std::string unit = properties(chip_, name, "").unit;
    units.push_back(unit == "percent" ? "%" : unit);
  }
  return units;
}

std::vector<const char*> MetricSet::c_names() const { return pointers(names_); }

std::vector<double> MetricSet::evaluate(std::span<const uint8_t> counter_data, size_t range) const {
  std::vector<const char*> names = c_names();
  std::vector<double> values(names.size(), std::numeric_limits<double>::quiet_NaN());
  CUpti_Profiler_Host_EvaluateToGpuValues_Params params{CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE};
  params.pHostObject = chip_.get();
  params.pCounterDataImage = counter_data.data();
  params.counterDataImageSize = counter_data.size();
  params.rangeIndex = range;
  params.ppMetricNames = names.data();
  params.numMetrics = names.size();
  params.pMetricValues = values.data();
  check_cupti("cuptiProfilerHostEvaluateToGpuValues", cuptiProfilerHostEvaluateToGpuValues(&params));
  return values;
}

}  // namespace harness
