#include "ablations/report/unusable.h"

#include "ablations/text/text.h"

#include <optional>

namespace ablations {

Study without_claims(Study study) {
  const std::optional<Disturbance> disturbance = disturbance_of_most(study);
  if (!disturbance) return study;
  study.headline.reset();
  study.notes.reset();
  for (StudyRung& rung : study.rungs) {
    rung.speedup_first.reset();
    rung.speedup_against.reset();
    rung.explanation.reset();
    if (!rung.peers) continue;
    for (PeerRatio& peer : *rung.peers) {
      static_cast<Bounds&>(peer) = {};
      peer.ratio.reset();
    }
  }
  if (!study.attribution) return study;
  for (Worth& worth : *study.attribution) {
    static_cast<Bounds&>(worth) = {};
    worth.ratio.reset();
    worth.reason = disturbance->what;
  }
  return study;
}

std::string unusable_words(const Study& study) {
  const std::optional<Disturbance> disturbance = disturbance_of_most(study);
  return disturbance ? "Not usable: " + disturbance->what : "";
}

std::string remedy_words(const Study& study) {
  const std::optional<Disturbance> disturbance = disturbance_of_most(study);
  return disturbance ? capitalized(disturbance->remedy) + " and begin a new study." : "";
}

}  // namespace ablations
