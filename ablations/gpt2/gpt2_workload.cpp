#include "ablations/gpt2/gpt2_workload.h"

#include "ablations/techniques/operations.h"
#include "ablations/techniques/products/products.h"
#include "files/files.h"
#include "harness/machine/control_groups.h"
#include "harness/machine/machine.h"
#include "model/host_memory.h"
#include "model/ranks.h"
#include "results/fields.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace ablations {

namespace {

void check_range(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) {
    throw std::invalid_argument(fmt::format("{} must be between {} and {}, got {}", name, least, most, value));
  }
}

const RunOptions& checked_and_prepared(const RunOptions& options) {
  check_range("--steps", options.timed_steps, 1, 100000);
  check_range("--warmup", options.warmup_steps, 0, 100000);
  check_warmup(options.recipe, options.warmup_steps);
  check_range("--threads", options.threads, 0, 4096);
  prepare_process(options);
  return options;
}

}  // namespace

void prepare_process(const RunOptions& options) {
  model::apply_host_memory(options.recipe.host_memory);
  at::set_num_threads(
      static_cast<int>(options.threads > 0 ? options.threads : harness::this_machine().cpu.logical_cores));
  if (options.recipe.device == model::Device::cuda) keep_study_choices();
}

Gpt2Workload::Gpt2Workload(const RunOptions& options, int64_t steps)
    : options_(checked_and_prepared(options)),
      config_(config_of(options)),
      resident_before_(harness::resident_bytes()),
      tokens_(tokens_of(options)),
      resident_opened_(harness::resident_bytes()),
      trainer_(config_, options.recipe,
               {.B = options.B,
                .T = options.T,
                .accumulation = options.accumulation,
                .max_steps = steps,
                .seed = options.seed,
                .windows = model::Windows{options.random_windows},
                .ranks = options.ranks ? model::ranks_of_environment() : model::Ranks{},
                .work = {"text " + tokens_.sha256, fmt::format("warm-up {}", options.warmup_steps)}},
               tokens_, model::step_parts()),
      data_clock_("data", static_cast<size_t>(steps)) {
  label(harness::nvtx_tool_attached());
}

void Gpt2Workload::label(bool follow_autograd) {
  labels_.reset();
  labels_ = std::make_unique<harness::Labels>(follow_autograd);
  trainer_.on_phase = [this](std::string_view phase) {
    data_clock_.begin_phase(phase);
    labels_->begin_phase(phase);
  };
  trainer_.ops().on_part = [this](int64_t layer, std::string_view part) { labels_->begin_part(layer, part); };
}

std::optional<int64_t> Gpt2Workload::opened_bytes() const {
  if (!resident_before_ || !resident_opened_) return std::nullopt;
  return *resident_opened_ - *resident_before_;
}

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

// What stands in the file; nothing where another device, library or kind of program wrote it.
static ChosenProducts chosen_before() {
  ChosenProducts here = none_here();
  if (!std::filesystem::exists(file())) return here;
  try {
    auto found = value_from<ChosenProducts>(files::read_any_json(file()), file().string());
    if (found.gpu == here.gpu && found.library == here.library) return found;
  } catch (const std::invalid_argument&) {  // in a gate the other side's program may be older or newer
  }
  return here;
}

void keep_study_choices() {
  if (!file().empty()) model::keep_product_timings(chosen_before().products);
}

void write_study_choices() {
  if (file().empty()) return;
  ChosenProducts chosen = chosen_before();
  for (ProductTiming& one : model::product_timings()) {
    if (!one.kept) chosen.products.push_back(std::move(one));
  }
  files::write_file(file(), json_of(chosen).dump(1) + "\n");
}

}  // namespace ablations
