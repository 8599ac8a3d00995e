#include "ablations/run/setting.h"

#include "files/sha256.h"
#include "model/recipe.h"

#include <fmt/format.h>

namespace ablations {

using files::field_or_null;
using files::Json;

namespace {

std::optional<std::string> text_in(const Json& object, const char* field) {
  const Json value = field_or_null(object, field);
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

std::optional<int64_t> number_in(const Json& object, const char* field) {
  const Json value = field_or_null(object, field);
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

// "none", or "MKL_CBWR=COMPATIBLE, OMP_PROC_BIND=close"; none where they are not known.
std::optional<std::string> switches_text(const Json& environment) {
  const Json switches = field_or_null(environment, "kernel_switches");
  if (!switches.is_object()) return std::nullopt;
  std::string text;
  for (const auto& [name, value] : switches.items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, fact_of(value).value_or("not known"));
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::optional<std::string> fact_of(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Setting setting_of(const Json& environment, const Json& workload, const Json& recipe) {
  Setting setting = machine_setting(environment, field_or_null(recipe, "device") == "cuda");
  setting.model = text_in(workload, "model");
  setting.batch = number_in(workload, "batch");
  setting.context = number_in(workload, "context");
  setting.accumulation = number_in(workload, "accumulation");
  setting.positions = number_in(workload, "positions");
  setting.dtype = text_in(recipe, "autocast");
  if (setting.dtype == "off") setting.dtype = "float32";
  return setting;
}

Setting setting_of(const Json& record) {
  return setting_of(record.at("environment"), record.at("workload"), record.at("recipe"));
}

Setting machine_setting(const Json& environment, bool cuda) {
  Setting setting;
  setting.torch = text_in(environment, "torch");
  if (cuda) {
    setting.device = text_in(field_or_null(environment, "gpu"), "name");
    setting.driver = text_in(environment, "driver");
    setting.driver_cuda = text_in(environment, "driver_cuda");
    setting.cuda = text_in(environment, "cuda");
  } else {
    const Json cpu = field_or_null(environment, "cpu");
    setting.device = text_in(cpu, "model");
    setting.threads = number_in(environment, "threads");
    setting.cores = number_in(cpu, "logical_cores");
    setting.cpu_capability = text_in(environment, "torch_cpu_capability");
  }
  setting.kernel_switches = switches_text(environment);
  return setting;
}

std::vector<const char*> program_fields(bool cuda) {
  std::vector<const char*> fields{"git_commit", "program_sha256", "torch", "compiler", "compiler_flags",
                                  "mkl",        "onednn"};
  if (cuda) fields.insert(fields.end(), {"cuda", "cudnn"});
  return fields;
}

bool are_of_one_program(const Json& environment, const Json& other) {
  const auto both = [&](const char* field) {
    const Json value = field_or_null(environment, field);
    return !value.is_null() && value == field_or_null(other, field);
  };
  const bool is_committed = both("git_dirty") && environment.at("git_dirty") == false &&
                            field_or_null(environment, "git_commit") != "unknown";
  return both("git_commit") && (is_committed || both("program_sha256"));
}

Facts study_facts(const Json& record, bool cuda) {
  const Json& environment = record.at("environment");
  Facts facts = machine_setting(environment, cuda).facts();
  for (const char* field : program_fields(cuda)) facts[field] = fact_of(field_or_null(environment, field));
  facts["git_dirty"] = fact_of(field_or_null(environment, "git_dirty"));
  facts["text"] = fact_of(field_or_null(field_or_null(record.at("workload"), "data"), "sha256"));
  return facts;
}

std::string recipe_hash(const Json& recipe, const Json& workload) {
  // Only what is not the default, so that a new field of recipes leaves old hashes as they are.
  const Json edits = model::recipe_diff({}, model::recipe_from_json(recipe, "recipe"));
  Json size;
  for (const char* field : {"model", "batch", "context", "accumulation"}) size[field] = field_or_null(workload, field);
  return files::sha256_hex(Json{{"recipe", edits}, {"size", size}}.dump()).substr(0, 12);
}

}  // namespace ablations
