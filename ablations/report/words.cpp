#include "ablations/report/words.h"

#include "ablations/report/again.h"
#include "ablations/report/report.h"
#include "ablations/report/sentences.h"

namespace ablations {

using files::Json;

StudyWords words_of(const Study& study, const std::vector<WatchedRun>& runs, const std::vector<Noise>& noise) {
  StudyWords words{.headline = headline_words(study),
                   .remarks = remarks_of(study),
                   .rungs = {},
                   .trust = trust_cards(study, runs, noise),
                   .disturbance = disturbance_words(study, runs),
                   .worth = worth_words(study.mode),
                   .memory = memory_words(study),
                   .how_to_read = how_to_read(study),
                   .command = command_again(study)};
  for (const StudyRung& rung : study.rungs) {
    const bool has_number = rung.is_measured() && rung.ms_per_step;
    words.rungs.push_back({.status = status_words(rung),
                           .reason = has_number ? "" : why_no_number(rung),
                           .guard = rung.guard ? guard_words(*rung.guard) : "",
                           .commands = commands_of_rung(study, rung)});
  }
  return words;
}

Json with_words(Json report) {
  for (Json& entry : report.at("studies")) {
    std::vector<Noise> noise;
    for (const Json& place : entry.at("noise")) {
      noise.push_back(value_from<Noise>(report.at("noise").at(place.get<size_t>()), "the report's noise floor"));
    }
    const auto runs = value_from<std::vector<WatchedRun>>(entry.at("runs"), "the report's runs");
    entry["words"] = json_of(words_of(study_of(entry), runs, noise));
  }
  return report;
}

}  // namespace ablations
