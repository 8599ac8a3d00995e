// `ladder sample`: its flags and its help. What it does is in cli/gpt2/sample.cpp.
#include "cli/command.h"
#include "cli/commands.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace cli {

void add_sample(CommandLine& line) {
  Command& command = line.add(
      {.group = "Train",
       .name = "sample",
       .summary = "write text with trained weights",
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
                  "--json"},
       .stray = "--prompt"});
  SampleFlags& flags = command.runs(sample);
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
