#include "ablations/profile/rates.h"
#include "ablations/techniques/products/products.h"
#include "ablations/techniques/step_table.h"
#include "harness/clock/clock.h"
#include "harness/machine/machine.h"
#include "harness/machine/peaks.h"
#include "harness/stats/stats.h"
#include "model/precision.h"
#include "text/figures.h"
#include "text/text.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace ablations {

using model::Autocast;
using model::Device;
using model::MatmulPrecision;
using model::Products;

namespace {

class Work : public harness::Workload {
 public:
  Work(std::function<void()> work, at::Device device) : work_(std::move(work)), device_(device) {}
  void step() override { work_(); }
  void synchronize() override {
    if (on_cuda()) c10::cuda::device_synchronize();
  }
  [[nodiscard]] bool on_cuda() const override { return device_.is_cuda(); }

 private:
  std::function<void()> work_;
  at::Device device_;
};

double median_seconds(const std::function<void()>& work, at::Device device, int64_t warmup, int64_t timed) {
  Work workload(work, device);
  const harness::Timing timing = harness::measure(workload, warmup, timed);
  return harness::median(std::span(timing.step_ms).subspan(static_cast<size_t>(warmup))) / 1e3;
}

// The median of at least nine, as many as take half a second.
double steady_seconds(const std::function<void()>& work, at::Device device) {
  const double once = median_seconds(work, device, 2, 1);
  return median_seconds(work, device, 1, std::clamp<int64_t>(static_cast<int64_t>(0.5 / once), 9, 200));
}

int64_t block_bytes(at::Device device) { return int64_t{1} << (device.is_cuda() ? 30 : 28); }

Rate copy_rate(at::Device device) {
  const int64_t bytes = block_bytes(device);
  const at::Tensor random = at::randint(256, {1 << 20}, at::TensorOptions(device).dtype(at::kByte));
  const at::Tensor from = random.repeat({bytes >> 20}), to = at::zeros_like(from);
  const auto copy = [&] {
    if (device.is_cuda()) {
      to.copy_(from, /*non_blocking=*/true);
      return;
    }
    auto* target = to.data_ptr<uint8_t>();
    const auto* source = from.const_data_ptr<uint8_t>();
    at::parallel_for(0, bytes, int64_t{1} << 20, [&](int64_t begin, int64_t end) {
      std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
    });
  };
  return {"copy", fmt::format("{} MiB", bytes >> 20), 2.0 * static_cast<double>(bytes) / steady_seconds(copy, device),
          std::nullopt};
}

// Writes where it has read, as an optimizer does. A copy is different: a processor also reads its target before it
// writes there, and nobody counts that.
std::function<void()> update_of(int64_t bytes, at::Device device) {
  return [block = at::randn({bytes / 4}, at::TensorOptions(device).dtype(at::kFloat))] { block.neg_(); };
}

double update_bytes_per_s(int64_t bytes, double seconds) { return 2.0 * static_cast<double>(bytes) / seconds; }

Rate update_rate(at::Device device) {
  const int64_t bytes = block_bytes(device);
  const double seconds = steady_seconds(update_of(bytes, device), device);
  return {"update", fmt::format("{} MiB", bytes >> 20), update_bytes_per_s(bytes, seconds), std::nullopt};
}

// e4m3 by e4m3, added up fast; one scale each.
std::function<void()> fp8_product_of(int64_t n, at::Device device) {
  const auto matrix = [&] { return at::randn({n, n}, device).to(at::kFloat8_e4m3fn); };
  return [a = matrix(), b = matrix().t(), one = at::ones({}, device),
          c = at::empty({n, n}, at::dtype(at::kBFloat16).device(device))] {
    at::Tensor out = c;
    at::_scaled_mm_out(out, a, b, one, one, {}, {}, at::kBFloat16, /*use_fast_accum=*/true);
  };
}

// A product of two n x n matrices, as the recipe makes it: float32, autocast's type, or fp8.
std::function<void()> product_of(const model::Recipe& recipe, int64_t n, at::Device device) {
  if (recipe.fp8 == model::Fp8::all && device.is_cuda()) return fp8_product_of(n, device);
  const auto options = at::TensorOptions(device).dtype(model::scalar_type(recipe.autocast));
  return [by = recipe.products, a = at::randn({n, n}, options), b = at::randn({n, n}, options),
          c = at::empty({n, n}, options)] { model::product_into(by, c, a, b, /*accumulate=*/false); };
}

constexpr int64_t small_side = 512;  // of a product that takes milliseconds

double small_product_seconds(const model::Recipe& recipe, at::Device device) {
  return median_seconds(product_of(recipe, small_side, device), device, 1, 3);
}

// Seconds for each piece of work while all threads work at once, each on its own. It is processor time, which other
// programs do not lengthen.
double processor_seconds(const std::function<std::function<void()>()>& work_of_a_thread) {
  std::vector<double> shortest(static_cast<size_t>(at::get_num_threads()), std::numeric_limits<double>::infinity());
  at::parallel_for(0, std::ssize(shortest), 1, [&](int64_t thread, int64_t) {
    const auto work = work_of_a_thread();
    for (int round = 0; round < 6; ++round) {
      timespec begin{}, end{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
      work();
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
      shortest[thread] =
          std::min(shortest[thread], double(end.tv_sec - begin.tv_sec) + 1e-9 * double(end.tv_nsec - begin.tv_nsec));
    }
  });
  return harness::median(shortest) / static_cast<double>(std::ssize(shortest));
}

// With the recipe's precision.
Rate matrix_rate(const model::Recipe& recipe, at::Device device) {
  const model::MatmulPrecisionScope precision(recipe.matmul_precision);
  int64_t n = 8192;
  if (device.is_cpu()) {  // what takes 50 ms
    const double small = small_product_seconds(recipe, device);
    n = std::clamp<int64_t>(static_cast<int64_t>(512 * std::cbrt(0.05 / small)) / 256 * 256, 512, 4096);
  }
  const auto side = static_cast<double>(n);
  return {rate_of(recipe), fmt::format("{}^3", n),
          product_flops(side, side, side) / steady_seconds(product_of(recipe, n, device), device), std::nullopt};
}

}  // namespace

Rates measure_rates() {
  const at::NoGradGuard no_grad;
  const harness::Machine& machine = harness::this_machine();
  if (!machine.gpu) {
    at::set_num_threads(machine.cpu.logical_cores);
    Rates result{.device = fmt::format("{}, {}", machine.cpu.model, number_of(machine.cpu.logical_cores, "thread")),
                 .source = "",
                 .reason = "there is no table of peaks for CPUs",
                 .rates = {copy_rate(at::kCPU), update_rate(at::kCPU)}};
    for (const model::Recipe& recipe :
         {model::Recipe{}, model::Recipe{.matmul_precision = MatmulPrecision::medium},
          model::Recipe{.products = Products::packed}, model::Recipe{.autocast = Autocast::bf16}}) {
      result.rates.push_back(matrix_rate(recipe, at::kCPU));
    }
    if (model::has_packed_bf16()) {
      result.rates.push_back(matrix_rate({.autocast = Autocast::bf16, .products = Products::packed}, at::kCPU));
    }
    return result;
  }
  const at::Device device(at::kCUDA, 0);
  const auto peaks = harness::peaks_of(machine.gpu->name);
  Rates result{.device = machine.gpu->name,
               .source = peaks ? peaks->source : "",
               .reason = peaks ? "" : fmt::format("\"{}\" is not in the table of peaks", machine.gpu->name),
               .rates = {copy_rate(device), update_rate(device)}};
  if (peaks) {
    for (Rate& rate : result.rates) rate.table = peaks->bytes_per_s;
  }
  // Before Ampere there is neither TF32 nor bf16: cuBLAS would take another way without a word.
  const bool ampere = machine.gpu->compute_capability >= 80;
  for (const auto& [precision, autocast] :
       {std::pair(MatmulPrecision::highest, Autocast::off), std::pair(MatmulPrecision::high, Autocast::off),
        std::pair(MatmulPrecision::highest, Autocast::bf16), std::pair(MatmulPrecision::highest, Autocast::fp16)}) {
    const model::Recipe recipe{.device = Device::cuda, .matmul_precision = precision, .autocast = autocast};
    const harness::NumberType type = multiplied_in(recipe);
    if (!ampere && (type == harness::NumberType::tf32 || type == harness::NumberType::bf16)) continue;
    result.rates.push_back(matrix_rate(recipe, device));
    if (peaks) result.rates.back().table = peaks->of(type);
  }
  if (machine.gpu->compute_capability >= 89) {
    result.rates.push_back(
        matrix_rate({.device = Device::cuda, .autocast = Autocast::bf16, .fp8 = model::Fp8::all}, device));
  }
  return result;
}

double rough_product_rate(const model::Recipe& recipe) {
  const at::NoGradGuard no_grad;
  const model::MatmulPrecisionScope precision(recipe.matmul_precision);
  return product_flops(small_side, small_side, small_side) /
         processor_seconds([&] { return product_of(recipe, small_side, at::kCPU); });
}

double rough_update_rate() {
  const int64_t bytes = std::max<int64_t>((64 << 20) / at::get_num_threads(), 8 << 20);
  const at::NoGradGuard no_grad;
  return update_bytes_per_s(bytes, processor_seconds([bytes] { return update_of(bytes, at::kCPU); }));
}

}  // namespace ablations
