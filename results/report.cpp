#include "results/report.h"

#include <fmt/format.h>

#include <stdexcept>

namespace ablations {

void Report::check(const std::string& where) const {
  for (size_t i = 0; i < studies.size(); ++i) {
    const ReportedStudy& entry = studies[i];
    const std::string place = fmt::format("{}: field [studies][{}]", where, i);
    const auto check_rung = [&](const char* list, const char* field, size_t rung) {
      if (rung < entry.study.rungs.size()) return;
      throw std::invalid_argument(fmt::format("{}[{}]: \"{}\" is {}; the study has {} rungs", place, list, field, rung,
                                              entry.study.rungs.size()));
    };
    for (const size_t floor : entry.noise) {
      if (floor < noise.size()) continue;
      throw std::invalid_argument(
          fmt::format("{}[noise]: {} is asked for; the report has {}", place, floor, noise.size()));
    }
    for (const ReportedRun& run : entry.runs) check_rung("runs", "rung", run.rung);
    for (const Prediction& prediction : entry.predictions) check_rung("predictions", "rung", prediction.rung);
    for (const RungLosses& losses : entry.losses) {
      check_rung("losses", "rung", losses.rung);
      check_rung("losses", "guarded_by", losses.guarded_by);
    }
  }
  files::check_schema({{"kind", "published"}, {"schema_version", 1}, {"entries", published}}, "published",
                      where + ": field [published]");
}

}  // namespace ablations
