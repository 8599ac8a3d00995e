// Text from a model: the choice of a token, what is kept of the tokens before it, and where a text ends.
#include "model/sampler.h"

#include "ablations/techniques/operations.h"
#include "model/precision.h"
#include "model/tokenizer.h"
#include "tests/model/parameter.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sampler_test {

using at::Tensor;
using namespace model;
using Tokens = std::vector<uint16_t>;

constexpr float infinity = std::numeric_limits<float>::infinity();

// ---- The choice of a token

uint16_t choose(const std::vector<float>& logits, const Sampling& sampling, uint64_t seed = 1) {
  std::mt19937_64 generator(seed);
  return choose_token(logits, sampling, generator);
}

std::vector<int> counts(const std::vector<float>& logits, const Sampling& sampling, int draws) {
  std::mt19937_64 generator(5);
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) ++counts[choose_token(logits, sampling, generator)];
  return counts;
}

using Set = std::set<uint16_t>;

Set chosen(const std::vector<float>& logits, const Sampling& sampling) {
  const std::vector<int> drawn = counts(logits, sampling, 2000);
  Set tokens;
  for (size_t i = 0; i < drawn.size(); ++i) {
    if (drawn[i] > 0) tokens.insert(static_cast<uint16_t>(i));
  }
  return tokens;
}

// Pearson's statistic of counts against weights, which are probabilities up to a factor.
double chi_square(const std::vector<int>& counts, const std::vector<double>& weights) {
  double total = 0, draws = 0, sum = 0;
  for (const double weight : weights) total += weight;
  for (const int count : counts) draws += count;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * weights[i] / total;
    if (expected == 0) {
      EXPECT_EQ(counts[i], 0) << i;
    } else {
      sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
  }
  return sum;
}

TEST(ChooseToken, TheLikeliestByThreeSettings) {
  std::mt19937_64 generator(7);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<float> logits(300);
    for (float& logit : logits) logit = static_cast<float>(generator() % 100000) / 10000;
    const auto likeliest = static_cast<uint16_t>(std::ranges::max_element(logits) - logits.begin());
    EXPECT_EQ(choose(logits, {.temperature = 0}, seed), likeliest);
    EXPECT_EQ(choose(logits, {.temperature = 3, .top_k = 1}, seed), likeliest);
    EXPECT_EQ(choose(logits, {.temperature = 3, .top_p = 1e-9}, seed), likeliest);
    EXPECT_EQ(choose(logits, {.temperature = 1e-300}, seed), likeliest);
  }
}

TEST(ChooseToken, OfEqualsTheLowerIsLikelier) {
  const std::vector<float> logits{1, 3, -infinity, 3, 3};
  EXPECT_EQ(choose(logits, {.temperature = 0}), 1);
  EXPECT_EQ(chosen(logits, {.top_k = 1}), (Set{1}));
  EXPECT_EQ(chosen(logits, {.top_k = 2}), (Set{1, 3}));
  EXPECT_EQ(chosen(logits, {.top_p = 0.3}), (Set{1}));
  EXPECT_EQ(chosen(logits, {}), (Set{0, 1, 3, 4}));
}

TEST(ChooseToken, DrawsByProbability) {
  constexpr int draws = 20000;
  constexpr double limit = 18.47;  // chi-square with 4 degrees of freedom is above it with probability 0.001
  const std::vector<float> logits{0, -infinity, 1.5F, 0.5F, 2, 1};
  const auto weights = [&](double temperature) {
    std::vector<double> list;
    for (const float logit : logits) list.push_back(std::exp(logit / temperature));
    return list;
  };
  const std::vector<int> drawn = counts(logits, {.temperature = 0.7}, draws);
  EXPECT_LT(chi_square(drawn, weights(0.7)), limit);
  EXPECT_GT(chi_square(drawn, weights(0.8)), 5 * limit);  // so a wrong temperature would be seen
  EXPECT_LT(chi_square(counts(logits, {}, draws), weights(1)), limit);

  // Of the three likeliest.
  std::vector<double> of_three = weights(1);
  of_three[0] = of_three[3] = 0;
  EXPECT_LT(chi_square(counts(logits, {.top_k = 3}, draws), of_three), limit);
}

TEST(ChooseToken, TopPTakesTheFewestThatReachIt) {
  std::vector<float> logits;
  for (const double probability : {0.05, 0.5, 0.15, 0.3}) logits.push_back(static_cast<float>(std::log(probability)));
  const std::pair<Sampling, Set> expected[] = {
      {{.top_p = 0.49}, {1}},
      {{.top_p = 0.51}, {1, 3}},
      {{.top_p = 0.79}, {1, 3}},
      {{.top_p = 0.81}, {1, 2, 3}},
      {{.top_p = 1}, {0, 1, 2, 3}},
      {{.top_k = 2, .top_p = 0.6}, {1}},  // after top_k, among what it left: 0.5 of 0.8, not of 1
      {{.top_k = 2, .top_p = 0.65}, {1, 3}},
      {{.temperature = 0.5, .top_p = 0.67}, {1}}  // after temperature, which makes the likeliest 0.25 / 0.365
  };
  for (const auto& [sampling, tokens] : expected) EXPECT_EQ(chosen(logits, sampling), tokens) << sampling.top_p;
}

TEST(ChooseToken, RefusesWhatHasNoAnswer) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& logits :
       {std::vector<float>{}, std::vector<float>{1, nan}, std::vector<float>{1, infinity}, {-infinity, -infinity}}) {
    EXPECT_THROW(choose(logits, {}), std::invalid_argument);
    EXPECT_THROW(choose(logits, {.temperature = 0}), std::invalid_argument);
  }
  for (const Sampling& sampling :
       {Sampling{.temperature = -1}, Sampling{.temperature = nan}, Sampling{.temperature = infinity},
        Sampling{.top_k = -1}, Sampling{.top_p = 0}, Sampling{.top_p = 1.5}, Sampling{.top_p = nan}}) {
    EXPECT_THROW(choose({1, 2}, sampling), std::invalid_argument);
  }
}

// ---- Keys and values that are kept

// Every part matters: attention is far from uniform, no bias is zero, and blocks and positions add more to the stream
// than a token itself, which the tied head would else repeat.
GPT2 lively_model(int64_t rows = 50257) {
  GPT2 gpt2(preset("tiny"), rows, 1, at::kCPU);
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(3);
  for (const Parameter& p : gpt2.parameters()) {
    Tensor weight = p.tensor;
    const bool is_matrix = weight.dim() == 2;
    const double factor = p.name.ends_with("c_proj.weight") || p.name == "wpe.weight" ? 2 : 1;
    const double mean = !is_matrix && p.name.ends_with("weight") ? 1 : 0;  // LayerNorm's
    weight.normal_(mean, is_matrix ? factor / std::sqrt(static_cast<double>(weight.size(1))) : 0.1, generator);
    if (p.name == "wte.weight") weight.div_(weight.norm(2, 1, /*keepdim=*/true));  // else long rows always win
  }
  return gpt2;
}

Tokens some_tokens(size_t count) {
  Tokens tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<uint16_t>((i * i + 1) * 7919 % 50257));
  return tokens;
}

// (T, vocabulary) float32, by one pass over all of the text.
Tensor whole_logits(const GPT2& gpt2, const Ops& ops, const Tokens& tokens) {
  const at::NoGradGuard no_grad;
  const std::vector<int64_t> row(tokens.begin(), tokens.end());
  const Tensor logits = gpt2.logits(ops, at::tensor(row, at::kLong).unsqueeze(0));
  return logits[0].narrow(1, 0, gpt2.config().vocabulary).to(at::kFloat);
}

double relative_error(const Tensor& ours, const Tensor& reference) {
  return ((ours - reference).norm() / reference.norm()).item<double>();
}

// The cached pass gives the whole pass's logits at every position, in whatever pieces the text is read.
void expect_logits_of_the_whole(const GPT2& gpt2, const Recipe& recipe, double limit) {
  const SdpaScope sdpa(recipe.attention);
  const AutocastScope autocast(at::kCPU, recipe.autocast);
  const Ops ops = ops_for(recipe);
  const Tokens text = some_tokens(64);
  const Tensor whole = whole_logits(gpt2, ops, text);
  EXPECT_GT(relative_error(whole[30], whole[31]), 0.3);  // a wrong position would be seen
  Decoder decoder(gpt2, ops);
  for (const std::vector<size_t>& pieces : {std::vector<size_t>(64, 1), {10, 1, 1, 51, 1}, {1, 30, 33}, {64}}) {
    decoder.clear();
    size_t read = 0;
    for (const size_t piece : pieces) {
      const Tensor logits = decoder.read(std::span(text).subspan(read, piece));
      read += piece;
      ASSERT_EQ(decoder.length(), static_cast<int64_t>(read));
      ASSERT_EQ(logits.sizes(), at::IntArrayRef{50257});
      EXPECT_LT(relative_error(logits, whole[static_cast<int64_t>(read) - 1]), limit)
          << to_json(recipe).dump() << ", " << piece << " tokens to position " << read - 1;
    }
  }
}

TEST(Decoder, GivesTheLogitsOfTheWholeText) {
  constexpr double float32_rounding = 1e-5, bf16_rounding = 0.05;
  const GPT2 gpt2 = lively_model();
  expect_logits_of_the_whole(gpt2, {}, float32_rounding);
  expect_logits_of_the_whole(gpt2, {.qkv_products = QkvProducts::three, .attention = Attention::flash},
                             float32_rounding);
  expect_logits_of_the_whole(
      gpt2, {.attention = Attention::packed, .products = Products::packed, .norm = Norm::fused, .mlp = Mlp::fused},
      float32_rounding);

  GPT2 split = lively_model(50304);
  split.split_weights();
  expect_logits_of_the_whole(split,
                             {.autocast = Autocast::bf16,
                              .attention = Attention::packed,
                              .residual = Residual::autocast,
                              .norm = Norm::fused,
                              .mlp = Mlp::fused,
                              .weights = Weights::master},
                             bf16_rounding);
}

TEST(Decoder, ReadsAsManyTokensAsThereArePositions) {
  const GPT2 gpt2 = lively_model();
  Decoder decoder(gpt2, reference_ops());
  const Tokens text = some_tokens(65);
  EXPECT_THROW((void)decoder.read({}), std::invalid_argument);
  EXPECT_THROW((void)decoder.read(text), std::invalid_argument);
  (void)decoder.read(std::span(text).first(63));
  EXPECT_THROW((void)decoder.read(std::span(text).last(2)), std::invalid_argument);
  (void)decoder.read(std::span(text).last(1));
  EXPECT_THROW((void)decoder.read(std::span(text).last(1)), std::invalid_argument);
}

// ---- Texts

TEST(Generate, TheSameSeedGivesTheSameText) {
  const GPT2 gpt2 = lively_model();
  const auto text = [&](uint64_t seed) {
    return generate(gpt2, reference_ops(), some_tokens(3), {.tokens = 20, .seed = seed});
  };
  EXPECT_EQ(text(1).size(), 20U);
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(Generate, AnEmptyPromptIsEndOfText) {
  const GPT2 gpt2 = lively_model();
  const SampleOptions options{.tokens = 5};
  EXPECT_EQ(generate(gpt2, reference_ops(), {}, options),
            generate(gpt2, reference_ops(), Tokens{Tokenizer::end_of_text}, options));
}

// Whenever all 64 positions are full, the model reads the last 32 tokens again, as if nothing had been before them.
TEST(Generate, GoesOnWhenThePositionsAreFull) {
  const GPT2 gpt2 = lively_model();
  Tokens text = some_tokens(5);
  const Tokens sampled = generate(gpt2, reference_ops(), text, {.tokens = 110, .sampling = {.temperature = 0}});
  EXPECT_EQ(sampled.size(), 110U);
  EXPECT_GT((std::set<uint16_t>(sampled.begin(), sampled.end())).size(), 20U);
  size_t seen_from = 0;
  for (const uint16_t token : sampled) {
    if (text.size() - seen_from > 64) seen_from = text.size() - 32;
    const Tensor logits =
        whole_logits(gpt2, reference_ops(), Tokens(text.begin() + static_cast<int64_t>(seen_from), text.end()))[-1];
    EXPECT_LT((logits.max() - logits[token]).item<double>(), 1e-4) << text.size();
    text.push_back(token);
  }
  EXPECT_EQ(seen_from, 98U - 32U);  // a second time

  const Tokens full = some_tokens(64);
  EXPECT_EQ(generate(gpt2, reference_ops(), full, {.tokens = 2}).size(), 2U);
  EXPECT_THROW(generate(gpt2, reference_ops(), some_tokens(65), {}), std::invalid_argument);
}

TEST(Generate, EndsWhereItShould) {
  const GPT2 gpt2 = lively_model(50304);
  {
    const at::NoGradGuard no_grad;
    Tensor direction = at::ones({32});
    Tensor(parameter(gpt2, "ln_f.weight")).zero_();
    Tensor(parameter(gpt2, "ln_f.bias")).copy_(direction);
    Tensor(parameter(gpt2, "wte.weight"))[Tokenizer::end_of_text].copy_(direction * 10);
    Tensor(parameter(gpt2, "wte.weight")).narrow(0, 50257, 47).fill_(100);  // padding is no token
  }
  EXPECT_EQ(generate(gpt2, reference_ops(), some_tokens(3), {}), Tokens{});
  EXPECT_EQ(generate(gpt2, reference_ops(), some_tokens(3), {.tokens = 4, .stop_at_end_of_text = false}),
            Tokens(4, Tokenizer::end_of_text));
  Tokens heard;
  const auto until_three = [&](uint16_t token) {
    heard.push_back(token);
    return heard.size() < 3;
  };
  EXPECT_EQ(generate(gpt2, reference_ops(), {}, {.stop_at_end_of_text = false}, until_three), heard);
  EXPECT_EQ(heard.size(), 3U);
}

}  // namespace sampler_test
