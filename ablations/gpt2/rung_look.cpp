#include "ablations/gpt2/rung_look.h"

#include "ablations/gpt2/gpt2_workload.h"
#include "ablations/techniques/fingerprint.h"
#include "ablations/techniques/fp8/copies.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ablations {

using at::Tensor;
using files::Json;

namespace {

constexpr int64_t sums = 8, block = 1 << 16, blocks_at_once = 16;

// (count, sums) of +1 and -1: bits of splitmix64 (Steele, Lea and Flood 2014) at the indices from `first`.
Tensor signs(int64_t first, int64_t count, at::Device device) {
  const auto number = [](uint64_t bits) { return at::Scalar(static_cast<int64_t>(bits)); };
  struct Round {
    int shift;
    uint64_t factor;
  };
  Tensor at = at::arange(first, first + count, at::TensorOptions(device).dtype(at::kLong)) * number(0x9E3779B97F4A7C15);
  for (const Round round : {Round{30, 0xBF58476D1CE4E5B9}, Round{27, 0x94D049BB133111EB}, Round{31, 1}}) {
    const Tensor high = at.bitwise_right_shift(round.shift).bitwise_and(number(~uint64_t{0} >> round.shift));
    at = at.bitwise_xor(high) * number(round.factor);
  }
  const Tensor places = at::arange(sums, at.options());
  return (at.unsqueeze(1).bitwise_right_shift(places).bitwise_and(1) * 2 - 1).to(at::kDouble);
}

std::string name_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float32";
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    default:
      return at::toString(type);
  }
}

Json numbers_of(const std::array<double, 9>& all) {
  Json list = Json::array();
  for (const double one : all) list.push_back(files::finite_or_null(one));
  return list;
}

// Sixteen numbers or more are added up beside each other, and float32 rounds each addition by chance: so a sum of n
// terms is about sqrt(n / 16) roundoffs off (Higham and Mary 2019).
double roundoff_of_sum(int64_t terms) { return 0x1p-24 * std::sqrt(static_cast<double>(terms) / 16); }

// What a trainer's operations return: their types are counted, and each number is made to be off where that is asked.
class Results {
 public:
  Results(const std::optional<Rounding>& rounding, at::Device device) : rounding_(rounding) {
    if (!rounding) return;
    generator_ = device.is_cuda() ? at::cuda::detail::createCUDAGenerator() : at::detail::createCPUGenerator();
    generator_.set_current_seed(rounding->seed);
  }

  // y: made of sums of so many terms, here or backward, where autograd makes its gradient as much off.
  // least_bits: fp8 is the type of products alone, and e5m2 of the head's.
  Tensor off(const Tensor& y, int64_t terms = 1, int least_bits = 8) {
    ++made_;
    if (!rounding_) return y;
    const double least = y.scalar_type() == at::kBFloat16 ? 0x1p-7 : y.scalar_type() == at::kHalf ? 0x1p-10 : 0x1p-23;
    const double size = std::max({std::ldexp(1.0, -std::max(rounding_->bits, least_bits)), roundoff_of_sum(terms),
                                  least});  // less would be rounded away
    const Tensor noise = at::empty_like(y, y.options().dtype(at::kFloat)).uniform_(-size, size, generator_);
    return y * (noise + 1).to(y.scalar_type());
  }
  // y: (..., columns). Backward, its columns are added up to the gradient of what it is made of, and its rows to that
  // of the weight.
  Tensor of_rows(const Tensor& y, int least_bits = 8) {
    return off(y, std::max(y.size(-1), y.numel() / y.size(-1)), least_bits);
  }
  Tensor product(const Tensor& y, int least_bits = 4) {
    ++types_[name_of(y.scalar_type())];
    return of_rows(y, least_bits);
  }
  [[nodiscard]] int64_t made() const { return made_; }
  [[nodiscard]] const std::map<std::string, int64_t>& types() const { return types_; }

 private:
  std::optional<Rounding> rounding_;
  at::Generator generator_;
  int64_t made_ = 0;
  std::map<std::string, int64_t> types_;
};

// The small operations, and of the large those that are not made of them. The embedding's rows are copies.
void wrap(model::Ops& ops, bool fuses_head, const std::shared_ptr<Results>& results) {
  const model::Ops own = ops;
  ops.layer_norm = [own, results](const auto&... arguments) { return results->of_rows(own.layer_norm(arguments...)); };
  ops.linear = [own, results](const auto&... arguments) { return results->product(own.linear(arguments...)); };
  ops.attention = [own, results](const auto&... arguments) { return results->off(own.attention(arguments...)); };
  ops.gelu = [own, results](const auto&... arguments) { return results->off(own.gelu(arguments...)); };
  ops.head = [own, results](const auto&... arguments) { return results->product(own.head(arguments...), 3); };
  ops.qkv = [own, results](const auto&... arguments) {
    auto thirds = own.qkv(arguments...);
    for (Tensor& third : thirds) third = results->product(third);
    return thirds;
  };
  ops.add_norm = [own, results](const auto&... arguments) {
    const int64_t before = results->made();
    model::Ops::Normed normed = own.add_norm(arguments...);
    if (results->made() == before) normed.normalized = results->of_rows(normed.normalized);
    return normed;
  };
  const auto whole = [results](const auto& operation) {
    return [operation, results](const auto&... arguments) {
      const int64_t before = results->made();
      const Tensor y = operation(arguments...);
      return results->made() == before ? results->product(y) : y;
    };
  };
  ops.self_attention = whole(own.self_attention);
  ops.mlp = whole(own.mlp);
  // A fused head has made its gradients before its loss is there. So what it reads is off, and they are by it.
  if (!fuses_head) return;
  ops.head_loss = [own, results](const model::Ops& table, const Tensor& x, const Tensor& wte,
                                 const auto&... arguments) {
    return own.head_loss(table, results->off(x, wte.size(0), 3), wte, arguments...);
  };
}

// A parameter, and what is sketched of it.
struct Sketched {
  const model::Parameter& parameter;
  int64_t rows;   // of the embedding without its padding; 0: all
  Tensor moment;  // after the step before
  std::array<double, 9> before;
  Json json;

  [[nodiscard]] Tensor part(const Tensor& of) const { return rows > 0 ? of.narrow(0, 0, rows) : of; }
  [[nodiscard]] Tensor weight() const { return part(model::whole_weight(parameter).detach()); }

  void begin() {
    const Tensor now = weight();
    before = sums_of(now);
    moment = at::zeros_like(now);
    json = {{"name", parameter.name},        {"shape", now.sizes().vec()}, {"type", name_of(now.scalar_type())},
            {"weights", numbers_of(before)}, {"gradients", Json::array()}, {"changes", Json::array()}};
  }
  // The first moment is m <- beta1 m + (1 - beta1) g.
  void add_step(const Tensor& first_moment, double factor) {
    constexpr double beta1 = model::AdamW::beta1;
    const Tensor now = part(first_moment).to(at::kDouble);
    const Tensor gradient = (now - moment * beta1) / (1 - beta1);
    json["gradients"].push_back(numbers_of(sums_of(gradient * factor)));
    moment = now;
    std::array<double, 9> after = sums_of(weight()), change = after;
    for (size_t i = 1; i < change.size(); ++i) change[i] -= before[i];
    json["changes"].push_back(numbers_of(change));
    before = after;
  }
};

}  // namespace

std::array<double, 9> sums_of(const Tensor& numbers) {
  const Tensor flat = numbers.detach().reshape(-1);
  const Tensor table = signs(0, std::min(flat.numel(), block), flat.device());
  const Tensor squares = at::zeros({}, flat.options().dtype(at::kDouble));
  const Tensor found = at::zeros({sums}, squares.options());
  for (int64_t begin = 0; begin < flat.numel(); begin += blocks_at_once * block) {
    const Tensor part = flat.narrow(0, begin, std::min(blocks_at_once * block, flat.numel() - begin)).to(at::kDouble);
    squares.add_(part.dot(part));
    const int64_t whole = part.numel() / block, rest = part.numel() % block;
    if (flat.numel() <= block) {
      found.add_(part.matmul(table));
      continue;
    }
    // A later block's signs are the first's times one of its own.
    const Tensor own = signs(block + begin / block, whole + 1, flat.device());
    found.add_((part.narrow(0, 0, whole * block).view({whole, block}).matmul(table) * own.narrow(0, 0, whole)).sum(0));
    found.add_(part.narrow(0, whole * block, rest).matmul(table.narrow(0, 0, rest)) * own[whole]);
  }
  const Tensor host = at::cat({squares.sqrt().unsqueeze(0), found}).to(at::kCPU);
  std::array<double, 9> all{};
  std::copy_n(host.const_data_ptr<double>(), all.size(), all.begin());
  return all;
}

Json look_at_steps(model::Trainer& trainer, int64_t steps, const std::optional<Rounding>& rounding) {
  const model::GPT2& gpt2 = trainer.model();
  const auto results = std::make_shared<Results>(rounding, gpt2.parameters().front().tensor.device());
  wrap(trainer.ops(), trainer.recipe().cross_entropy == model::CrossEntropy::fused, results);
  std::vector<Sketched> all;
  for (const model::Parameter& parameter : gpt2.parameters()) {
    all.push_back({.parameter = parameter, .rows = parameter.name == "wte.weight" ? gpt2.config().vocabulary : 0});
    all.back().begin();
  }
  // The norm by which gradients are clipped is a float32 sum, too, of as many terms as the largest has. It makes all of
  // them too large or too small together: one look has this, the other one that.
  double off_by_clipping = 0;
  if (rounding) {
    int64_t terms = 0;
    for (const model::Parameter& parameter : gpt2.parameters()) terms = std::max(terms, parameter.tensor.numel());
    off_by_clipping = (rounding->seed % 2 == 0 ? -1 : 1) * roundoff_of_sum(terms);
  }
  const auto fp8_before = model::fp8::counts();
  int64_t skipped = 0;
  for (int64_t step = 0; step < steps; ++step) {
    trainer.step();
    trainer.synchronize();
    const at::NoGradGuard no_grad;
    const int64_t skipped_now = trainer.skipped_steps();
    const auto state = trainer.state();
    const double factor = skipped_now > skipped ? 0 : 1 + off_by_clipping;  // a skipped step has no gradients
    for (Sketched& one : all) one.add_step(state.at("first_moment." + one.parameter.name), factor);
    skipped = skipped_now;
  }
  std::map<std::string, int64_t> products = results->types();
  for (const auto& [name, calls] : model::fp8::counts()) {
    const auto before = fp8_before.find(name);
    const int64_t made = calls - (before == fp8_before.end() ? 0 : before->second);
    if (made > 0 && name.ends_with("e4m3")) products["float8_e4m3fn"] += made;
    if (made > 0 && name.ends_with("e5m2")) products["float8_e5m2"] += made;
  }
  Json parameters = Json::array();
  std::map<std::string, int64_t> types;
  for (Sketched& one : all) {
    ++types[one.json["type"].get<std::string>()];
    parameters.push_back(std::move(one.json));
  }
  if (const auto float32 = products.find("float32"); float32 != products.end() && !rounding) {  // its results' type
    const int64_t made = float32->second;
    products.erase(float32);
    const std::string made_in = fingerprint(trainer.recipe(), /*with_autocast=*/false).precision;
    products[made_in == "tf32 or float16" ? "tf32" : made_in] += made;
  }
  return {{"products", products},
          {"parameter_types", types},
          {"sketch", {{"parameters", parameters}, {"skipped_steps", skipped}, {"has_dropout", false}}}};
}

Json look_of(RunOptions options, int64_t steps, const std::optional<Rounding>& rounding) {
  if (rounding) {
    options.recipe.execution = model::Execution::eager;
    options.threads = std::max<int64_t>(1, options.threads / 2);
  }
  Gpt2Workload workload(options, steps);
  return look_at_steps(workload.trainer(), steps, rounding);
}

}  // namespace ablations
