#include "ablations/run/product_choices.h"

#include "ablations/techniques/products/products.h"
#include "files/files.h"
#include "harness/machine/machine.h"
#include "results/fields.h"

#include <cstdlib>
#include <filesystem>
#include <string>

namespace ablations {

namespace {

struct ChosenProducts {
  std::string gpu, library;
  std::vector<ProductTiming> products;

  LADDER_FIELDS(ChosenProducts, gpu, library, products)
};

std::filesystem::path file() {
  const char* const named = std::getenv("LADDER_PRODUCTS");
  return named == nullptr ? "" : named;
}

ChosenProducts none_here() {
  const harness::Machine& machine = harness::this_machine();
  return {.gpu = machine.gpu ? machine.gpu->name : "", .library = model::product_library(), .products = {}};
}

}  // namespace

std::vector<ProductTiming> product_timings_here() {
  std::vector<ProductTiming> timings;
  for (const model::ProductChoice& one : model::product_choices()) {
    timings.push_back({.product = one.product,
                       .type = one.type,
                       .m = one.m,
                       .n = one.n,
                       .k = one.k,
                       .algorithm = one.algorithm,
                       .microseconds = one.microseconds,
                       .plain_microseconds = one.other_microseconds.value_or(0),
                       .tried = one.tried,
                       .bits = one.bits,
                       .alignment = one.alignment});
    if (one.was_kept) timings.back().kept = true;
  }
  return timings;
}

void keep_product_timings(const std::vector<ProductTiming>& timings) {
  std::vector<model::ProductChoice> choices;
  for (const ProductTiming& one : timings) {
    if (!one.bits) continue;  // a CPU's, or an older program's
    choices.push_back({.product = one.product,
                       .type = one.type,
                       .m = one.m,
                       .n = one.n,
                       .k = one.k,
                       .alignment = one.alignment.value_or(0),
                       .algorithm = static_cast<int>(one.algorithm),
                       .bits = *one.bits,
                       .microseconds = one.microseconds,
                       .tried = one.tried});
    if (one.plain_microseconds > 0) choices.back().other_microseconds = one.plain_microseconds;
  }
  model::keep_choices(choices);
}

void keep_study_choices() {
  if (file().empty() || !std::filesystem::exists(file())) return;
  const auto found = value_from<ChosenProducts>(files::read_any_json(file()), file().string());
  const ChosenProducts here = none_here();
  if (found.gpu == here.gpu && found.library == here.library) keep_product_timings(found.products);
}

void write_study_choices() {
  if (file().empty()) return;
  ChosenProducts chosen = none_here();
  if (std::filesystem::exists(file())) {
    auto found = value_from<ChosenProducts>(files::read_any_json(file()), file().string());
    if (found.gpu == chosen.gpu && found.library == chosen.library) chosen = std::move(found);
  }
  for (ProductTiming& one : product_timings_here()) {
    if (!one.kept) chosen.products.push_back(std::move(one));
  }
  files::write_file(file(), json_of(chosen).dump(1) + "\n");
}

}  // namespace ablations
