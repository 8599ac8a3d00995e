#include "ablations/run/run.h"

#include "ablations/run/memory.h"
#include "ablations/run/observe.h"
#include "ablations/run/watch.h"
#include "ablations/techniques/techniques.h"
#include "ablations/text/text.h"
#include "harness/measure/clock.h"
#include "harness/measure/environment.h"
#include "harness/measure/utc.h"
#include "harness/stats/stats.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <new>
#include <optional>

namespace ablations {

using files::Json;

namespace {

Json timing_json(const harness::Timing& timing, const Json& losses, int64_t skipped_steps,
                 const std::optional<AllocatorCalls>& calls) {
  Json allocator;
  if (calls) {
    allocator = {{"allocations", calls->allocations}, {"frees", calls->frees}, {"retries", calls->retries}};
  }
  return {{"warmup_steps", timing.warmup_steps},
          {"step_ms", timing.step_ms},
          {"loss", losses},
          {"page_faults", timing.page_faults},
          {"skipped_steps", skipped_steps},
          {"window_ms", timing.window_ms},
          {"device_ms", timing.device_ms ? Json(*timing.device_ms) : Json()},
          {"allocator", allocator}};
}

Json measured_run(const RunOptions& options, const std::function<void(int64_t)>& on_step) {
  const auto start = std::chrono::steady_clock::now();
  const std::string started = harness::utc_now();
  Gpt2Workload workload(options, options.warmup_steps + options.timed_steps + observed_steps);
  model::Trainer& trainer = workload.trainer();
  Watch watch(options.recipe.device);
  std::optional<AllocatorCalls> calls;  // on a GPU
  const auto on_begin = [&] {
    if (workload.on_cuda()) calls = allocator_calls();
    watch.begin();
  };
  const auto on_end = [&] {
    watch.end();
    if (calls) calls = allocator_calls() - *calls;
  };
  const harness::Timing timing =
      harness::measure(workload, options.warmup_steps, options.timed_steps, on_step, on_begin, on_end);

  Json memory = json_of(peak_memory(options.recipe));
  Json losses = Json::array();
  for (const double loss : trainer.losses()) losses.push_back(files::finite_or_null(loss));
  const int64_t skipped_steps = trainer.skipped_steps();
  const Observed seen = observe(trainer);
  memory.update({{"weights_bytes", seen.memory.weights},
                 {"gradients_bytes", seen.memory.gradients},
                 {"optimizer_bytes", seen.memory.optimizer},
                 {"weight_copies_bytes", seen.memory.weight_copies},
                 {"activations_bytes", seen.memory.activations}});
  const auto timed_faults = std::span(timing.page_faults).subspan(static_cast<size_t>(timing.warmup_steps));
  const double faults_per_step = harness::median(std::vector<double>(timed_faults.begin(), timed_faults.end()));
  const auto proofs = prove(options.recipe, {.observations = seen.observations,
                                             .page_faults_per_step = faults_per_step,
                                             .peak_bytes = memory.at("peak_bytes"),
                                             .attentions = workload.config().n_layer * options.accumulation});
  Json record{{"kind", "record"},
              {"schema_version", 1},
              {"id", options.id},
              {"started", started},
              {"duration_s", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()},
              {"status", "ok"},
              {"recipe", model::to_json(options.recipe)},
              {"optimizations", options.applied},
              {"workload", workload.description()},
              {"timing", timing_json(timing, losses, skipped_steps, calls)},
              {"summary", summary_of(std::span(timing.step_ms).subspan(static_cast<size_t>(timing.warmup_steps)),
                                     trainer.tokens_per_step())},
              {"memory", memory},
              {"observations", json_of(seen.observations)},
              {"proofs", json_of(proofs)},
              {"environment", harness::environment()}};
  watch.complete(record);
  return record;
}

}  // namespace

Json summary_of(std::span<const double> timed_ms, int64_t tokens_per_step) {
  const double median = harness::median(timed_ms);
  return {{"median_ms", median},
          {"q1_ms", harness::quantile(timed_ms, 0.25)},
          {"q3_ms", harness::quantile(timed_ms, 0.75)},
          {"min_ms", harness::quantile(timed_ms, 0.0)},
          {"max_ms", harness::quantile(timed_ms, 1.0)},
          {"n", timed_ms.size()},
          {"tokens_per_s", 1000.0 * static_cast<double>(tokens_per_step) / median}};
}

Json execute_run(const RunOptions& options, const std::function<void(int64_t)>& on_step) {
  const auto start = std::chrono::steady_clock::now();
  const std::string started = harness::utc_now();
  const auto out_of_memory = [&](const std::string& message) {
    return failed_record(options.id, "out_of_memory", message, started,
                         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  };
  RefusedAllocation refused;
  try {
    if (options.recipe.device == model::Device::cuda) refused.watch();
    return measured_run(options, on_step);
  } catch (const c10::OutOfMemoryError&) {
    return out_of_memory(refused.describe());
  } catch (const std::bad_alloc&) {
    return out_of_memory(available_host_memory());
  } catch (const c10::Error& error) {
    // The CPU's allocator has no class of its own for this.
    const std::string text = error.what_without_backtrace();
    if (text.starts_with("CUDA error: out of memory")) {  // the driver's or a library's, not the allocator's
      return out_of_memory("the CUDA driver had no memory left for what it, a library or a graph needs");
    }
    constexpr std::string_view tried = "you tried to allocate ";
    const size_t at = text.find(tried);
    if (at == std::string::npos) throw;
    return out_of_memory(fmt::format("asked for {:.2f} GiB more; {}",
                                     gib(std::strtod(text.c_str() + at + tried.size(), nullptr)),
                                     available_host_memory()));
  }
}

Json failed_record(const std::string& id, const std::string& failure_kind, const std::string& message,
                   const std::string& started, double seconds) {
  return {{"kind", "record"},
          {"schema_version", 1},
          {"id", id},
          {"started", started},
          {"duration_s", seconds},
          {"status", "failed"},
          {"failure", {{"kind", failure_kind}, {"message", message}}}};
}

}  // namespace ablations
