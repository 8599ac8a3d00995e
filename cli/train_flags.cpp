// Commands for the trainer as a user would use it: train, sample, tokenize.
#include "cli/command.h"
#include "cli/commands.h"

#include <memory>

namespace ablations {
namespace {

void add_train(CommandLine& line) {
  constexpr int64_t most_steps = 1000000;
  auto flags = std::make_shared<TrainFlags>();
  Command& command = line.add(
      {.group = "Train",
       .name = "train",
       .summary = "train GPT-2, with checkpoints to resume from",
       .about =
           "Trains with the trainer that the ladders measure. The last part of the text is not trained on: its loss is "
           "the validation loss. Without --recipe it takes the fastest rung that this machine has shown for the model "
           "in the folder studies; else this machine's ladder with all of its rungs.\n"
           "With --out it leaves a folder: the settings (training.json), a line for each step (log.jsonl, and the same "
           "as metrics.csv), and checkpoints, which are there whole or not at all. The last ones stay, and the one "
           "with the lowest validation loss; the links latest and best lead to them. Hugging Face's "
           "GPT2LMHeadModel.from_pretrained() reads a checkpoint as it is.\n"
           "After Ctrl-C, SIGTERM, SIGHUP, SIGUSR1 or SIGUSR2 the step is finished and saved, and the exit status is "
           "130; so it is once nobody reads the output. --resume continues from the last checkpoint; on a CPU with "
           "--threads 1 the losses are the same to the bit as without a stop. A loss that is not "
           "finite ends the training with exit status 1, and nothing is saved of it. `ladder report` draws a "
           "training.\n"
           "With --lr-sweep it trains once for each learning rate, with the same weights at first and the same text, "
           "and tells which rates are too low, good and too high. In --out it leaves lr_sweep.json, a page and charts. "
           "--warmup-steps 0 and --clip 0 show the same without warm-up and without clipping. The exit status is 1 if "
           "every rate diverged.",
       .examples = {{"ladder train --model tiny -T 64 --steps 200 --out training",
                     "Two hundred steps of the two-layer model."},
                    {"ladder train --resume --out training", "Goes on from the last checkpoint."},
                    {"ladder train -T 256 --batch-tokens 524288 --epochs 1 --data book.txt --out run",
                     "GPT-2's batch of half a million tokens, in many micro-steps."},
                    {"ladder train --model tiny -T 64 --steps 20 --save weights.safetensors",
                     "Only the weights at the end."},
                    {"ladder train --weights weights.safetensors -T 64 --steps 20",
                     "Starts from those weights; optimizer, schedule and text start from the beginning."},
                    {"ladder train --model tiny -T 64 --steps 60 --lr-sweep 1e-5:1e-1:9 --out sweep",
                     "Nine short trainings: which learning rates are good for this model, batch and text."}},
       .common = {"--steps", "--epochs", "--data", "--model", "--batch", "--context", "--lr", "--recipe", "--weights",
                  "--out", "--resume", "--save"},
       .stray = "--data"});
  add_workload_flags(command, flags->workload, "gpt2-124m", "1 x 256 tokens");
  for (const char* flag : {"--steps", "--warmup"}) command.remove_option(command.get_option(flag));  // of timed runs
  add_number(command, "--batch-tokens", flags->batch_tokens,
             "tokens of a step, in place of --accumulation: as many micro-steps as it takes", 1, int64_t{1} << 36)
      ->excludes(command.get_option("--accumulation"));
  add_deterministic_flag(command, flags->workload);
  add_end_of_text_flag(command, flags->workload.end_of_text);
  command.heading("How long to train (one of these)");
  add_number(command, "--steps", flags->workload.steps, "updates of the weights", 1, most_steps);
  add_length_flags(command, *flags);
  command.heading("How to train");
  add_text(command, "--recipe", flags->recipe, "JSON file, or JSON: '{\"autocast\": \"bf16\"}' (default: see above)",
           "FILE|JSON");
  add_text(command, "--weights", flags->weights,
           "start from these weights (safetensors, GPT-2's names), those in a folder, or a training's best", "PATH");
  add_learning_flags(command, *flags);
  CLI::Option* const sweep = add_text(
      command, "--lr-sweep", flags->lr_sweep,
      "in place of one training, a short one for each of COUNT learning rates, from MIN to MAX in equal ratios: "
      "which are too low, good and too high, and why",
      "MIN:MAX:COUNT");
  command.heading("Validation");
  add_validation_flags(command, *flags, "a tenth of all", "; every checkpoint has one, too");
  command.heading("Samples while it trains");
  CLI::Option* const samples =
      add_number(command, "--sample-every", flags->sample_every,
                 "steps between two texts that the model writes; it also writes one after the first and the last step "
                 "(default: it writes none)",
                 1, most_steps);
  command.add_option("--sample-prompt", flags->sample_prompt, "UTF-8 text that it continues (default: nothing)")
      ->type_name("TEXT")
      ->needs(samples);
  add_number(command, "--sample-tokens", flags->sample_tokens, "the most tokens of a text (default 100)", 1, 100000)
      ->needs(samples);
  command.heading("Where the results go");
  auto* out = add_output(command, "--out", flags->out, "folder of the training: log and checkpoints", "FOLDER");
  add_number(command, "--save-every", flags->save_every, "steps between two checkpoints (default: a tenth of all)", 1,
             most_steps)
      ->needs(out);
  add_number(command, "--keep", flags->keep,
             "how many of the last checkpoints stay (default 2); the best one stays besides", 1, most_steps)
      ->needs(out);
  command.add_flag("--resume", flags->resume, "resume the training in --out, from its last checkpoint");
  add_number(command, "--log-every", flags->log_every,
             "steps between two lines (default: 1, on a GPU 10); log.jsonl has every step", 1, most_steps);
  add_output(command, "--save", flags->save, "also write the weights here, at the end or when interrupted", "FILE");
  command.add_flag("--json", flags->json, "print only the losses, as JSON; of --lr-sweep all of lr_sweep.json");
  command.add_flag("--end-with-parent", flags->is_child)->group("");
  for (const char* flag : {"--lr", "--validation-every", "--validation-batches", "--sample-every", "--save-every",
                           "--keep", "--resume", "--log-every", "--save"}) {
    sweep->excludes(command.get_option(flag));
  }
  command.callback([&line, &command, flags] {
    if (flags->resume) {
      check_resume(command, {"--data", "--vocab", "--validation-data", "--log-every", "--save", "--json"}, "training");
    }
    line.chosen = [flags] { return flags->lr_sweep.empty() ? train(*flags) : lr_sweep(*flags); };
  });
}

void add_tokenize(CommandLine& line) {
  auto flags = std::make_shared<TokenizeFlags>();
  Command& command = line.add(
      {.group = "Train",
       .name = "tokenize",
       .summary = "turn a text into a token file",
       .about = "Writes the GPT-2 tokens of a UTF-8 text in llm.c's format. --data of every command reads such a "
                "file, also on a machine that has no vocabulary.",
       .examples = {{"ladder tokenize --data book.txt --out book.bin", "Then: ladder ablate --data book.bin"},
                    {"ladder tokenize --data stories.txt --end-of-text --out stories.bin",
                     "A text of many documents, with <|endoftext|> between them."}},
       .stray = "--data"});
  command.heading("What to read and write");
  add_text(command, "--data", flags->data, "UTF-8 text", "FILE")->required();
  add_text(command, "--vocab", flags->vocabulary, "vocab.bpe or gpt2.tiktoken (default: the one of `make data`)",
           "FILE");
  add_end_of_text_flag(command, flags->end_of_text);
  add_text(command, "--out", flags->out, "token file (llm.c's format); -: standard output", "FILE")->required();
  command.callback([&line, flags] { line.chosen = [flags] { return tokenize(*flags); }; });
}

void add_sample(CommandLine& line) {
  auto flags = std::make_shared<SampleFlags>();
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
  command.heading("What to continue");
  add_text(command, "--weights,--model", flags->weights,
           "weights (safetensors, GPT-2's names), a folder of them, or a training's folder: its best checkpoint",
           "PATH")
      ->required();
  command
      .add_option("--prompt", flags->prompt,
                  "UTF-8 text that comes before (default: nothing, so that a new text begins)")
      ->type_name("TEXT");
  add_text(command, "--vocab", flags->vocabulary, "vocab.bpe or gpt2.tiktoken (default: the one of `make data`)",
           "FILE");
  add_end_of_text_flag(command, flags->end_of_text);
  command.heading("How to choose each token");
  add_real(command, "--temperature", flags->temperature,
           "divides the logits: below 1 likely tokens become likelier, 0 always takes the likeliest (default 1)", 0);
  add_number(command, "--top-k", flags->top_k, "choose among the N likeliest only (default 0: among all)", 0, 50257);
  add_real(command, "--top-p", flags->top_p,
           "choose among the fewest likeliest that have this probability together (default 1: among all)",
           "a number above 0 and at most 1", [](double x) { return x > 0 && x <= 1; });
  add_number(command, "--seed", flags->seed, "the same seed gives the same text (default 1)", 0, INT64_MAX);
  command.heading("How much");
  add_number(command, "--tokens", flags->tokens, "the most tokens of a text (default 200)", 1, 1000000);
  command.add_flag("--ignore-eos", flags->ignore_eos, "continue after an end-of-text token (default: end there)");
  add_number(command, "--count", flags->count, "how many texts; each takes the next seed (default 1)", 1, 10000);
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
