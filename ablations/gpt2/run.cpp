#include "ablations/gpt2/run.h"

#include "ablations/gpt2/gpt2_workload.h"
#include "ablations/gpt2/memory.h"
#include "ablations/gpt2/observe.h"
#include "ablations/gpt2/watch.h"
#include "ablations/techniques/techniques.h"
#include "harness/clock/clock.h"
#include "harness/machine/control_groups.h"
#include "harness/machine/file_use.h"
#include "harness/process/utc.h"
#include "harness/stats/stats.h"
#include "model/ranks.h"
#include "text/text.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <new>
#include <optional>
#include <span>

namespace ablations {

namespace {

// What is read of files while it lives, and what lies in the page cache before and after.
class DataWatch {
 public:
  DataWatch(const std::filesystem::path& file, bool cold) : file_(file) {
    use_.file = file.filename().string();
    use_.cold = cold && !file.empty();
    if (file.empty()) return;
    std::error_code gone;  // then the size is not known
    const auto size = std::filesystem::file_size(file, gone);
    use_.file_bytes = gone ? 0 : static_cast<int64_t>(size);
    if (cold) harness::drop_from_page_cache(file);
    use_.cached_before = harness::cached_bytes(file);
  }
  void begin() {
    use_.major_faults = harness::major_faults();
    reads_ = harness::ReadCount::now();
  }
  void end() {
    const auto now = harness::ReadCount::now();
    use_.major_faults = harness::major_faults() - use_.major_faults;
    if (!reads_ || !now) return;
    const harness::Reads reads = now->since(*reads_);
    use_.bytes_read = reads.bytes;
    use_.reads = reads.calls;
    use_.storage_bytes = reads.storage_bytes;
  }
  // opened_bytes: by how much the process grew when the data were opened.
  DataUse complete(const std::optional<int64_t>& opened_bytes) {
    if (!file_.empty()) use_.cached_after = harness::cached_bytes(file_);
    if (opened_bytes) {
      const auto mapping = file_.empty() ? std::nullopt : harness::mapping_of(file_);
      use_.resident_bytes = *opened_bytes + (mapping ? mapping->resident_bytes : 0);
    }
    return use_;
  }

 private:
  std::filesystem::path file_;
  DataUse use_;
  std::optional<harness::ReadCount> reads_;
};

RunTiming timing_of(const harness::Timing& timing, const std::vector<double>& data_ms, const model::Trainer& trainer,
                    const std::optional<AllocatorCalls>& calls) {
  RunTiming result;
  result.data_ms = data_ms;
  result.warmup_steps = timing.warmup_steps;
  result.step_ms = timing.step_ms;
  for (const double loss : trainer.losses()) {
    result.loss.push_back(std::isfinite(loss) ? std::optional(loss) : std::nullopt);
  }
  result.page_faults = timing.page_faults;
  result.skipped_steps = trainer.skipped_steps();
  result.window_ms = timing.window_ms;
  result.device_ms = timing.device_ms;
  result.allocator = calls;
  return result;
}

// Steps of rank 0 alone. The others only wait for each of them, which says that they still live.
class AloneWorkload : public harness::Workload {
 public:
  AloneWorkload(Gpt2Workload& all, bool is_first) : all_(all), is_first_(is_first) {}

  void step() override {
    if (is_first_) all_.trainer().step_alone();
  }
  void synchronize() override { all_.synchronize(); }
  [[nodiscard]] bool on_cuda() const override { return all_.on_cuda(); }

 private:
  Gpt2Workload& all_;
  bool is_first_;
};

constexpr int64_t warmup_alone = 1;

// How many steps scaling_of takes.
int64_t steps_alone(const RunOptions& options) { return options.ranks ? warmup_alone + options.timed_steps : 0; }

// Takes as many steps alone as were timed. Afterwards the ranks differ, so nothing may follow.
Scaling scaling_of(Gpt2Workload& all, const RunOptions& options, double together_ms, int64_t bytes_per_step) {
  AloneWorkload workload(all, model::ranks_of_environment().is_first());
  const harness::Timing timing =
      harness::measure(workload, warmup_alone, options.timed_steps, [&](int64_t) { all.trainer().wait_for_ranks(); });
  const double alone_ms = harness::median(std::span(timing.step_ms).subspan(warmup_alone));
  return {.bytes_per_step = bytes_per_step, .alone_ms = alone_ms, .efficiency = alone_ms / together_ms};
}

RunMemory memory_of(const PeakMemory& peak, const MemoryParts& parts) {
  RunMemory memory;
  static_cast<PeakMemory&>(memory) = peak;
  memory.weights_bytes = parts.weights;
  memory.gradients_bytes = parts.gradients;
  memory.optimizer_bytes = parts.optimizer;
  memory.weight_copies_bytes = parts.weight_copies;
  memory.activations_bytes = parts.activations;
  return memory;
}

Record measured_run(const RunOptions& options, const std::function<void(int64_t)>& on_step) {
  const auto start = std::chrono::steady_clock::now();
  const std::string started = harness::utc_now();
  const int64_t timed_steps = most_timed_steps(options.timed_steps, options.least_window_s);
  Gpt2Workload workload(options, options.warmup_steps + timed_steps + observed_steps + steps_alone(options));
  model::Trainer& trainer = workload.trainer();
  Watch watch(options.recipe.device);
  DataWatch data(trainer.inputs().file(), options.cold_cache);
  std::optional<AllocatorCalls> calls;  // on a GPU
  PeakWatch peak_watch(options.recipe);
  const auto after_step = [&](int64_t steps) {
    peak_watch.after_step(steps);
    on_step(steps);
  };
  const auto on_begin = [&] {
    peak_watch.begin_window();
    if (workload.on_cuda()) calls = allocator_calls();
    watch.begin();
    data.begin();
  };
  const auto on_end = [&] {
    data.end();
    watch.end();
    if (calls) calls = allocator_calls() - *calls;
  };
  const harness::Timing timing = harness::measure(workload, options.warmup_steps, options.timed_steps, after_step,
                                                  on_begin, on_end, 1000 * options.least_window_s);

  // Read before observing, which takes memory and more steps.
  const PeakMemory peak = peak_watch.peak();
  Record record;
  record.data = data.complete(workload.opened_bytes());
  record.timing = timing_of(timing, workload.data_ms(), trainer, calls);
  Observed seen = observe(trainer);
  if (workload.on_cuda() && (!options.ranks || model::ranks_of_environment().is_first())) write_study_choices();
  auto& timings = seen.observations.product_timings;
  timings.insert(timings.end(), options.product_timings.begin(), options.product_timings.end());
  const auto timed_faults = std::span(timing.page_faults).subspan(static_cast<size_t>(timing.warmup_steps));
  const double faults_per_step = harness::median(std::vector<double>(timed_faults.begin(), timed_faults.end()));
  record.id = options.id;
  record.started = started;
  record.recipe = model::to_json(options.recipe);
  record.optimizations = options.applied;
  record.losses = expected_losses(options.recipe);
  if (!options.applied.empty()) {
    if (const Optimization* last = find_optimization(options.applied.back())) {
      record.title = title_after_proof(*last, seen.observations);
    }
  }
  record.workload = workload.description();
  record.summary = summary_of(std::span(timing.step_ms).subspan(static_cast<size_t>(timing.warmup_steps)),
                              trainer.tokens_per_step());
  record.memory = memory_of(peak, seen.memory);
  record.least_work = least_work_of(options);
  record.observations = json_of(seen.observations);
  record.proofs = prove(options.recipe, {.observations = seen.observations,
                                         .page_faults_per_step = faults_per_step,
                                         .peak_bytes = peak.peak_bytes,
                                         .attentions = workload.config().n_layer * options.accumulation});
  record.environment = environment_here();
  if (options.ranks) {
    const auto reduced = seen.observations.all_reduces.value_or(Observations::AllReduces());
    record.scaling = scaling_of(workload, options, record.summary.median_ms, reduced.bytes);
  }
  record.duration_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  watch.complete(record);
  return record;
}

}  // namespace

Record execute_run(const RunOptions& options, const std::function<void(int64_t)>& on_step) {
  const auto start = std::chrono::steady_clock::now();
  const std::string started = harness::utc_now();
  const auto out_of_memory = [&](const std::string& message) {
    return failed_record(options.id, FailureKind::out_of_memory, message, started,
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

}  // namespace ablations
