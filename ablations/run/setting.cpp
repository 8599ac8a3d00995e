#include "ablations/run/setting.h"

#include "files/sha256.h"
#include "model/recipe.h"

#include <fmt/format.h>

namespace ablations {

using harness::Json;

namespace {

// Model and size of a step.
Json size_of(const Json& workload) {
  Json size;
  for (const char* field : {"model", "batch", "context", "accumulation"})
    size[field] = harness::field_or_null(workload, field);
  return size;
}

std::string text_of(const Json& value) {
  if (value.is_null()) return "not known";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// "none", or "MKL_CBWR=COMPATIBLE, OMP_PROC_BIND=close"; null where they are not known.
Json switches_text(const Json& environment) {
  const Json switches = harness::field_or_null(environment, "kernel_switches");
  if (!switches.is_object()) return {};
  std::string text;
  for (const auto& [name, value] : switches.items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, text_of(value));
  }
  return text.empty() ? "none" : text;
}

// Whether a file from before this field was looked at may mean `value` by its silence.
bool may_be_left_out(const std::string& field, const Json& value) {
  return field == "cores" || field == "cpu_capability" || (field == "kernel_switches" && value == "none");
}

}  // namespace

Json setting_of(const Json& environment, const Json& workload, const Json& recipe) {
  const bool cuda = harness::field_or_null(recipe, "device") == "cuda";
  Json setting = size_of(workload);
  setting["positions"] = harness::field_or_null(workload, "positions");
  setting["dtype"] = harness::field_or_null(recipe, "autocast") == "off" ? Json("float32")
                                                                         : harness::field_or_null(recipe, "autocast");
  setting["torch"] = harness::field_or_null(environment, "torch");
  if (cuda) {
    setting["device"] = harness::field_or_null(harness::field_or_null(environment, "gpu"), "name");
    setting["driver"] = harness::field_or_null(environment, "driver");
    setting["driver_cuda"] = harness::field_or_null(environment, "driver_cuda");
    setting["cuda"] = harness::field_or_null(environment, "cuda");
  } else {
    setting["device"] = harness::field_or_null(harness::field_or_null(environment, "cpu"), "model");
    setting["threads"] = harness::field_or_null(environment, "threads");
    setting["cores"] = harness::field_or_null(harness::field_or_null(environment, "cpu"), "logical_cores");
    setting["cpu_capability"] = harness::field_or_null(environment, "torch_cpu_capability");
  }
  setting["kernel_switches"] = switches_text(environment);
  return setting;
}

Json setting_of(const Json& record) {
  return setting_of(record.at("environment"), record.at("workload"), record.at("recipe"));
}

Json machine_setting(const Json& environment, bool cuda) {
  Json setting = setting_of(environment, Json::object(), {{"device", cuda ? "cuda" : "cpu"}});
  for (const char* field : {"model", "batch", "context", "accumulation", "positions", "dtype"}) setting.erase(field);
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
    const Json value = harness::field_or_null(environment, field);
    return !value.is_null() && value == harness::field_or_null(other, field);
  };
  const bool is_committed = both("git_dirty") && environment.at("git_dirty") == false &&
                            harness::field_or_null(environment, "git_commit") != "unknown";
  return both("git_commit") && (is_committed || both("program_sha256"));
}

Json study_setting(const Json& record, bool cuda) {
  const Json& environment = record.at("environment");
  Json setting = machine_setting(environment, cuda);
  for (const char* field : program_fields(cuda)) setting[field] = harness::field_or_null(environment, field);
  setting["git_dirty"] = harness::field_or_null(environment, "git_dirty");
  setting["text"] = harness::field_or_null(harness::field_or_null(record.at("workload"), "data"), "sha256");
  return setting;
}

std::vector<std::string> differences(const Json& setting, const Json& other) {
  std::vector<std::string> lines;
  Json fields = setting;
  fields.update(other);
  for (const auto& [field, ignored] : fields.items()) {
    const Json here = harness::field_or_null(setting, field.c_str()),
               there = harness::field_or_null(other, field.c_str());
    const bool unknown =
        (here.is_null() && may_be_left_out(field, there)) || (there.is_null() && may_be_left_out(field, here));
    if (here != there && !unknown)
      lines.push_back(fmt::format("{}: {} against {}", field, text_of(here), text_of(there)));
  }
  return lines;
}

std::string recipe_hash(const Json& recipe, const Json& workload) {
  // Only what is not the default, so that a new field of recipes leaves old hashes as they are.
  const Json edits = model::recipe_diff({}, model::recipe_from_json(recipe, "recipe"));
  return files::sha256_hex(Json{{"recipe", edits}, {"size", size_of(workload)}}.dump()).substr(0, 12);
}

std::string device_slug(const Json& setting) {
  const Json device = harness::field_or_null(setting, "device");
  if (!device.is_string()) return "unknown-device";
  std::string text = device;
  if (const Json threads = harness::field_or_null(setting, "threads"); threads.is_number())
    text += fmt::format(" {} threads", threads.get<int64_t>());
  std::string slug;
  for (const char c : text) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      slug += c;
    } else if (c >= 'A' && c <= 'Z') {
      slug += static_cast<char>(c - 'A' + 'a');
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug.empty() ? "unknown-device" : slug;
}

}  // namespace ablations
