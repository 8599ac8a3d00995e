// Commands for the trainer as a user would use it: train, tokenize.
#include "ablations/command_line/command.h"
#include "ablations/commands/commands.h"

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

}  // namespace

void add_training_commands(CommandLine& line) {
  add_train(line);
  add_tokenize(line);
}

}  // namespace ablations
