#include "plots/predictions.h"

#include "ablations/profile/rates.h"
#include "ablations/run/run_setting.h"
#include "ablations/techniques/step_table.h"
#include "model/config.h"
#include "plots/sentences.h"
#include "study/trace/roofline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

namespace plots {

namespace {

// None: another version's.
std::optional<model::Recipe> known(const files::Json& recipe) {
  try {
    return model::recipe_from_json(recipe, "recipe");
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

// The rates of a study's machine that traces beside it have measured and not refuted; of several the highest.
class MachineLimits {
 public:
  MachineLimits(const Study& study, const std::vector<TraceDocument>& traces) {
    for (const TraceDocument& trace : traces) {
      const model::Device device = trace.device.kind;
      const bool cuda = device == model::Device::cuda;
      const std::optional<model::Recipe> recipe = known(trace.recipe);
      const Limits limits = trace.roofline.value_or(Roofline{}).limits;
      if (!recipe || !(limits.flops_per_s > 0) || !(limits.bytes_per_s > 0) ||
          !refutation_of(*trace.roofline).empty() ||
          !differences(machine_setting(study.environment, cuda), machine_setting(trace.environment, cuda)).empty()) {
        continue;
      }
      double &flops = flops_[{device, rate_of(*recipe)}], &bytes = bytes_[device];
      flops = std::max(flops, limits.flops_per_s);
      bytes = std::max(bytes, limits.bytes_per_s);
    }
  }

  // None: they were not measured.
  [[nodiscard]] std::optional<Limits> of(const model::Recipe& recipe) const {
    const auto flops = flops_.find({recipe.device, rate_of(recipe)});
    if (flops == flops_.end()) return std::nullopt;
    return Limits{.flops_per_s = flops->second, .bytes_per_s = bytes_.at(recipe.device)};
  }

 private:
  std::map<std::pair<model::Device, std::string>, double> flops_;  // by the rate's name
  std::map<model::Device, double> bytes_;
};

// The least time of a rung's step; none: its limits were not measured.
std::optional<double> least_ms(const Study& study, const StudyRung& rung, const MachineLimits& machine) {
  const std::optional<model::Recipe> recipe = known(rung.recipe);
  const auto limits = recipe ? machine.of(*recipe) : std::nullopt;
  const auto names = model::preset_names();
  const Workload& workload = study.workload;
  if (!limits || std::ranges::find(names, workload.model) == names.end()) return std::nullopt;
  const model::Config config = model::with_positions(model::preset(workload.model), workload.positions);
  const Roofline least =
      roofline(step_costs(config, *recipe, workload.B, workload.T, workload.accumulation), *limits, /*measured=*/{});
  double ms = 0;
  for (const RooflineRow& phase : least.phases) ms += phase.limit_ms;
  return ms;
}

}  // namespace

std::vector<Prediction> predictions_of(const Study& study, const std::vector<TraceDocument>& traces) {
  std::vector<Prediction> predictions;
  if (study.mode != Mode::cumulative) return predictions;
  const MachineLimits machine(study, traces);
  const StudyRung* above = nullptr;
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer || is_left_out(rung)) continue;
    if (const auto& work = rung.least_work) {
      Prediction& prediction = predictions.emplace_back(Prediction{.rung = rung.index, .work = *work});
      if (above != nullptr && above->least_work) {
        prediction.saved = SavedWork{above->least_work->flops - work->flops, above->least_work->bytes - work->bytes};
        const auto before = least_ms(study, *above, machine), after = least_ms(study, rung, machine);
        if (before && after && *before != *after) prediction.ratio = *before / *after;
      }
    }
    above = &rung;
  }
  return predictions;
}

}  // namespace plots
