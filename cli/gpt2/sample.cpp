// `ladder sample`: text by trained weights.
#include "ablations/gpt2/gpt2_workload.h"
#include "ablations/gpt2/options.h"
#include "ablations/training/checkpoints.h"
#include "cli/gpt2/commands.h"
#include "cli/gpt2/tokenize.h"
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
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cli {

using files::Json;

namespace {

struct SampleFlags {
  std::string weights, prompt, vocabulary;
  int64_t tokens = 200, count = 1;
  double temperature = 1, top_p = 1;  // model/sampler.h
  int64_t top_k = 0;
  int64_t seed = 1;
  std::optional<int64_t> threads;
  bool ignore_eos = false, end_of_text = false, json = false;
};

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

}  // namespace

void add_sample(CommandLine& line) {
  Command& command = line.add(
      {.name = "sample",
       .about =
           "Goes on from a prompt, token by token, on the CPU in float32. Reads what `ladder train` writes, and "
           "the folder of Hugging Face's GPT-2 as it is. The text appears while it is made. What a terminal "
           "would act on instead of showing it is spelled out. After Ctrl-C or SIGTERM the exit status is 130.\n"
           "The model's sizes come from the file. Its number of heads is the n_head of a config.json beside the file, "
           "else that of the known model of these sizes. What config.json says otherwise must be true of this GPT-2.\n"
           "GPT-2 sees only as many tokens as it has positions (1024). Whenever they are full, all but the last half "
           "is forgotten, and the text continues.",
       .examples = {{"ladder sample --weights training --prompt \"To be\"",
                     "200 tokens by the best checkpoint that `ladder train --out training` has left."},
                    {"ladder sample --weights gpt2 --top-k 40 --count 3",
                     "Three texts by Hugging Face's GPT-2, without unlikely tokens, with seeds 1 to 3."},
                    {"ladder sample --weights weights.safetensors --temperature 0 --json",
                     "Always the likeliest token: the same text each time."}},
       .common = {"--weights", "--prompt", "--tokens", "--count", "--temperature", "--top-k", "--top-p", "--seed",
                  "--json"}});
  auto& flags = command.runs<SampleFlags>(sample);
  command.heading("What to continue");
  add_text(command, "--weights,--model", flags.weights,
           "weights (safetensors, GPT-2's names), a folder of them, or a training's folder: its best checkpoint",
           "PATH")
      ->required();
  command
      .add_option("--prompt", flags.prompt,
                  "UTF-8 text that comes before (default: nothing, so that a new text begins)")
      ->type_name("TEXT");
  add_text(command, "--vocab", flags.vocabulary, "vocab.bpe or gpt2.tiktoken (default: the one of `make data`)",
           "FILE");
  add_end_of_text_flag(command, flags.end_of_text);
  command.heading("How to choose each token");
  add_real(command, "--temperature", flags.temperature,
           "divides the logits: below 1 likely tokens become likelier, 0 always takes the likeliest (default 1)",
           "a number from 0 on", 0);
  add_number(command, "--top-k", flags.top_k, "choose among the N likeliest only (default 0: among all)", 0, 50257);
  add_real(command, "--top-p", flags.top_p,
           "choose among the fewest likeliest that have this probability together (default 1: among all)",
           "a number above 0 and at most 1", above_zero, 1);
  add_number(command, "--seed", flags.seed, "the same seed gives the same text (default 1)", 0, INT64_MAX);
  command.heading("How much");
  add_number(command, "--tokens", flags.tokens, "the most tokens of a text (default 200)", 1, 1000000);
  command.add_flag("--ignore-eos", flags.ignore_eos, "continue after an end-of-text token (default: end there)");
  add_number(command, "--count", flags.count, "how many texts; each takes the next seed (default 1)", 1, 10000);
  add_number(command, "--threads", flags.threads, "CPU threads (default: one for each core it may use)", 1, 4096);
  command.add_flag("--json", flags.json, "print texts and tokens as JSON, at the end");
}

}  // namespace cli
