#include "results/report.h"

#include "files/printable.h"

#include <fmt/format.h>

#include <set>
#include <stdexcept>

namespace results {

void MicroResults::check(const std::string& where) const {
  static const std::set<std::string> units{"ns", "us", "ms", "s"};
  for (size_t i = 0; i < benchmarks.size(); ++i) {
    for (const auto& [key, value] : benchmarks[i].items()) {
      const bool is_text = key == "name" || key == "time_unit";
      if (is_text ? value.is_string() : value.is_number()) continue;
      throw std::invalid_argument(fmt::format("{}[benchmarks][{}][{}]: must be a {}", where, i, files::printable(key),
                                              is_text ? "text" : "number"));
    }
    const files::Json& unit = files::field_or_null(benchmarks[i], "time_unit");
    if (!benchmarks[i].contains("name") || !benchmarks[i].contains("real_time") || !unit.is_string() ||
        !units.contains(unit)) {
      throw std::invalid_argument(fmt::format(
          "{}[benchmarks][{}]: needs \"name\", \"real_time\" and a \"time_unit\" of ns, us, ms or s", where, i));
    }
  }
}

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
}

}  // namespace results
