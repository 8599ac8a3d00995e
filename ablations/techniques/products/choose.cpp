#include "ablations/techniques/products/choose.h"

#include "ablations/techniques/products/fastest.h"
#include "ablations/techniques/products/products.h"
#include "model/execution.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>

namespace model {

namespace blas {

using at::Tensor;
using results::ProductTiming;

namespace {

// On an H200 the best of 64 proposals was never better than the best of 8 (results/evidence/nvidia-h200-products-*).
constexpr int proposals_with_workspace = 8, proposals_without = 4;
constexpr int rounds = 4, calls_in_graph = 10;
constexpr std::chrono::milliseconds preheating{50};

using Algorithm = cublasLtMatmulAlgo_t;

struct Known {
  std::recursive_mutex mutex;  // backward passes run on autograd's own thread; an other way may choose, too
  std::vector<ProductTiming> made, kept;
};

Known& known() {
  static Known one;
  return one;
}

bool is_same(const Algorithm& a, const Algorithm& b) { return std::memcmp(a.data, b.data, sizeof a.data) == 0; }

std::string bits_of(const Algorithm& algorithm) {
  std::string bits;
  for (const uint64_t word : algorithm.data) bits += fmt::format("{:016x}", word);
  return bits;
}

std::optional<Algorithm> algorithm_of(const std::string& bits) {
  Algorithm algorithm{};
  if (bits.size() != 16 * std::size(algorithm.data) ||
      bits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return std::nullopt;
  }
  for (size_t i = 0; i < std::size(algorithm.data); ++i)
    algorithm.data[i] = std::stoull(bits.substr(16 * i, 16), nullptr, 16);
  return algorithm;
}

int number_of(const Algorithm& algorithm) {
  int id = 0;
  size_t written = 0;
  check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id, &written),
        "cublasLtMatmulAlgoConfigGetAttribute");
  return id;
}

// What it is, and nothing of how it was chosen.
ProductTiming unchosen(const Product& product) {
  return {.product = product.name,
          .type = uses_tf32(product) ? "TF32" : at::toString(product.a.scalar_type()),
          .m = product.d.size(1),
          .n = product.d.size(0),
          .k = product.depth(),
          .bits = "",
          .alignment = alignment_of(product)};
}

bool is_of(const ProductTiming& choice, const ProductTiming& other) {
  return choice.product == other.product && choice.type == other.type && choice.m == other.m && choice.n == other.n &&
         choice.k == other.k && choice.alignment == other.alignment;
}

// One way of making the product.
struct Way {
  std::optional<Algorithm> algorithm;  // none: the other way
  std::function<void()> work;
  std::unique_ptr<at::cuda::CUDAGraph> graph = nullptr;
};

using Rounds = std::vector<std::vector<double>>;  // of each round, microseconds by way

// In the device's time, after all ways have run for a while, so that it is as warm as in a step (fastest.h).
Rounds time(std::vector<Way>& ways) {
  std::optional<c10::cuda::CUDAStreamGuard> stream;
  if (c10::cuda::getCurrentCUDAStream() == c10::cuda::getDefaultCUDAStream()) {  // which cannot be captured
    c10::cuda::device_synchronize();
    stream.emplace(c10::cuda::getStreamFromPool());
  }
  int l2_bytes = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, c10::cuda::current_device()));
  const Tensor in_l2 = at::empty({int64_t{2} * l2_bytes}, at::TensorOptions(at::kCUDA).dtype(at::kByte));
  in_l2.zero_();                                     // loads the kernel, which a capture may not
  ways.push_back({.algorithm = {}, .work = [] {}});  // what emptying L2 takes
  for (Way& way : ways) {
    way.work();  // creates what a capture may not
    way.graph = capture(
        [&] {
          for (int i = 0; i < calls_in_graph; ++i) {
            in_l2.zero_();
            way.work();
          }
        },
        cudaStreamCaptureModeThreadLocal);
  }
  c10::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  const auto launch = [](const Way& way) {
    C10_CUDA_CHECK(cudaGraphLaunch(way.graph->raw_cuda_graph_exec(), c10::cuda::getCurrentCUDAStream()));
  };
  // The second of two launches: the first one keeps the device busy until it is there.
  const auto microseconds = [&](const Way& way) {
    launch(way);
    begin.record();
    launch(way);
    end.record();
    end.synchronize();
    return 1e3 * begin.elapsed_time(end) / calls_in_graph;
  };
  const auto begun = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begun < preheating) {
    for (const Way& way : ways) microseconds(way);
  }
  Rounds times(rounds, std::vector<double>(ways.size()));
  for (size_t round = 0; round < times.size(); ++round) {
    for (size_t i = 0; i < ways.size(); ++i) {
      const size_t way = turn(round, i, ways.size());
      times[round][way] = microseconds(ways[way]);
    }
    const double emptying = times[round].back();
    times[round].pop_back();
    for (double& one : times[round]) one = std::max(one - emptying, 1e-3);
  }
  ways.pop_back();
  return times;
}

double middle_of(const Rounds& times, size_t way) {
  std::vector<double> of_way;
  for (const std::vector<double>& round : times) of_way.push_back(round[way]);
  return harness::median(of_way);
}

std::vector<Algorithm> proposals_of(Matmul& matmul) {
  std::vector<Algorithm> proposals = matmul.proposals(proposals_with_workspace);
  for (const Algorithm& one : matmul.proposals(proposals_without, /*most_workspace=*/0)) {
    if (std::ranges::none_of(proposals, [&](const Algorithm& other) { return is_same(one, other); }))
      proposals.push_back(one);
  }
  return proposals;
}

// Waits for the device.
ProductTiming timed(const Product& product, Matmul& matmul, const OtherWay& other_way) {
  const Tensor scratch = product.accumulate ? at::zeros_like(product.d) : product.d;
  const Tensor workspace = at::empty({workspace_bytes}, scratch.options().dtype(at::kByte));
  std::vector<Way> ways;
  for (const Algorithm& one : proposals_of(matmul)) {
    if (matmul.run(one, scratch, workspace) != CUBLAS_STATUS_SUCCESS) continue;
    ways.push_back({.algorithm = one, .work = [&product, &matmul, &scratch, &workspace, one] {
                      check(matmul.run(one, scratch, workspace), "cublasLtMatmul");
                      if (product.after) product.after();
                    }});
  }
  ProductTiming choice = unchosen(product);
  if (other_way) ways.push_back({.algorithm = {}, .work = [&] { other_way(scratch); }});
  if (ways.empty()) return choice;
  const Rounds times = time(ways);
  choice.tried = static_cast<int64_t>(ways.size());
  if (other_way) choice.plain_microseconds = middle_of(times, ways.size() - 1);
  // An epilogue has to be worth it; a plain product is cuBLASLt's first proposal.
  const size_t way = fastest_way(times, product.auxiliary.defined() && other_way ? ways.size() - 1 : 0);
  const Way& taken = ways[way];
  choice.microseconds = middle_of(times, way);
  if (taken.algorithm) {
    choice.algorithm = number_of(*taken.algorithm);
    choice.bits = bits_of(*taken.algorithm);
  }
  return choice;
}

// One that was handed over, if cuBLASLt proposes it here: other bits might do anything.
std::optional<ProductTiming> kept(const Product& product, Matmul& matmul) {
  const auto found = std::ranges::find_if(
      known().kept, [&, wanted = unchosen(product)](const ProductTiming& choice) { return is_of(choice, wanted); });
  if (found == known().kept.end() || !found->bits) return std::nullopt;
  if (const auto algorithm = algorithm_of(*found->bits)) {
    const auto is_it = [&](const Algorithm& proposed) { return is_same(proposed, *algorithm); };
    if (std::ranges::none_of(proposals_of(matmul), is_it)) return std::nullopt;
    const Tensor scratch = product.accumulate ? at::zeros_like(product.d) : product.d;
    const Tensor workspace = at::empty({workspace_bytes}, scratch.options().dtype(at::kByte));
    if (matmul.run(*algorithm, scratch, workspace) != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  } else if (!found->bits->empty()) {
    return std::nullopt;
  }
  ProductTiming choice = *found;
  choice.kept = true;
  return choice;
}

}  // namespace

std::optional<Algorithm> choose(const Product& product, Matmul& matmul, const OtherWay& other_way) {
  const auto first = [&]() -> std::optional<Algorithm> {
    if (product.after) return std::nullopt;  // it may be slower by far, so it is never taken without timing
    const std::vector<Algorithm> proposals = matmul.proposals(1);
    return proposals.empty() ? std::nullopt : std::optional(proposals.front());
  };
  if (at::globalContext().deterministicAlgorithms()) return first();
  const std::lock_guard lock(known().mutex);
  std::vector<ProductTiming>& made = known().made;
  const auto found = std::ranges::find_if(
      made, [&, wanted = unchosen(product)](const ProductTiming& choice) { return is_of(choice, wanted); });
  if (found != made.end()) return algorithm_of(found->bits.value());
  if (c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None) return first();
  std::optional<ProductTiming> choice = kept(product, matmul);
  made.push_back(choice ? *choice : timed(product, matmul, other_way));
  return algorithm_of(made.back().bits.value());
}

}  // namespace blas

std::vector<results::ProductTiming> cuda_product_timings() {
  const std::lock_guard lock(blas::known().mutex);
  return blas::known().made;
}

void keep_cuda_timings(std::vector<results::ProductTiming> timings) {
  const std::lock_guard lock(blas::known().mutex);
  blas::known().kept = std::move(timings);
}

std::string cublaslt_version() { return std::to_string(cublasLtGetVersion()); }

}  // namespace model
