#include "study/looks.h"

#include "ablations/plan/make_plan.h"
#include "files/json_file.h"
#include "files/printable.h"
#include "text/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <set>
#include <stdexcept>
#include <utility>

namespace study {

namespace fs = std::filesystem;
using files::Json;

std::optional<Json> look_from(const fs::path& file) {
  if (!fs::exists(file)) return std::nullopt;
  try {
    Json look = files::read_any_json(file);
    return look.is_object() && !look.contains("error") ? std::optional(look) : std::nullopt;
  } catch (const std::invalid_argument&) {  // the program may have written anything
    return std::nullopt;
  }
}

namespace {

std::string text_of(const Json& value) {
  if (value.is_null()) return "none";
  if (value.is_number()) return plain(value.get<double>());
  return files::shortened(files::printable(value.is_string() ? value.get<std::string>() : value.dump()), 40);
}

// "bfloat16 48, float32 2", without the counts where there is one name only.
std::string counts_text(const Json& counts) {
  if (!counts.is_object() || counts.empty()) return "none";
  if (counts.size() == 1) return text_of(counts.begin().key());
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts.items()) {
    if (parts.size() < 4) parts.push_back(fmt::format("{} {}", text_of(name), text_of(count)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// "AdamW fused"
std::string optimizers_text(const Json& optimizers, const Json& ran) {
  std::vector<std::string> parts;
  if (optimizers.is_array()) {
    for (const Json& one : optimizers) {
      if (one.is_object()) parts.push_back(text_of(files::field_or_null(one, "class")));
    }
  }
  return fmt::format("{}{}", fmt::join(parts, ", "), ran.is_string() ? " " + text_of(ran) : "");
}

std::set<std::string> names_in(const Json& one, const Json& other) {
  std::set<std::string> names;
  for (const Json& object : {one, other}) {
    for (const auto& [name, ignored] : object.items()) names.insert(name);
  }
  return names;
}

// Numbers that repeat only by chance, such as memory, are not compared; counts may differ by a hundredth.
bool differ(const Json& before, const Json& after) {
  if (before.is_number() && after.is_number()) {
    const double a = before.get<double>(), b = after.get<double>();
    return std::abs(a - b) > 0.01 * std::max(std::abs(a), std::abs(b));
  }
  if (before.is_object() && after.is_object()) {
    for (const std::string& name : names_in(before, after)) {
      if (differ(before.value(name, Json(0)), after.value(name, Json(0)))) return true;
    }
    return false;
  }
  return before != after;
}

}  // namespace

fs::path look_file(const fs::path& folder, const Rung& rung) { return folder / "looks" / (name_of(rung) + ".json"); }

std::optional<std::vector<std::string>> seen_to_differ(const fs::path& before_file, const fs::path& after_file) {
  const std::optional<Json> before = look_from(before_file), after = look_from(after_file);
  if (!before || !after) return std::nullopt;
  std::vector<std::string> lines;
  const auto of = [](const Json& look, const char* name) { return files::field_or_null(look, name); };
  const auto compare = [&](const char* name, const char* what, auto text) {
    const Json was = of(*before, name), is = of(*after, name);
    if (differ(was, is)) lines.push_back(fmt::format("{} {} \u2192 {}", what, text(was), text(is)));
  };
  compare("compiled_regions", "compiled regions", text_of);
  compare("graph_launches_per_step", "graph launches in a step", text_of);
  compare("kernels_per_step", "kernels in a step", text_of);
  compare("products", "matrix products", counts_text);
  compare("attention", "attention", counts_text);
  const auto optimizer = [&](const Json& look) {
    return optimizers_text(of(look, "optimizers"), of(look, "optimizer_ran"));
  };
  if (optimizer(*before) != optimizer(*after)) {
    lines.push_back(fmt::format("optimizer {} \u2192 {}", optimizer(*before), optimizer(*after)));
  }
  compare("parameter_types", "parameters", counts_text);
  compare("parameters", "parameters", text_of);
  compare("devices", "devices", text_of);
  compare("operations_per_step", "operations in a step", text_of);
  compare("product_flops_per_step", "FLOP of products in a step", text_of);
  const Json was = of(*before, "settings"), is = of(*after, "settings");
  if (was.is_object() && is.is_object()) {
    for (const std::string& name : names_in(was, is)) {
      const Json old = was.value(name, Json()), value = is.value(name, Json());
      if (old != value) lines.push_back(fmt::format("{} {} \u2192 {}", text_of(name), text_of(old), text_of(value)));
    }
  }
  return lines;
}

std::optional<InputWait> input_wait_in(const fs::path& look) {
  const std::optional<Json> seen = look_from(look);
  const Json wait = seen ? files::field_or_null(*seen, "wait_ms_per_step") : Json();
  const Json step = seen ? files::field_or_null(*seen, "step_ms") : Json();
  if (!wait.is_number() || !step.is_number()) return std::nullopt;
  const InputWait found{.wait_ms = wait.get<double>(), .step_ms = step.get<double>(), .by_look = true};
  const bool is_sound = found.step_ms > 0 && found.step_ms < 1e12 && found.wait_ms >= 0 && found.wait_ms < 1e12;
  return is_sound ? std::optional(found) : std::nullopt;
}

}  // namespace study
