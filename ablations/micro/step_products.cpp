#include "ablations/micro/step_products.h"

#include "ablations/micro/timed_matmul.h"
#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/cross_entropy/chunks.h"
#include "ablations/techniques/step_costs.h"
#include "files/files.h"
#include "harness/machine/machine.h"
#include "harness/process/locks.h"
#include "harness/process/unfit.h"
#include "model/config.h"
#include "results/environment.h"

#include <CLI/CLI.hpp>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <regex>
#include <stdexcept>
#include <tuple>

namespace ablations::micro {

using at::Tensor;
using Json = nlohmann::ordered_json;

namespace {

constexpr auto bf16 = at::kBFloat16, fp16 = at::kHalf, fp32 = at::kFloat;
constexpr auto e4m3 = at::kFloat8_e4m3fn, e5m2 = at::kFloat8_e5m2;
constexpr int64_t padded_vocabulary = 50304, most_workspace = int64_t{32} << 20;
constexpr int64_t checked_rows = 256;
constexpr int most_proposals = 64;
constexpr double most_choosing_s = 1;  // of one way

struct Way {
  std::string name;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  at::ScalarType left = bf16, right = bf16;
  bool fast = false, rows = false;                          // fp8's accumulation and scales
  std::optional<at::ScalarType> type = {}, auxiliary = {};  // of d, if not the step's; of what GELU reads
  std::vector<int> best_of = {most_proposals};              // more than one: a measurement for each, "NAME/best_of_8"
  int64_t workspace = most_workspace;
};

std::vector<Way> ways_of(const Product& product) {
  constexpr auto plain = CUBLASLT_EPILOGUE_DEFAULT, bias = CUBLASLT_EPILOGUE_BIAS,
                 gelu = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  static const std::map<std::string, std::vector<Way>> with_epilogues{
      {"c_fc_forward",
       {{.name = "bf16/bias", .epilogue = bias},
        {.name = "bf16/gelu_aux_bias", .epilogue = gelu, .auxiliary = bf16},
        {"e4m3/fast_bias", bias, e4m3, e4m3, true, false},
        {"e4m3/rows_fast_bias", bias, e4m3, e4m3, true, true},
        {"e4m3/fast_gelu_aux_bias", gelu, e4m3, e4m3, true, false, {}, bf16},
        {"e4m3/fast_gelu_aux_fp16", gelu, e4m3, e4m3, true, false, e4m3, fp16}}},  // d e4m3, what GELU reads fp16
      {"mlp_proj_dgrad",
       {{.name = "bf16/dgelu", .epilogue = CUBLASLT_EPILOGUE_DGELU, .auxiliary = bf16},
        {.name = "bf16/dgelu_bgrad", .epilogue = CUBLASLT_EPILOGUE_DGELU_BGRAD, .auxiliary = bf16}}},
      {"c_fc_wgrad",
       {{.name = "bf16/bgradb_fp32", .epilogue = CUBLASLT_EPILOGUE_BGRADB},
        {.name = "bf16/bgradb_bf16", .epilogue = CUBLASLT_EPILOGUE_BGRADB, .type = bf16}}}};
  std::vector<Way> ways{
      {.name = "bf16", .best_of = {1, 8, most_proposals}}, {.name = "bf16/no_workspace", .workspace = 0},
      {"e4m3", plain, e4m3, e4m3, false, false},           {"e4m3/fast", plain, e4m3, e4m3, true, false},
      {"e4m3/rows", plain, e4m3, e4m3, false, true},       {"e4m3/rows_fast", plain, e4m3, e4m3, true, true}};
  if (product.of_gradient) ways.push_back({"e5m2_e4m3", plain, e5m2, e4m3, false, false});
  if (const auto found = with_epilogues.find(product.name); found != with_epilogues.end()) {
    ways.insert(ways.end(), found->second.begin(), found->second.end());
  }
  return ways;
}

// The numbers, and what they are to be multiplied by. Each of the rows, or the whole matrix, fills the type's range.
std::pair<Tensor, Tensor> quantized(const Tensor& rows, at::ScalarType type, bool by_rows) {
  const double largest = type == e4m3 ? 448 : 57344;
  const Tensor x = rows.to(fp32).contiguous();
  const Tensor scale = (by_rows ? x.abs().amax(1, /*keepdim=*/true) : x.abs().amax()) / largest;
  return {(x / scale).clamp_(-largest, largest).to(type), scale.contiguous()};
}

// Normal numbers. As many sets as it takes for a call to find nothing of its own in L2.
class Operands {
 public:
  explicit Operands(const Product& product) : product_(product) {
    int l2 = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, 0));
    const int64_t bytes_in_fp8 = product.n * product.k + product.m * product.k + 2 * product.n * product.m;
    const int64_t sets = 2 + 3 * int64_t{l2} / bytes_in_fp8;
    const auto options = at::TensorOptions(at::kCUDA).dtype(bf16);
    const auto normal = [&](int64_t rows, bool transposed) {
      return transposed ? at::randn({product.k, rows}, options) : at::randn({rows, product.k}, options);
    };
    for (int64_t i = 0; i < sets; ++i) {
      left_.push_back(normal(product.n, product.left_transposed));
      right_.push_back(normal(product.m, product.right_transposed));
    }
    bias_ = at::randn({std::max(product.n, product.m)}, options);
  }

  Multiplication as(const Way& way) {
    const auto options = bias_.options();
    Multiplication result{.adds = product_.adds, .fast_accumulation = way.fast, .epilogue = way.epilogue};
    const at::ScalarType type = way.type.value_or(product_.type);
    const bool fp8 = way.left != bf16;
    if (!fp8) {
      result.left_transposed = product_.left_transposed;
      result.right_transposed = product_.right_transposed;
    }
    for (size_t i = 0; i < left_.size(); ++i) {
      Matrices one{.left = left_[i],
                   .right = right_[i],
                   .d = at::zeros({product_.n, product_.m}, options.dtype(type == e4m3 ? at::kByte : type)),
                   .left_scale = {},
                   .right_scale = {}};
      if (type == e4m3) one.d = one.d.view(e4m3);
      if (fp8) {
        const Tensor left = product_.left_transposed ? left_[i].t() : left_[i];
        const Tensor right = product_.right_transposed ? right_[i].t() : right_[i];
        std::tie(one.left, one.left_scale) = quantized(left, way.left, way.rows);
        std::tie(one.right, one.right_scale) = quantized(right, way.right, way.rows);
      }
      result.sets.push_back(std::move(one));
    }
    if (way.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
      result.bias = at::empty({product_.n}, options.dtype(type));
    } else if (way.epilogue != CUBLASLT_EPILOGUE_DEFAULT && way.epilogue != CUBLASLT_EPILOGUE_DGELU) {
      result.bias = bias_.narrow(0, 0, product_.m);  // of DGELU_BGRAD an output
    }
    if (way.auxiliary) result.auxiliary = at::randn({product_.n, product_.m}, options).to(*way.auxiliary);
    return result;
  }

  // The first rows of the first set's d, by float32 from bf16 operands.
  Tensor expected(const Way& way, const Multiplication& product) {
    const int64_t rows = std::min(product_.n, checked_rows);
    if (!reference_.defined()) {
      const Tensor left = product_.left_transposed ? left_[0].narrow(1, 0, rows).t() : left_[0].narrow(0, 0, rows);
      const Tensor right = product_.right_transposed ? right_[0] : right_[0].t();
      reference_ = at::mm(left.to(fp32), right.to(fp32));
    }
    switch (way.epilogue) {
      case CUBLASLT_EPILOGUE_BIAS:
        return reference_ + product.bias.to(fp32);
      case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        return at::gelu(reference_ + product.bias.to(fp32), "tanh");
      case CUBLASLT_EPILOGUE_DGELU:
      case CUBLASLT_EPILOGUE_DGELU_BGRAD:
        return at::gelu_backward(reference_, product.auxiliary.narrow(0, 0, rows).to(fp32), "tanh");
      default:
        return reference_;
    }
  }

 private:
  const Product& product_;
  std::vector<Tensor> left_, right_;
  Tensor bias_, reference_;
};

double relative_error(const Tensor& d, const Tensor& expected) {
  const Tensor seen = d.narrow(0, 0, expected.size(0)).to(fp32);
  return ((seen - expected).norm() / expected.norm()).item<double>();
}

Json optional(std::optional<double> value) { return value ? Json(*value) : Json(); }

// Each wanted measurement of one way.
class Measurement {
 public:
  Measurement(const Product& product, double seconds, const std::regex& wanted, const harness::NvmlDevice& device)
      : product_(product), seconds_(seconds), wanted_(wanted), device_(device) {}

  Json all() {
    std::optional<Operands> operands;
    for (const Way& way : ways_of(product_)) {
      std::vector<int> best_of;
      for (const int first : way.best_of) {
        if (std::regex_search(product_.name + "/" + name_of(way, first), wanted_)) best_of.push_back(first);
      }
      if (best_of.empty()) continue;
      if (results_.empty()) print_heading();
      try {
        if (!operands) operands.emplace(product_);
        measure(way, best_of, *operands);
      } catch (const c10::Error& error) {
        ++failures_;
        add_fault(way, best_of, error.what_without_backtrace());
      } catch (const std::exception& error) {
        ++failures_;
        add_fault(way, best_of, error.what());
      }
    }
    return results_;
  }

  // Of another kind than cuBLASLt having nothing to propose, which is a result.
  [[nodiscard]] int failures() const { return failures_; }

 private:
  static std::string name_of(const Way& way, int first) {
    return way.best_of.size() == 1 ? way.name : fmt::format("{}/best_of_{}", way.name, first);
  }

  void measure(const Way& way, const std::vector<int>& best_of, Operands& operands) {
    const Multiplication product = operands.as(way);
    TimedMatmul matmul(product);
    const Proposals proposals = matmul.proposals(std::ranges::max(best_of), way.workspace, most_choosing_s);
    std::map<int, Json> of_place;
    for (const int first : best_of) {
      const std::optional<Proposal> proposal = proposals.fastest_of(first);
      if (!proposal) {
        add_fault(way, {first},
                  proposals.fault.empty() ? "cublasLtMatmul: the proposal does not run" : proposals.fault);
        continue;
      }
      Json& result = of_place[proposal->place];
      if (result.is_null()) {
        if (product.adds) product.sets[0].d.zero_();
        matmul.run_once(*proposal);
        const double error = relative_error(product.sets[0].d, operands.expected(way, product));
        result = described(matmul.run(*proposal, seconds_, device_), *proposal, error);
      }
      Json row{{"way", name_of(way, first)}};
      row.update(result);
      row["proposals"] = {{"given", proposals.given}, {"timed", proposals.tried}, {"taken", proposal->place}};
      print(row);
      results_.push_back(std::move(row));
    }
  }

  [[nodiscard]] Json described(const Sustained& run, const Proposal& proposal, double error) const {
    const double flops = product_flops(static_cast<double>(product_.n), static_cast<double>(product_.m),
                                       static_cast<double>(product_.k));
    Json result{{"microseconds", run.microseconds},
                {"tflops_per_second", flops / run.microseconds * 1e-6},
                {"sm_clock_mhz", optional(run.sm_clock_mhz)},
                {"watts", optional(run.watts)},
                {"watts_from", run.watts_from},
                {"joules", run.watts ? Json(*run.watts * run.microseconds * 1e-6) : Json()},
                {"relative_error", std::isfinite(error) ? Json(error) : Json()},
                {"calls", run.calls},
                {"microseconds_when_chosen", proposal.microseconds},
                {"kernels", run.kernels},
                {"algorithm", configuration(proposal.algorithm)}};
    for (const auto& [reason, share] : run.throttled) result["throttled"][reason] = share;
    return result;
  }

  void add_fault(const Way& way, const std::vector<int>& best_of, const std::string& fault) {
    for (const int first : best_of) {
      results_.push_back({{"way", name_of(way, first)}, {"fault", fault}});
      fmt::print("  {:<26}{}\n", name_of(way, first), fault.substr(0, fault.find('\n')));
    }
    std::fflush(stdout);
  }

  void print_heading() const {
    fmt::print("{:<28}{:>9}{:>9}{:>6}{:>6}{:>9}{:>9}\n",
               fmt::format("{} {}x{}x{}", product_.name, product_.n, product_.m, product_.k), "us", "TFLOP/s", "MHz",
               "W", "mJ", "error");
  }

  static void print(const Json& row) {
    const auto number = [&](const char* name, int digits, double factor = 1.0) {
      return row[name].is_null() ? "-" : fmt::format("{:.{}f}", row[name].get<double>() * factor, digits);
    };
    fmt::print("  {:<26}{:>9}{:>9}{:>6}{:>6}{:>9}{:>9}\n", row["way"].get<std::string>(), number("microseconds", 2),
               number("tflops_per_second", 1), number("sm_clock_mhz", 0), number("watts", 0), number("joules", 2, 1e3),
               number("relative_error", 4));
    for (const auto& [kernel, count] : row["kernels"].items())
      fmt::print("    {:.3g} {}\n", count.get<double>(), kernel);
    std::fflush(stdout);
  }

  const Product& product_;
  double seconds_;
  const std::regex& wanted_;
  const harness::NvmlDevice& device_;
  Json results_ = Json::array();
  int failures_ = 0;
};

}  // namespace

std::vector<Product> products_of_a_step(int64_t B, int64_t T, int64_t head_rows) {
  const int64_t C = model::preset("gpt2-124m").n_embd, N = B * T;
  struct Layer {
    const char* name;
    int64_t rows, in, out;
  };
  std::vector<Product> products;
  for (const Layer& layer :
       {Layer{"head", head_rows, C, padded_vocabulary}, Layer{"c_fc", N, C, 4 * C}, Layer{"mlp_proj", N, 4 * C, C},
        Layer{"c_attn", N, C, 3 * C}, Layer{"attn_proj", N, C, C}}) {
    const std::string name = layer.name;
    products.push_back({name + "_forward", layer.rows, layer.out, layer.in, false, false, bf16, false, false});
    products.push_back({name + "_dgrad", layer.rows, layer.in, layer.out, false, true, bf16, false, true});
    products.push_back({name + "_wgrad", layer.out, layer.in, layer.rows, true, true, fp32, name == "head", true});
  }
  return products;
}

int run_products(int argc, char** argv) {
  int64_t B = 16, T = 1024;
  std::optional<int64_t> head_rows;
  double seconds = 0.4;
  std::string filter, out;
  CLI::App app(
      "The 15 matrix products of a GPT-2 124M step on a GPU, by cuBLASLt: in bf16 by the best of its first 1, 8 and "
      "64\n"
      "proposals and without a workspace, in fp8 with one scale or one for each row, and with epilogues.\n"
      "\"fast\" is fp8's fast accumulation. \"error\" is relative, against float32 from the bf16 operands.");
  app.name("micro products");
  app.add_option("-B,--batch", B, "sequences (default: 16)")->check(CLI::Range(1, 4096));
  app.add_option("-T,--context", T, "tokens per sequence (default: 1024)")->check(CLI::Range(1, 1024));
  app.add_option("--head-rows", head_rows, "rows of the head's products (default: the fused loss's)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 22));
  app.add_option("--seconds", seconds, "of running each way back to back (default: 0.4)")
      ->check(CLI::Range(1e-4, 60.0));
  app.add_option("--filter", filter, "which, by regular expression: 'c_fc_.*/(bf16|e4m3)' (default: all)");
  app.add_option("--out", out, "a file for JSON, written after each product")->take_last();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return fmt::print("{}", app.help()), 0;
  } catch (const CLI::ParseError& error) {
    throw std::invalid_argument(fmt::format("{}; micro products --help lists the flags", error.what()));
  }
  std::regex wanted;
  try {
    wanted = std::regex(filter);
  } catch (const std::regex_error&) {
    throw std::invalid_argument(fmt::format("--filter: not a regular expression: {}", files::in_quotes(filter)));
  }
  const harness::Machine& machine = harness::this_machine();
  if (!machine.gpu) throw harness::Unfit("products needs a GPU: " + machine.no_gpu_reason);
  const harness::DeviceLock lock(
      harness::lock_name(true), fmt::format("micro products (pid {})", ::getpid()),
      [](const std::string& taken) { fmt::print(stderr, "micro: {}; waiting for its end\n", taken); });

  const auto begun = std::chrono::steady_clock::now();
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());  // a graph cannot capture the default one
  const harness::NvmlDevice device(harness::current_bus_id());
  if (!device.unavailable().empty()) fmt::print(stderr, "micro: no clocks and no power: {}\n", device.unavailable());
  Json document{{"B", B}, {"T", T}, {"seconds", seconds}};
  document["environment"] = json_of(environment_here());
  document["products"] = Json::array();
  bool any = false;
  int failures = 0;
  const int64_t of_a_chunk =
      model::head_loss_rows(B * T, 2 * padded_vocabulary, model::head_loss_chunk_bytes(/*on_cuda=*/true));
  const auto products = products_of_a_step(B, T, head_rows.value_or(of_a_chunk));
  for (const Product& product : products) {
    Measurement measurement(product, seconds, wanted, device);
    Json ways = measurement.all();
    failures += measurement.failures();
    if (ways.empty()) continue;
    any = true;
    document["products"].push_back({{"product", product.name},
                                    {"n", product.n},
                                    {"m", product.m},
                                    {"k", product.k},
                                    {"adds", product.adds},
                                    {"ways", std::move(ways)}});
    document["took_seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (!out.empty()) files::write_file(out, document.dump(1) + "\n", files::Links::followed);
  }
  if (!any) throw std::invalid_argument("--filter: no product and way has such a name");
  return failures == 0 ? 0 : 1;
}

}  // namespace ablations::micro
