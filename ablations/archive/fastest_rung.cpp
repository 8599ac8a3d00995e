#include "ablations/archive/fastest_rung.h"

#include "ablations/documents/study.h"
#include "ablations/run/setting.h"
#include "ablations/run/study_folder.h"
#include "files/files.h"

#include <exception>
#include <vector>

namespace ablations {

namespace fs = std::filesystem;

namespace {

// The rungs that count, the fastest first. A rung of a headline is proven, and its losses follow the reference's.
std::vector<size_t> by_speed(const Headline& headline) {
  if (headline.fastest) return {*headline.fastest, headline.last};
  return {headline.speedup.is_slower() ? headline.first : headline.last};
}

bool is_of_whole_ladder(const Study& study) {
  return study.mode == Mode::cumulative && study.finished && !study.quick && study.headline;
}

}  // namespace

std::optional<ShownRung> fastest_shown(const fs::path& folder, const std::string& model, const Environment& here,
                                       const std::function<bool(const model::Recipe&)>& fits) {
  if (!fs::is_directory(folder)) return std::nullopt;
  const auto shown_by = [&](const Study& study, const fs::path& place) -> std::optional<ShownRung> {
    if (!is_of_whole_ladder(study) || study.workload.model != model) return std::nullopt;
    for (const size_t index : by_speed(*study.headline)) {
      const StudyRung& rung = study.rungs[index];
      const model::Recipe recipe = model::recipe_from_json(rung.recipe, place.string());
      const bool cuda = recipe.device == model::Device::cuda;
      if (!differences(machine_setting(study.environment, cuda), machine_setting(here, cuda)).empty()) continue;
      if (fits(recipe)) return ShownRung{recipe, rung.title, study.ladder.name, place, *study.finished};
    }
    return std::nullopt;
  };
  std::optional<ShownRung> newest;
  for (const fs::path& file :
       files::files_below(folder, [](const fs::path& path) { return path.filename() == study_file; })) {
    try {
      const std::optional<ShownRung> shown = shown_by(read_document<Study>(file), file.parent_path());
      if (shown && (!newest || shown->finished > newest->finished)) newest = shown;
    } catch (const std::exception&) {  // not a study, or one of an optimization that this program does not know
      continue;
    }
  }
  return newest;
}

}  // namespace ablations
