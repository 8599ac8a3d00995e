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

void keep_study_choices() {
  if (file().empty() || !std::filesystem::exists(file())) return;
  const auto found = value_from<ChosenProducts>(files::read_any_json(file()), file().string());
  const ChosenProducts here = none_here();
  if (found.gpu == here.gpu && found.library == here.library) model::keep_product_timings(found.products);
}

void write_study_choices() {
  if (file().empty()) return;
  ChosenProducts chosen = none_here();
  if (std::filesystem::exists(file())) {
    auto found = value_from<ChosenProducts>(files::read_any_json(file()), file().string());
    if (found.gpu == chosen.gpu && found.library == chosen.library) chosen = std::move(found);
  }
  for (ProductTiming& one : model::product_timings()) {
    if (!one.kept) chosen.products.push_back(std::move(one));
  }
  files::write_file(file(), json_of(chosen).dump(1) + "\n");
}

}  // namespace ablations
