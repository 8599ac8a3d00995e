#include "ablations/plan/shard.h"

#include "ablations/plan/make_plan.h"
#include "files/files.h"
#include "files/sha256.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

namespace ablations {

using files::Json;

namespace {

// What is the same on all machines. Texts are compared by their tokens' hash, which every record carries.
Json shared_part(const Plan& plan) {
  Json json = json_of(plan);
  json.erase("shard");
  json.erase("typed");
  if (plan.commands) return json;
  for (const char* place : {"data", "vocabulary", "tokens"}) json["workload"].erase(place);
  return json;
}

}  // namespace

Shard shard_of(const std::string& text) {
  constexpr int64_t most = 1000;
  Shard shard{0, 0};
  const char* const end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, shard.index);
  if (index.ec == std::errc() && index.ptr != end && *index.ptr == '/') {
    const auto count = std::from_chars(index.ptr + 1, end, shard.count);
    if (count.ec == std::errc() && count.ptr == end && shard.index >= 1 && shard.index <= shard.count &&
        shard.count <= most) {
      return shard;
    }
  }
  throw std::invalid_argument(fmt::format("--shard must be i/n with i between 1 and n, and n at most {}, got {}", most,
                                          files::in_quotes(text)));
}

std::vector<PlannedRun> runs_to_make(const Plan& plan) {
  std::vector<PlannedRun> runs;
  for (const PlannedRun& run : plan.runs) {
    if (!plan.shard || run.repeat % plan.shard->count == plan.shard->index - 1) runs.push_back(run);
  }
  return runs;
}

std::string id_by_content(const Plan& plan) {
  Json content = shared_part(plan);
  content.erase("id");
  content.erase("created");
  return fmt::format("{}-{}", plan.ladder.name, files::sha256_hex(content.dump()).substr(0, 12));
}

Json identity_of(const Plan& plan) {
  if (plan.quick) return identity_of(whole_plan(plan));
  Json content = shared_part(plan);
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    Json& rung = content["rungs"][i];
    // Another version may tell these otherwise.
    for (const char* told : {"summary", "text", "losses", "work"}) rung.erase(told);
    if (!plan.rungs[i].command) rung["recipe"] = recipe_diff(plain_recipe(), plan.rungs[i].recipe);
  }
  return {{"id", plan.id}, {"sha256", files::sha256_hex(content.dump())}};
}

std::vector<std::string> plan_differences(const Plan& plan, const Plan& other) {
  const Json here = shared_part(plan).flatten(), there = shared_part(other).flatten();
  Json fields = here;
  fields.update(there);
  std::vector<std::string> lines, names;
  for (const auto& [field, ignored] : fields.items()) {
    const std::string text = here.contains(field) ? here.at(field).dump() : "absent";
    const std::string other_text = there.contains(field) ? there.at(field).dump() : "absent";
    if (text == other_text) continue;
    const bool follows = field == "/id" || field == "/created";  // from the others, or from when it was made
    (follows ? names : lines).push_back(fmt::format("{}: {} against {}", field.substr(1), text, other_text));
  }
  return lines.empty() ? names : lines;
}

}  // namespace ablations
