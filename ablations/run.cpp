#include "ablations/run.h"

#include "ablations/observe.h"
#include "ablations/plan.h"
#include "ablations/proof.h"
#include "harness/clock.h"
#include "harness/environment.h"
#include "harness/resources.h"
#include "harness/stats.h"
#include "model/config.h"
#include "model/data.h"
#include "model/host_memory.h"
#include "model/trainer.h"

#include <ATen/Parallel.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <stdexcept>

namespace ablations {

using harness::Json;

namespace {

class Gpt2Workload : public harness::Workload {
 public:
  explicit Gpt2Workload(model::Trainer& trainer) : trainer_(trainer) {}
  void step() override { trainer_.step(); }
  void synchronize() override { trainer_.synchronize(); }
  [[nodiscard]] bool on_cuda() const override { return trainer_.recipe().device == model::Device::cuda; }

 private:
  model::Trainer& trainer_;
};

void check_range(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) {
    throw std::invalid_argument(fmt::format("{} {} is not allowed; {} to {} is", name, value, least, most));
  }
}

Json peak_memory(const model::Recipe& recipe) {
  if (recipe.device == model::Device::cuda) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
    return {{"peak_bytes", stats.allocated_bytes[0].peak},
            {"peak_source", "CUDA caching allocator, allocated bytes"},
            {"reserved_peak_bytes", stats.reserved_bytes[0].peak}};
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {{"peak_bytes", usage.ru_maxrss * 1024}, {"peak_source", "resident set of the process"}};
}

Json summarize(const harness::Timing& timing, int64_t tokens_per_step) {
  const std::span<const double> timed = std::span(timing.step_ms).subspan(static_cast<size_t>(timing.warmup_steps));
  const double median = harness::median(timed);
  return {{"median_ms", median},
          {"q1_ms", harness::quantile(timed, 0.25)},
          {"q3_ms", harness::quantile(timed, 0.75)},
          {"min_ms", harness::quantile(timed, 0.0)},
          {"max_ms", harness::quantile(timed, 1.0)},
          {"n", timed.size()},
          {"tokens_per_s", 1000.0 * static_cast<double>(tokens_per_step) / median}};
}

}  // namespace

Json execute_run(const RunOptions& options, const std::function<void(int64_t)>& on_step) {
  check_range("--steps", options.timed_steps, 1, 100000);
  check_range("--warmup", options.warmup_steps, 0, 100000);
  check_range("--threads", options.threads, 0, 4096);
  const auto start = std::chrono::steady_clock::now();
  const std::string started = utc_now();

  model::apply_host_memory(options.recipe.host_memory);
  at::set_num_threads(
      static_cast<int>(options.threads > 0 ? options.threads : harness::this_machine().cpu.logical_cores));
  const model::Config config = model::with_positions(model::preset(options.model), options.positions);
  const model::TokenStream tokens =
      options.tokens.empty()
          ? model::tokens_of(options.data, options.vocabulary, harness::cache_folder() / "tokens", config.vocabulary)
          : model::load_tokens(options.tokens, config.vocabulary);
  model::Trainer trainer(config, options.recipe,
                         {.B = options.B,
                          .T = options.T,
                          .accumulation = options.accumulation,
                          .max_steps = options.warmup_steps + options.timed_steps + observed_steps,
                          .seed = options.seed},
                         tokens);
  Gpt2Workload workload(trainer);
  const harness::Timing timing = harness::measure(workload, options.warmup_steps, options.timed_steps, on_step);

  const Json memory = peak_memory(options.recipe);
  Json losses = Json::array();
  for (const double loss : trainer.losses()) losses.push_back(harness::finite_or_null(loss));
  const Json observations = observe(trainer);
  const auto timed_faults = std::span(timing.page_faults).subspan(static_cast<size_t>(timing.warmup_steps));
  const double faults_per_step = harness::median(std::vector<double>(timed_faults.begin(), timed_faults.end()));
  const auto proofs = prove(options.recipe, {.observations = observations,
                                             .page_faults_per_step = faults_per_step,
                                             .peak_bytes = memory.at("peak_bytes"),
                                             .n_layer = config.n_layer});
  const int64_t per_step = trainer.tokens_per_step();
  return {{"kind", "record"},
          {"schema_version", 1},
          {"id", options.id},
          {"started", started},
          {"duration_s", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()},
          {"status", "ok"},
          {"recipe", model::to_json(options.recipe)},
          {"optimizations", options.applied},
          {"workload",
           {{"model", config.name},
            {"parameters", config.parameters()},
            {"batch", options.B},
            {"context", options.T},
            {"accumulation", options.accumulation},
            {"positions", config.n_positions},
            {"tokens_per_step", per_step},
            {"flops_per_step", config.flops_per_token(options.T) * static_cast<double>(per_step)},
            {"seed", options.seed},
            {"data", {{"source", options.data.filename().string()}, {"sha256", tokens.sha256}, {"tokens", tokens.tokens.size()}}}}},
          {"timing",
           {{"warmup_steps", timing.warmup_steps},
            {"step_ms", timing.step_ms},
            {"loss", losses},
            {"page_faults", timing.page_faults},
            {"window_ms", timing.window_ms},
            {"device_ms", timing.device_ms ? Json(*timing.device_ms) : Json()}}},
          {"summary", summarize(timing, per_step)},
          {"memory", memory},
          {"observations", observations},
          {"proofs", to_json(proofs)},
          {"environment", harness::environment()}};
}

Json failed_record(const std::string& id, const std::string& failure_kind, const std::string& message, double seconds) {
  return {{"kind", "record"},
          {"schema_version", 1},
          {"id", id},
          {"started", utc_now()},
          {"duration_s", seconds},
          {"status", "failed"},
          {"failure", {{"kind", failure_kind}, {"message", message}}}};
}

}  // namespace ablations
