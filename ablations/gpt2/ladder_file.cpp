#include "ablations/gpt2/ladder_file.h"

#include "ablations/techniques/techniques.h"
#include "files/nearest.h"
#include "files/resources.h"
#include "harness/process/unfit.h"
#include "model/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <system_error>

namespace ablations {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> optimization_names() {
  std::vector<std::string> names;
  for (const Optimization& optimization : optimizations()) names.push_back(optimization.name);
  return names;
}

// Checks that do not depend on the machine.
void check_order(const Ladder& ladder, const std::string& where) {
  std::set<std::string> before;
  if (device_of(ladder.start) == DeviceKind::cuda) before.insert("gpu");
  for (size_t i = 0; i < ladder.rungs.size(); ++i) {
    const std::string& name = ladder.rungs[i];
    const std::string field = fmt::format("{}: rungs[{}] \"{}\"", where, i, name);
    const Optimization* optimization = find_optimization(name);
    if (optimization == nullptr) {
      throw std::invalid_argument(fmt::format("{}: unknown optimization; the known optimizations are {}", field,
                                              fmt::join(optimization_names(), ", ")));
    }
    if (before.contains(name))
      throw std::invalid_argument(fmt::format("{}: already on; name each optimization once", field));
    for (const std::string& other : optimization->excludes) {
      if (before.contains(other)) throw std::invalid_argument(fmt::format("{}: cannot follow \"{}\"", field, other));
    }
    for (const std::string& need : optimization->needs) {
      if (!before.contains(need)) throw std::invalid_argument(fmt::format("{}: needs \"{}\" before it", field, need));
    }
    before.insert(name);
  }
  for (const auto& [field, name] : {std::pair("reference", ladder.reference), {"shown", ladder.shown}}) {
    if (name.empty() || before.contains(name)) continue;
    throw std::invalid_argument(
        fmt::format("{}: {} \"{}\" is not one of its rungs ({})", where, field, name, fmt::join(ladder.rungs, ", ")));
  }
}

}  // namespace

std::vector<std::string> ladder_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(files::resource_root() / "ladders")) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path ladder_file(const std::string& name_or_file) {
  const bool is_path = name_or_file.find('/') != std::string::npos || name_or_file.ends_with(".json");
  return is_path ? fs::path(name_or_file) : files::resource_root() / "ladders" / (name_or_file + ".json");
}

Ladder load_ladder(const std::string& name_or_file) {
  const fs::path shipped = files::resource_root() / "ladders";
  const fs::path file = ladder_file(name_or_file);
  if (file.parent_path() == shipped && !fs::exists(file)) {
    const std::vector<std::string> names = ladder_names(), similar = files::nearest(name_or_file, names);
    throw std::invalid_argument(
        fmt::format("--ladder {}: no such ladder; {} {}, or give the path of a JSON file", name_or_file,
                    similar.empty() ? "there are" : fmt::format("did you mean {}? There are", similar.front()),
                    fmt::join(names, ", ")));
  }
  Ladder ladder = read_document<Ladder>(file);
  const std::string where = file.string();
  std::error_code unreadable;  // then it is not
  if (!fs::equivalent(file.parent_path(), shipped, unreadable)) ladder.file = file.filename().string();
  try {
    (void)model::preset(ladder.workload.model);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: workload.model: {}", where, error.what()));
  }
  (void)model::recipe_from_json(ladder.start, where + ": field [start]");
  check_order(ladder, where);
  return ladder;
}

std::string put_on(Rung& rung, const std::string& name, const harness::Machine& machine, const Choose& choose) {
  const Optimization& optimization = *find_optimization(name);
  const model::Recipe before = recipe_of(rung);
  std::string reason = optimization.obstacle(before, machine);
  if (!reason.empty()) return reason;
  for (const std::string& other : optimization.excludes) {
    if (std::ranges::find(rung.applied, other) != rung.applied.end()) {
      return fmt::format("cannot follow \"{}\"", other);
    }
  }
  model::Recipe edited = before;
  optimization.edit(edited, machine);
  reason = choose ? choose(before, edited) : "";
  if (!reason.empty() && edited == before) return reason;
  rung.recipe = model::to_json(edited);
  rung.applied.push_back(name);
  return "";
}

model::Recipe recipe_of(const Rung& rung) { return model::recipe_from_json(rung.recipe, "the plan"); }

std::vector<Rung> climb(const Ladder& ladder, const harness::Machine& machine, const Choose& choose) {
  std::vector<Rung> rungs{{.optimization = "",
                           .title = ladder.start_title,
                           .applied = {},
                           .recipe = model::to_json(model::recipe_from_json(ladder.start, "the ladder's start")),
                           .status = Rung::Status::planned,
                           .reason = ""}};
  if (device_of(ladder.start) == DeviceKind::cuda && !machine.gpu) {
    rungs[0].status = Rung::Status::not_applicable;
    rungs[0].reason = machine.no_gpu_reason;
  }
  for (const std::string& name : ladder.rungs) {
    Rung rung = rungs.back();
    rung.optimization = name;
    rung.title = find_optimization(name)->title;
    rung.reason =
        rungs[0].status == Rung::Status::not_applicable ? rungs[0].reason : put_on(rung, name, machine, choose);
    if (rung.reason.empty() && rung.recipe == rungs.back().recipe) {
      rung.applied.pop_back();
      rung.reason = "it changes nothing of what is on before it";
    }
    for (const Rung& earlier : rungs) {  // and why that is not on
      if (rung.reason == fmt::format("needs \"{}\"", earlier.optimization) && !earlier.reason.empty()) {
        rung.reason += fmt::format(" ({})", earlier.reason);
      }
    }
    rung.status = rung.reason.empty() ? Rung::Status::planned : Rung::Status::not_applicable;
    rungs.push_back(rung);
    if (name == ladder.reference && rung.status == Rung::Status::planned) {
      for (size_t i = 0; i + 1 < rungs.size(); ++i) {
        if (rungs[i].status != Rung::Status::planned) continue;
        rungs[i].status = Rung::Status::not_measured;
        rungs[i].reason = fmt::format("comes before \"{}\", from which this ladder counts", name);
      }
    }
  }
  return rungs;
}

size_t default_rung(const Ladder& ladder, const std::vector<Rung>& rungs) {
  const auto shown = std::ranges::find(rungs, ladder.shown, &Rung::optimization);
  size_t index =
      ladder.shown.empty() || shown == rungs.end() ? rungs.size() - 1 : static_cast<size_t>(shown - rungs.begin());
  while (index > 0 && rungs[index].status == Rung::Status::not_applicable) --index;
  return index;
}

size_t find_rung(const std::vector<Rung>& rungs, const std::string& name, const char* flag, const std::string& ladder) {
  std::vector<std::string> known;
  for (const Rung& rung : rungs) known.push_back(name_of(rung));
  auto found = std::ranges::find(known, name);
  if (found == known.end()) {
    const auto is_it = [&](const Rung& rung) { return matches_name(name, name_of(rung), rung.title); };
    found = known.begin() + (std::ranges::find_if(rungs, is_it) - rungs.begin());
  }
  if (found == known.end()) {
    const std::vector<std::string> similar = files::nearest(name, known);
    const std::string begin = similar.empty() ? "ladder" : fmt::format("did you mean {}? Ladder", similar.front());
    throw std::invalid_argument(
        fmt::format("{} {}: no such rung; {} {} has {}", flag, name, begin, ladder, fmt::join(known, ", ")));
  }
  const auto index = static_cast<size_t>(found - known.begin());
  if (rungs[index].status != Rung::Status::not_applicable) return index;
  throw harness::Unfit(fmt::format("{} {}: not applicable here: {}", flag, name, rungs[index].reason));
}

}  // namespace ablations
