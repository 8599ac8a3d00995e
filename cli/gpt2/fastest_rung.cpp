#include "cli/gpt2/fastest_rung.h"

#include "ablations/run/run_setting.h"
#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "results/study.h"

#include <fmt/format.h>

#include <exception>
#include <vector>

namespace cli {

namespace fs = std::filesystem;

namespace {

// The rungs that count, the fastest first; none: the study does not tell. A rung of a headline is proven, and its
// losses follow the reference's.
std::vector<size_t> by_speed(const Headline& headline) {
  if (headline.fastest) return {*headline.fastest, headline.last};
  if (headline.speedup.is_slower()) return {headline.first};
  return headline.speedup.is_faster() ? std::vector{headline.last} : std::vector<size_t>{};
}

// Why no rung of it is chosen; empty: one may be.
std::string why_none(const Study& study) {
  if (const std::optional<Unusable> unusable = why_unusable(study)) return unusable->what;
  return by_speed(*study.headline).empty() ? "no rung is clearly the fastest" : "";
}

bool is_of_whole_ladder(const Study& study) {
  return study.mode == Mode::cumulative && study.finished && !study.quick && study.headline;
}

}  // namespace

FastestShown fastest_shown(const fs::path& folder, const std::string& model, const Environment& here,
                           const std::function<bool(const model::Recipe&)>& fits) {
  FastestShown found;
  if (!fs::is_directory(folder)) return found;
  std::string passed_over_since;
  const auto shown_by = [&](const Study& study, const fs::path& place) -> std::optional<ShownRung> {
    if (!is_of_whole_ladder(study) || study.workload.model != model) return std::nullopt;
    const bool cuda = study.device.kind == DeviceKind::cuda;
    if (!differences(machine_setting(study.environment, cuda), machine_setting(here, cuda)).empty())
      return std::nullopt;
    if (const std::string why = why_none(study); !why.empty()) {
      if (*study.finished > passed_over_since) {
        passed_over_since = *study.finished;
        found.passed_over = fmt::format("{}: {}", place.string(), why);
      }
      return std::nullopt;
    }
    for (const size_t index : by_speed(*study.headline)) {
      const StudyRung& rung = study.rungs[index];
      const model::Recipe recipe = model::recipe_from_json(rung.recipe, place.string());
      if (fits(recipe)) return ShownRung{recipe, rung.title, study.ladder.name, place, *study.finished};
    }
    return std::nullopt;
  };
  std::optional<ShownRung>& newest = found.rung;
  for (const fs::path& file :
       files::files_below(folder, [](const fs::path& path) { return path.filename() == study_file; })) {
    try {
      const std::optional<ShownRung> shown = shown_by(read_document<Study>(file), file.parent_path());
      if (shown && (!newest || shown->finished > newest->finished)) newest = shown;
    } catch (const std::exception&) {  // not a study, or one of an optimization that this program does not know
      continue;
    }
  }
  if (newest && newest->finished >= passed_over_since) found.passed_over.clear();
  return found;
}

}  // namespace cli
