#include "plots/predictions.h"

#include "ablations/run/run_setting.h"
#include "plots/sentences.h"
#include "study/trace/roofline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace plots {

namespace {

// What traces beside a study have measured on its machine and not refuted; of several rates of a kind the highest.
class Limited {
 public:
  Limited(const Study& study, const std::vector<TraceDocument>& traces) {
    for (const TraceDocument& trace : traces) {
      const bool cuda = trace.device.kind == model::Device::cuda;
      const Limits limits = trace.roofline.value_or(Roofline{}).limits;
      if (!(limits.flops_per_s > 0) || !(limits.bytes_per_s > 0) || !refutation_of(*trace.roofline).empty() ||
          !differences(machine_setting(study.environment, cuda), machine_setting(trace.environment, cuda)).empty()) {
        continue;
      }
      traces_.push_back(&trace);
      double &flops = flops_[products_of(trace)], &bytes = bytes_[trace.device.kind];
      flops = std::max(flops, limits.flops_per_s);
      bytes = std::max(bytes, limits.bytes_per_s);
    }
  }

  // The least time of a recipe's step; none: there is no trace of it.
  [[nodiscard]] std::optional<double> least_ms(const files::Json& recipe) const {
    const auto is_it = [&](const TraceDocument* trace) { return trace->recipe == recipe; };
    const auto found = std::ranges::find_if(traces_, is_it);
    if (found == traces_.end()) return std::nullopt;
    const double flops_per_s = flops_.at(products_of(**found)), bytes_per_s = bytes_.at((*found)->device.kind);
    double ms = 0;
    for (const RooflineRow& part : (*found)->roofline->parts) {
      ms += 1e3 * std::max(part.flops / flops_per_s, part.bytes / bytes_per_s);
    }
    return ms;
  }

 private:
  using Products = std::pair<model::Device, std::string>;

  // The kind of products whose rate limits the trace: "measured: bf16 8192^3".
  static Products products_of(const TraceDocument& trace) {
    const std::string& source = trace.roofline->limits.source;
    return {trace.device.kind, source.substr(0, source.find(','))};
  }

  std::vector<const TraceDocument*> traces_;
  std::map<Products, double> flops_;
  std::map<model::Device, double> bytes_;
};

}  // namespace

std::vector<Prediction> predictions_of(const Study& study, const std::vector<TraceDocument>& traces) {
  std::vector<Prediction> predictions;
  if (study.mode != Mode::cumulative) return predictions;
  const Limited limited(study, traces);
  const StudyRung* above = nullptr;
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer || is_left_out(rung)) continue;
    if (const auto& work = rung.least_work) {
      Prediction& prediction = predictions.emplace_back(Prediction{.rung = rung.index, .work = *work});
      if (above != nullptr && above->least_work) {
        prediction.saved = SavedWork{above->least_work->flops - work->flops, above->least_work->bytes - work->bytes};
        const auto before = limited.least_ms(above->recipe), after = limited.least_ms(rung.recipe);
        if (before && after && *before != *after) prediction.ratio = *before / *after;
      }
    }
    above = &rung;
  }
  return predictions;
}

}  // namespace plots
