// `ladder train`: its flags and its help. What it does is in cli/gpt2/train.cpp.
#include "cli/command.h"
#include "cli/commands.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace cli {
namespace {

const Words train_words{
    .group = "Train",
    .name = "train",
    .summary = "train GPT-2, with checkpoints to resume from",
    .about =
        "Trains with the trainer that the ladders measure. The last part of the text is not trained on: its loss is "
        "the validation loss. Without --recipe it takes the fastest rung that this machine has shown for the model "
        "in the folder studies; else this machine's ladder with all of its rungs but those in fp8.\n"
        "With --out it leaves a folder: the settings (training.json), a line for each step (log.jsonl, and the same "
        "as metrics.csv), and checkpoints, which are there whole or not at all. The last ones stay, and the one "
        "with the lowest validation loss; the links latest and best lead to them. Hugging Face's "
        "GPT2LMHeadModel.from_pretrained() reads a checkpoint as it is.\n"
        "After Ctrl-C, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU or SIGPWR the step is finished and saved, and the "
        "exit status is "
        "130; so it is once nobody reads the output. --resume continues from the last checkpoint; on a CPU with "
        "--threads 1 the losses are the same to the bit as without a stop. A loss that is not "
        "finite ends the training with exit status 1, and nothing is saved of it. `ladder report` draws a "
        "training.\n"
        "With --lr-sweep it trains once for each learning rate, with the same weights at first and the same text, "
        "judges each by the same held-out text, and tells which rates are too low, good and too high. In --out it "
        "leaves lr_sweep.json, a page and charts. "
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
    .stray = "--data"};

}  // namespace

void add_train(CommandLine& line) {
  Command& command = line.add(train_words);
  TrainFlags& flags = command.runs(train);
  add_workload_flags(command, flags.workload, "gpt2-124m", "1 x 256 tokens");
  for (const char* flag : {"--steps", "--warmup"}) command.remove_option(command.get_option(flag));  // of timed runs
  add_number(command, "--batch-tokens", flags.batch_tokens,
             "tokens of a step, in place of --accumulation: as many micro-steps as it takes", 1, int64_t{1} << 36);
  command.exclude("--batch-tokens", {"--accumulation"});
  add_deterministic_flag(command, flags.workload);
  add_end_of_text_flag(command, flags.workload.end_of_text);
  command.heading("How long to train (one of these)");
  add_number(command, "--steps", flags.workload.steps, "updates of the weights", 1, most_training_steps);
  add_length_flags(command, flags);
  command.heading("How to train");
  add_text(command, "--recipe", flags.recipe, "JSON file, or JSON: '{\"autocast\": \"bf16\"}' (default: see above)",
           "FILE|JSON");
  add_text(command, "--weights", flags.weights,
           "start from these weights (safetensors, GPT-2's names), those in a folder, or a training's best", "PATH");
  add_learning_flags(command, flags);
  add_text(command, "--lr-sweep", flags.lr_sweep,
           "in place of one training, a short one for each of COUNT learning rates, from MIN to MAX in equal ratios: "
           "which are too low, good and too high, and why",
           "MIN:MAX:COUNT");
  command.heading("Validation");
  add_validation_flags(command, flags, "a tenth of all", "; every checkpoint has one, too");
  command.heading("Samples while it trains");
  CLI::Option* const samples =
      add_number(command, "--sample-every", flags.sample_every,
                 "steps between two texts that the model writes; it also writes one after the first and the last step "
                 "(default: it writes none)",
                 1, most_training_steps);
  command.add_option("--sample-prompt", flags.sample_prompt, "UTF-8 text that it continues (default: nothing)")
      ->type_name("TEXT")
      ->needs(samples);
  add_number(command, "--sample-tokens", flags.sample_tokens, "the most tokens of a text (default 100)", 1, 100000)
      ->needs(samples);
  command.heading("Where the results go");
  CLI::Option* const out =
      add_output(command, "--out", flags.out, "folder of the training: log and checkpoints", "FOLDER");
  add_number(command, "--save-every", flags.save_every, "steps between two checkpoints (default: a tenth of all)", 1,
             most_training_steps)
      ->needs(out);
  add_number(command, "--keep", flags.keep,
             "how many of the last checkpoints stay (default 2); the best one stays besides", 1, most_training_steps)
      ->needs(out);
  command.add_flag("--resume", flags.resume, "resume the training in --out, from its last checkpoint");
  add_number(command, "--log-every", flags.log_every,
             "steps between two lines (default: 1, on a GPU 10); log.jsonl has every step", 1, most_training_steps);
  add_output(command, "--save", flags.save, "also write the weights here, at the end or when interrupted", "FILE");
  command.add_flag("--json", flags.json, "print only the losses, as JSON; of --lr-sweep all of lr_sweep.json");
  command.add_flag("--end-with-parent", flags.is_child)->group("");
  command.exclude("--lr-sweep", {"--lr", "--validation-every", "--validation-batches", "--sample-every", "--save-every",
                                 "--keep", "--resume", "--log-every", "--save"});
  command.callback([&command] {
    check_resume(command, {"--data", "--vocab", "--validation-data", "--log-every", "--save", "--json"}, "training");
  });
}

}  // namespace cli
