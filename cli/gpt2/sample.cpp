// `ladder sample`: text by trained weights.
#include "ablations/run/gpt2_workload.h"
#include "ablations/run/options.h"
#include "ablations/training/checkpoints.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/prompt.h"
#include "files/json_file.h"
#include "files/printable.h"
#include "harness/process/process.h"
#include "model/checkpoint.h"
#include "model/config_of_weights.h"
#include "model/sampler.h"
#include "model/tokenizer.h"
#include "text/style.h"

#include <fmt/format.h>

#include <cstdio>
#include <stdexcept>
#include <utility>

namespace cli {

using files::Json;

namespace {

// A text on standard output while it comes. The prompt appears with the first token, so that nothing is shown of a
// model that gives none.
class ShownText {
 public:
  explicit ShownText(std::string prompt) : prompt_(std::move(prompt)) {}

  void add(std::string_view bytes) {
    fmt::print("{}", lines_.next(std::exchange(prompt_, "") + std::string(bytes)));
    std::fflush(stdout);
  }
  void end() {
    add("");
    fmt::print("{}\n", lines_.end());
  }

 private:
  std::string prompt_;
  files::PrintableLines lines_;
};

}  // namespace

int sample(const SampleFlags& flags) {
  if (flags.count > 1 && flags.temperature == 0) {
    throw std::invalid_argument(fmt::format(
        "--count must be 1 with --temperature 0, which gives the same text each time, got {}", flags.count));
  }
  const std::filesystem::path weights = model::weights_file(flags.weights);
  check_undamaged(weights);
  const model::StoredConfig config = model::config_of_weights(weights);
  const model::Tokenizer tokenizer = vocabulary_for_text(flags.vocabulary);
  const std::vector<uint16_t> prompt =
      encoded_prompt("--prompt", flags.prompt, tokenizer, config.n_positions, marks_of(flags.end_of_text));
  RunOptions process;
  process.threads = threads_for(flags.threads);
  prepare_process(process);
  model::GPT2 gpt2(config, config.vocabulary, /*seed=*/0, at::kCPU);
  model::load_weights(gpt2, weights);
  say_note(model::rows_left_out(weights, config, config.vocabulary));
  if (std::ssize(prompt) + flags.tokens > config.n_positions) {
    fmt::print(stderr,
               "note: the model has {} positions; whenever they are full, it continues from the last {} tokens\n",
               config.n_positions, model::tokens_kept_when_full(config));
  }

  harness::catch_interrupts();
  Json samples = Json::array();
  for (int64_t i = 0; i < flags.count && !harness::interrupted(); ++i) {
    const model::SampleOptions options{
        .tokens = flags.tokens,
        .sampling = {.temperature = flags.temperature, .top_k = flags.top_k, .top_p = flags.top_p},
        .seed = static_cast<uint64_t>(flags.seed) + static_cast<uint64_t>(i),
        .stop_at_end_of_text = !flags.ignore_eos};
    if (!flags.json && flags.count > 1) {
      fmt::print("{}\n", standard_output().painted(Style::faint, fmt::format("--- seed {}", options.seed)));
    }
    ShownText shown(flags.prompt);
    const std::vector<uint16_t> tokens =
        model::generate(gpt2, model::reference_ops(), prompt, options, [&](uint16_t token) {
          if (!flags.json) shown.add(tokenizer.decode({&token, 1}));
          return !harness::interrupted();
        });
    const char* const end = std::ssize(tokens) == flags.tokens ? "tokens"
                            : harness::interrupted()           ? "interrupted"
                                                               : "end_of_text";
    if (!flags.json) shown.end();
    samples.push_back({{"seed", options.seed}, {"text", tokenizer.decode(tokens)}, {"tokens", tokens}, {"end", end}});
  }
  if (flags.json) {
    const Json document{{"prompt", flags.prompt}, {"prompt_tokens", prompt}, {"samples", samples}};
    // A text may end within a character.
    fmt::print("{}\n", document.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace));
  }
  return harness::interrupted() ? 130 : 0;
}

}  // namespace cli
