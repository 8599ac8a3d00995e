#include "results/common.h"

namespace results {

using files::Json;

// A test compares it with model::Recipe.
const Json& plain_recipe() {
  static const Json plain{{"device", "cpu"},
                          {"host_memory", "release"},
                          {"batches", "gather"},
                          {"matmul_precision", "highest"},
                          {"autocast", "off"},
                          {"qkv_products", "one"},
                          {"qkv_gradient", "separate"},
                          {"attention", "manual"},
                          {"cross_entropy", "aten"},
                          {"residual", "float32"},
                          {"products", "aten"},
                          {"norm", "aten"},
                          {"mlp", "aten"},
                          {"execution", "eager"},
                          {"vocabulary_rows", 50257},
                          {"optimizer", "loop"},
                          {"weights", "separate"},
                          {"fp8", "off"},
                          {"data_parallel", "none"},
                          {"deterministic", false}};
  return plain;
}

Json recipe_diff(const Json& before, const Json& after) {
  Json from = plain_recipe(), to = plain_recipe(), diff = Json::object();
  from.update(before);
  to.update(after);
  for (const auto& [field, value] : to.items()) {
    const Json was = files::field_or_null(from, field.c_str());
    if (was != value) diff[field] = {was, value};
  }
  return diff;
}

DeviceKind device_of(const Json& recipe) {
  return files::field_or_null(recipe, "device") == "cuda" ? DeviceKind::cuda : DeviceKind::cpu;
}

}  // namespace results
