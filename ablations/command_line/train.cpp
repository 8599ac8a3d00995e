// Commands for the trainer as a user would use it: train, sample, tokenize.
#include "ablations/command_line/command.h"
#include "ablations/commands/commands.h"
#include "model/config.h"

#include <memory>

namespace ablations {
namespace {

void add_train(CommandLine& line) {
  auto flags = std::make_shared<TrainFlags>();
  Command& command = line.add(
      {.group = "Train",
       .name = "train",
       .summary = "train, and save the weights for Hugging Face",
       .about =
           "Trains with the trainer that the ladders measure. Prints loss, time and tokens per second of every step. "
           "Writes nothing unless --save names a file (safetensors, GPT-2's names), which Hugging Face's "
           "GPT2LMHeadModel "
           "and --weights read. After Ctrl-C or SIGTERM the step is finished, the weights are saved, and the exit "
           "status is 130. A loss that is not finite ends the training with exit status 1, and nothing is saved.",
       .examples = {{"ladder train --model tiny -T 64 --steps 20 --save weights.safetensors",
                     "Twenty steps of the two-layer model."},
                    {"ladder train --weights weights.safetensors --model tiny -T 64",
                     "Starts from those weights; optimizer, schedule and text start from the beginning."}}});
  command.heading("How to train");
  add_text(command, "--recipe", flags->recipe, "JSON file, or JSON (default: plain float32 on the CPU)", "FILE|JSON");
  add_text(command, "--weights", flags->weights, "start from these weights (safetensors, GPT-2's names)", "FILE");
  add_workload_flags(command, flags->workload, "gpt2-124m", "1 x 256 tokens, 50 steps");
  command.remove_option(command.get_option("--warmup"));  // nothing is timed
  command.heading("Where the results go");
  add_text(command, "--save", flags->save, "write the weights here at the end or when interrupted", "FILE");
  command.add_flag("--json", flags->json, "print only the losses, as JSON");
  command.callback([&line, flags] { line.chosen = [flags] { return train(*flags); }; });
}

void add_tokenize(CommandLine& line) {
  auto flags = std::make_shared<TokenizeFlags>();
  Command& command = line.add(
      {.group = "Train",
       .name = "tokenize",
       .summary = "turn a text into a token file",
       .about = "Writes the GPT-2 tokens of a UTF-8 text in llm.c's format. --data of every command reads such a "
                "file, also on a machine that has no vocabulary.",
       .examples = {{"ladder tokenize --data book.txt --out book.bin", "Then: ladder ablate --data book.bin"}}});
  command.heading("What to read and write");
  add_text(command, "--data", flags->data, "UTF-8 text", "FILE")->required();
  add_text(command, "--vocab", flags->vocabulary, "vocab.bpe or gpt2.tiktoken (default: the one of `make data`)",
           "FILE");
  add_text(command, "--out", flags->out, "token file (llm.c's format)", "FILE")->required();
  command.callback([&line, flags] { line.chosen = [flags] { return tokenize(*flags); }; });
}

void add_sample(CommandLine& line) {
  auto flags = std::make_shared<SampleFlags>();
  Command& command = line.add(
      {.group = "Train",
       .name = "sample",
       .summary = "write text with trained weights",
       .about =
           "Goes on from a prompt, token by token, on the CPU in float32. Reads what `ladder train --save` writes, and "
           "Hugging Face's GPT-2 as it is (model.safetensors). The text appears while it is made. What a terminal "
           "would act on instead of showing it is spelled out. After Ctrl-C or SIGTERM the exit status is 130.\n"
           "The model's sizes come from the file. Its number of heads is that of --model, else the n_head of a "
           "config.json beside the file, else that of the known model of these sizes.\n"
           "GPT-2 sees only as many tokens as it has positions (1024). Whenever they are full, all but the last half "
           "is forgotten, and the text goes on.",
       .examples = {{"ladder sample --weights weights.safetensors --prompt \"To be\"",
                     "200 tokens by the model that `ladder train --save weights.safetensors` has left."},
                    {"ladder sample --weights gpt2/model.safetensors --top-k 40 --count 3",
                     "Three texts by Hugging Face's GPT-2, without unlikely tokens, with seeds 1 to 3."},
                    {"ladder sample --weights weights.safetensors --temperature 0 --json",
                     "Always the likeliest token: the same text each time."}}});
  command.heading("What to go on from");
  add_text(command, "--weights", flags->weights, "weights (safetensors, GPT-2's names)", "FILE")->required();
  add_choice(command, "--model", flags->model, model::preset_names(), " (default: what the file is of)", "NAME");
  command
      .add_option("--prompt", flags->prompt,
                  "UTF-8 text that comes before (default: nothing, so that a new text begins)")
      ->type_name("TEXT");
  add_text(command, "--vocab", flags->vocabulary, "vocab.bpe or gpt2.tiktoken (default: the one of `make data`)",
           "FILE");
  command.heading("How to choose each token");
  add_real(command, "--temperature", flags->temperature,
           "divides the logits: below 1 likely tokens become likelier, 0 always takes the likeliest (default 1)",
           "a number from 0 on", [](double x) { return x >= 0; });
  add_number(command, "--top-k", flags->top_k, "choose among the N likeliest only (default 0: among all)", 0, 50257);
  add_real(command, "--top-p", flags->top_p,
           "choose among the fewest likeliest that have this probability together (default 1: among all)",
           "a number above 0 and at most 1", [](double x) { return x > 0 && x <= 1; });
  add_number(command, "--seed", flags->seed, "the same seed gives the same text (default 1)", 0, INT64_MAX);
  command.heading("How much");
  add_number(command, "--tokens", flags->tokens, "at most so many tokens (default 200)", 1, 1000000);
  command.add_flag("--ignore-eos", flags->ignore_eos, "go on after an end-of-text token (default: end there)");
  add_number(command, "--count", flags->count, "so many texts, the next ones with the next seeds (default 1)", 1,
             10000);
  add_number(command, "--threads", flags->threads, "CPU threads (default: one for each core it may use)", 1, 4096);
  command.add_flag("--json", flags->json, "print texts and tokens as JSON, at the end");
  command.callback([&line, flags] { line.chosen = [flags] { return sample(*flags); }; });
}

}  // namespace

void add_training_commands(CommandLine& line) {
  add_train(line);
  add_sample(line);
  add_tokenize(line);
}

}  // namespace ablations
