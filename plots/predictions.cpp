#include "plots/predictions.h"

#include "ablations/run/run_setting.h"
#include "plots/sentences.h"
#include "study/trace/roofline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace plots {

namespace {

// The rates of a study's machine that traces beside it have measured and not refuted; of several the highest.
class MachineLimits {
 public:
  MachineLimits(const Study& study, const Plan& plan, const std::vector<TraceDocument>& traces) {
    for (const TraceDocument& trace : traces) {
      const DeviceKind device = trace.device.kind;
      const bool cuda = device == DeviceKind::cuda;
      const Limits limits = trace.roofline.value_or(Roofline{}).limits;
      const auto rung = std::ranges::find_if(
          plan.rungs, [&](const Rung& other) { return other.work && recipe_diff(other.recipe, trace.recipe).empty(); });
      if (rung == plan.rungs.end() || !(limits.flops_per_s > 0) || !(limits.bytes_per_s > 0) ||
          !refutation_of(*trace.roofline).empty() ||
          !differences(machine_setting(study.environment, cuda), machine_setting(trace.environment, cuda)).empty()) {
        continue;
      }
      double &flops = flops_[{device, rung->work->rate}], &bytes = bytes_[device];
      flops = std::max(flops, limits.flops_per_s);
      bytes = std::max(bytes, limits.bytes_per_s);
    }
  }

  // The least time of a rung's step, in seconds; none: its limits were not measured.
  [[nodiscard]] std::optional<double> least_s(const Rung& rung) const {
    const DeviceKind device = device_of(rung.recipe);
    const auto flops = rung.work ? flops_.find({device, rung.work->rate}) : flops_.end();
    if (flops == flops_.end()) return std::nullopt;
    double seconds = 0;
    for (const Work& work : rung.work->operations) {
      seconds += std::max(work.flops / flops->second, work.bytes / bytes_.at(device));
    }
    return seconds;
  }

 private:
  std::map<std::pair<DeviceKind, std::string>, double> flops_;  // by the rate's name
  std::map<DeviceKind, double> bytes_;
};

}  // namespace

std::vector<Prediction> predictions_of(const Study& study, const Plan& plan, const std::vector<TraceDocument>& traces) {
  std::vector<Prediction> predictions;
  if (study.mode != Mode::cumulative) return predictions;
  const MachineLimits machine(study, plan, traces);
  const StudyRung* above = nullptr;
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer || is_left_out(rung)) continue;
    if (const auto& work = rung.least_work) {
      Prediction& prediction = predictions.emplace_back(Prediction{.rung = rung.index, .work = *work});
      if (above != nullptr && above->least_work) {
        prediction.saved = SavedWork{above->least_work->flops - work->flops, above->least_work->bytes - work->bytes};
        const auto before = machine.least_s(plan.rungs[above->index]), after = machine.least_s(plan.rungs[rung.index]);
        if (before && after && *before != *after) prediction.ratio = *before / *after;
      }
    }
    above = &rung;
  }
  return predictions;
}

}  // namespace plots
