#include "ablations/command_line.h"

#include "ablations/commands.h"
#include "ablations/gate.h"
#include "ablations/ladder.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/json_file.h"
#include "model/config.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/headeronly/version.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>

namespace ablations {
namespace {

using harness::Json;

// Numbers are read as text first, so that "-1", "1e9" and "99999999999999999999" get the same kind of answer.
CLI::Option* add_number(CLI::App* app, const std::string& names, int64_t& value, const std::string& help, int64_t least,
                        int64_t most) {
  return app
      ->add_option_function<std::string>(
          names,
          [&value, names, least, most](const std::string& text) {
            try {
              size_t used = 0;
              value = std::stoll(text, &used);
              if (used == text.size() && value >= least && value <= most) return;
            } catch (const std::exception&) {  // not a number, or none that fits
            }
            const std::string name = names.substr(names.find("--"));
            throw std::invalid_argument(
                fmt::format("{} {} is not allowed; a whole number from {} to {} is", name, text, least, most));
          },
          help)
      ->type_name("N");
}

// A share in percent, kept as a fraction: "2" and "2%" are 0.02.
CLI::Option* add_percent(CLI::App* app, const std::string& name, double& value, const std::string& help) {
  return app
      ->add_option_function<std::string>(
          name,
          [&value, name](const std::string& text) {
            try {
              size_t used = 0;
              const double percent = std::stod(text, &used);
              const bool ended = used == text.size() || (used + 1 == text.size() && text.back() == '%');
              if (ended && percent >= 0 && percent <= 100) {
                value = percent / 100;
                return;
              }
            } catch (const std::exception&) {  // not a number, or none that fits
            }
            throw std::invalid_argument(fmt::format("{} {} is not allowed; a percentage from 0 to 100 is", name, text));
          },
          help)
      ->type_name("PERCENT");
}

// A name, a file or a document: not empty, and UTF-8, because the records carry it.
CLI::Option* add_text(CLI::App* app, const std::string& names, std::string& value, const std::string& help,
                      const char* type) {
  const auto fault = [](const std::string& text) -> std::string {
    if (text.empty()) return "must not be empty";
    try {
      (void)Json(text).dump();
    } catch (const Json::type_error&) {
      return files::in_quotes(text) + " is not UTF-8";
    }
    return "";
  };
  return app->add_option(names, value, help)->type_name(type)->check(CLI::Validator(fault, ""));
}

void add_wait(CLI::App* app, bool& wait) {
  app->add_flag("--wait", wait, "while something else measures on the device (default: say so, exit status 3)");
}

constexpr int64_t most_steps = 100000, most_sequences = 1 << 16;

void add_workload_flags(CLI::App* app, WorkloadFlags& flags, const std::string& default_from) {
  add_text(app, "--model", flags.model,
           fmt::format("{} (default: {})", fmt::join(model::preset_names(), ", "), default_from), "NAME");
  add_number(app, "-B,--batch", flags.B, "sequences per micro-step", 1, most_sequences);
  add_number(app, "-T,--context", flags.T, "tokens per sequence, at most the model's positions (gpt2-*: 1024)", 1,
             1 << 20);
  add_number(app, "--positions", flags.positions,
             "positions of the model, where it shall have more (extra rows of wpe)", 1, most_sequences);
  add_number(app, "--accumulation", flags.accumulation, "micro-steps per step", 1, most_sequences);
  add_number(app, "--steps", flags.steps, "timed steps of a run", 1, most_steps);
  add_number(app, "--warmup", flags.warmup, "untimed steps before them", 0, most_steps);
  add_number(app, "--seed", flags.seed, "weights and place in the text (default 1)", 0, INT64_MAX);
  add_number(app, "--threads", flags.threads, "CPU threads (default: one for each core)", 1, 4096);
  add_text(app, "--data", flags.data, "a UTF-8 text, or a token file (.bin, llm.c's format)", "FILE");
  add_text(app, "--vocab", flags.vocabulary, "vocab.bpe or gpt2.tiktoken, to read texts with", "FILE");
}

void add_deterministic_flag(CLI::App* app, WorkloadFlags& flags) {
  app->add_flag("--deterministic", flags.deterministic,
                "PyTorch's deterministic algorithms: the same losses to the bit each time, on a GPU, too");
}

constexpr const char* workload_flags[] = {"--model",        "--batch", "--context", "--positions",
                                          "--accumulation", "--steps", "--warmup",  "--seed",
                                          "--threads",      "--data",  "--vocab"};

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app(
      "Which optimization bought what, on this machine, training GPT-2: measured, proven, drawn.\n"
      "Start with `ladder doctor`, then `ladder ablate`.");
  app.name("ladder");
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("ladder, torch {}", TORCH_VERSION));
  std::function<int()> command;

  {
    auto* sub = app.add_subcommand("doctor", "what this machine can measure, and what to fix");
    auto json = std::make_shared<bool>(false), peaks = std::make_shared<bool>(false);
    sub->add_flag("--peaks", *peaks, "measure memory and matrix rates, beside what the maker says (some seconds)");
    sub->add_flag("--json", *json, "for programs");
    sub->callback([&command, json, peaks] { command = [json, peaks] { return doctor(*json, *peaks); }; });
  }
  {
    auto flags = std::make_shared<AblateFlags>();
    auto* sub = app.add_subcommand("ablate",
                                   "measure a ladder: one fresh process for each run, a table and a report at the end");
    add_text(sub, "--ladder", flags->ladder,
             fmt::format("{}, or a file (default: gpt2 with a GPU, gpt2-cpu without)", fmt::join(ladder_names(), ", ")),
             "NAME");
    add_text(sub, "--out", flags->out, "folder of the study (default: studies/<ladder>-<time>)", "FOLDER");
    add_text(sub, "--mode", flags->design.mode, fmt::format("{} (default: cumulative)", fmt::join(mode_names(), ", ")),
             "MODE");
    add_text(sub, "--factors", flags->design.factors, "optimizations of --mode factorial (default: all, if at most 4)",
             "A,B,...");
    add_text(sub, "--sweep", flags->design.sweep,
             "batch=16,32,64, context=512,1024 or accumulation=1,2,4: speed and memory over sizes", "WHAT=N,N");
    sub->add_option("--rung", flags->design.rungs,
                    "a rung to measure at each size, repeatable; the first guards the others (default: the last)")
        ->type_name("NAME")
        ->allow_extra_args(false);
    add_text(sub, "--with-peer", flags->design.peer, "pytorch: the same work in plain PyTorch, interleaved with ours",
             "PEER");
    add_text(sub, "--peer-modes", flags->design.peer_modes,
             "eager,compile,max-autotune,cuda-graphs (default: what the device has)", "LIST");
    auto* shard =
        add_text(sub, "--shard", flags->shard,
                 "every n-th repeat, from the i-th on, into --out: for n machines; ladder merge joins them", "i/n");
    sub->add_flag("--resume", flags->resume, "make only the runs that the study in --out lacks");
    add_number(sub, "--repeats", flags->repeats, "runs of each rung", 1, 1000);
    add_number(sub, "--order-seed", flags->order_seed,
               "of the interleaved order (default: a new one, recorded; with --shard: 1)", 0, INT64_MAX);
    add_number(sub, "--limit", flags->limit_s, "seconds after which a run is stopped (default 900)", 1, 1000000);
    auto* budget = add_number(sub, "--budget-s", flags->budget_s,
                              "seconds after which no run is begun; --resume makes the rest", 1, 1000000);
    sub->add_flag("--explain", flags->explain,
                  "trace every rung, too, in a process of its own, and say what each changed")
        ->excludes(shard);
    add_wait(sub, flags->wait);
    add_workload_flags(sub, flags->workload, "the ladder's");
    add_deterministic_flag(sub, flags->workload);
    sub->add_flag("--json", flags->json, "print the study, draw nothing");
    sub->callback([&command, flags, sub, budget] {
      if (flags->resume && flags->out.empty())
        throw std::invalid_argument("--resume needs --out, the folder of the study");
      if (flags->resume && sub->count_all() > 3U + (flags->json ? 1U : 0U) + (budget->count() > 0 ? 1U : 0U) +
                                                  (flags->explain ? 1U : 0U) + (flags->wait ? 1U : 0U)) {
        throw std::invalid_argument(
            "--resume goes on with the plan in --out; other flags would change it and are not allowed");
      }
      if (!flags->shard.empty() && flags->out.empty())
        throw std::invalid_argument("--shard needs --out, a folder of its own for each shard");
      command = [flags] { return ablate(*flags); };
    });
  }
  {
    auto flags = std::make_shared<RunFlags>();
    auto* sub = app.add_subcommand("run", "one run in this process, with its proofs");
    auto* recipe =
        add_text(sub, "--recipe", flags->recipe, "JSON file, or JSON: '{\"autocast\": \"bf16\"}'", "FILE|JSON");
    auto* rung = add_text(sub, "--rung", flags->rung, "a rung of --ladder, by its optimization, or \"start\"", "NAME");
    add_text(sub, "--ladder", flags->ladder, "where --rung is looked up", "NAME")->needs(rung);
    auto* plan = add_text(sub, "--plan", flags->plan, "a study's plan.json", "FILE");
    plan->needs(add_text(sub, "--run", flags->run_id, "a run of --plan, by its id", "ID")->needs(plan));
    recipe->excludes(rung)->excludes(plan);
    rung->excludes(plan);
    auto* from = add_text(sub, "--from", flags->from,
                          "a record: run it again, on its data, and say whether the losses are the same", "RECORD");
    from->excludes(recipe)->excludes(rung)->excludes(plan);
    sub->add_flag("--any-program", flags->any_program, "with --from: also where the record is another program's")
        ->needs(from);
    add_text(sub, "--record", flags->record, "write the record here", "FILE");
    sub->add_flag("--json", flags->json, "print the record");
    add_wait(sub, flags->wait);
    sub->add_flag("--report-steps-to-parent", flags->report_steps)->group("");
    add_workload_flags(sub, flags->workload, "gpt2-124m, or the ladder's");
    add_deterministic_flag(sub, flags->workload);
    for (const char* flag : workload_flags) plan->excludes(sub->get_option(flag));  // the plan says it
    plan->excludes(sub->get_option("--deterministic"));
    from->excludes(sub->get_option("--deterministic"));
    for (const char* flag : workload_flags) {  // the record says it, but not where the data is
      if (std::string_view(flag) != "--data" && std::string_view(flag) != "--vocab") {
        from->excludes(sub->get_option(flag));
      }
    }
    sub->callback([&command, flags] { command = [flags] { return run(*flags); }; });
  }
  {
    auto flags = std::make_shared<ProfileFlags>();
    auto* sub = app.add_subcommand("profile", "why a rung is as fast as it is: where a step goes, what changed");
    auto* trace =
        sub->add_flag("--trace", flags->trace, "record what runs when; a summary and a timeline for Perfetto");
    auto* diff = sub->add_option("--diff", flags->diff,
                                 "explain a rung against the one before it, two rungs, or two files of --trace")
                     ->type_name("RUNG|FILE")
                     ->expected(1, 2);
    sub->add_flag("--roofline", flags->roofline,
                  "with --trace: each part's distance from what this machine can do, which is measured, too")
        ->needs(trace);
    auto* counters = sub->add_flag("--counters", flags->counters,
                                   "hardware counters of a step: memory traffic, activity of SMs and tensor pipes");
    auto* list = sub->add_flag("--list-metrics", flags->list_metrics,
                               "what a chip can count; with --metrics: in how many passes it counts those");
    trace->excludes(diff)->excludes(counters)->excludes(list);
    diff->excludes(counters)->excludes(list);
    counters->excludes(list);
    add_text(sub, "--metrics", flags->metrics, "what to count (default: what fits into one pass)", "A,B,...");
    auto* passes = add_number(sub, "--max-passes", flags->max_passes,
                              "steps to count at most, one for each pass of the metrics (default 16)", 1, 1000);
    passes->needs(counters);
    add_text(sub, "--chip", flags->chip, "GH100, GA100, ... (default: the GPU's)", "NAME")->needs(list);
    auto* recipe =
        add_text(sub, "--recipe", flags->run.recipe, "JSON file, or JSON: '{\"device\": \"cuda\"}'", "FILE|JSON");
    auto* rung =
        add_text(sub, "--rung", flags->run.rung, "a rung of --ladder, by its optimization, or \"start\"", "NAME");
    recipe->excludes(rung)->excludes(diff);
    rung->excludes(diff);
    add_text(sub, "--plan", flags->run.plan, "", "FILE")->excludes(recipe)->excludes(rung)->group("");
    add_text(sub, "--run", flags->run.run_id, "", "ID")->group("");
    add_text(sub, "--ladder", flags->run.ladder, "where rungs are looked up", "NAME");
    auto* out = add_text(sub, "--out", flags->out,
                         "folder of a trace's files (default: profiles/NAME), or a file for the counters", "PATH");
    sub->add_flag("--json", flags->json, "print the result as JSON");
    add_wait(sub, flags->run.wait);
    add_workload_flags(sub, flags->run.workload, "gpt2-124m, or the ladder's");
    for (CLI::Option* option : {recipe, rung, out}) list->excludes(option);
    for (const char* flag : workload_flags) list->excludes(sub->get_option(flag));
    sub->callback([&command, flags] { command = [flags] { return profile(*flags); }; });
  }
  {
    auto flags = std::make_shared<CompareFlags>();
    auto* sub =
        app.add_subcommand("compare", "two records, studies or folders of records: a paired table with verdicts");
    add_text(sub, "base", flags->base, "what it was", "PATH")->required();
    add_text(sub, "head", flags->head, "what it is now", "PATH")->required();
    add_percent(sub, "--min-effect", flags->min_effect, "the least difference that matters (default 2)");
    sub->add_flag("--force", flags->force, "compare what was measured under different circumstances, and say so");
    auto* json = sub->add_flag("--json", flags->json, "for programs");
    sub->add_flag("--markdown", flags->markdown, "for a page")->excludes(json);
    sub->callback([&command, flags] { command = [flags] { return compare(*flags); }; });
  }
  {
    auto flags = std::make_shared<GateFlags>();
    auto* sub = app.add_subcommand(
        "gate", "did the program become slower? two programs side by side, or one against a stored baseline");
    auto* base = add_text(sub, "--base", flags->base, "the program as it was: a bundle's folder, or a program", "PATH");
    add_text(sub, "--head", flags->head, "the program as it is now (default: this one)", "PATH");
    auto* baselines = add_text(sub, "--baselines", flags->baselines,
                               "folder with baselines by device and recipe: what to compare with where there is no "
                               "--base, and where --save stores",
                               "FOLDER");
    auto* calibrate = sub->add_flag("--calibrate", flags->calibrate,
                                    "--head against itself: how small a difference this machine can show");
    auto* save =
        sub->add_flag("--save", flags->save, "store the runs, unless the verdict is against them, or the noise floor");
    save->needs(baselines);
    add_text(sub, "--ladder", flags->ladder, "where the recipes come from (default: as of ablate)", "NAME");
    auto* rungs = sub->add_option("--rung", flags->rungs, "a rung to measure, repeatable (default: the last)");
    rungs->type_name("NAME")->allow_extra_args(false);
    auto* effect = add_percent(sub, "--min-effect", flags->min_effect, "the least slowdown that matters (default 2)");
    add_number(sub, "--pairs", flags->pairs,
               "pairs of runs, fresh processes (default 8; 16 to calibrate); 6 can reach a verdict", 6, 1000);
    auto* top_up = add_number(sub, "--top-up", flags->top_up,
                              "pairs that follow, once, where those leave it open (default: as many again)", 0, 1000);
    auto* blocked =
        sub->add_flag("--blocked", flags->blocked,
                      "all of base's runs before head's, where one disturbs the other; drift is then not seen");
    add_number(sub, "--limit", flags->limit_s, "seconds after which a run is stopped (default 900)", 1, 1000000);
    auto* force = sub->add_flag("--force", flags->force, "compare under different circumstances, and say so");
    add_text(sub, "--out", flags->out, "folder of the gate (default: gates/<ladder>-<time>)", "FOLDER");
    sub->add_flag("--resume", flags->resume, "make only the runs that the gate in --out lacks");
    add_wait(sub, flags->wait);
    sub->add_flag("--json", flags->json, "print the verdict as JSON");
    add_workload_flags(sub, flags->workload, "the ladder's");
    base->excludes(calibrate);
    for (CLI::Option* option : {effect, top_up, blocked, force}) calibrate->excludes(option);
    sub->callback([&command, flags, sub, base, baselines, calibrate] {
      if (flags->resume && flags->out.empty())
        throw std::invalid_argument("--resume needs --out, the folder of the gate");
      if (flags->resume && sub->count_all() > 3U + (flags->json ? 1U : 0U) + (flags->wait ? 1U : 0U)) {
        throw std::invalid_argument(
            "--resume goes on with the plan in --out; other flags would change it and are not allowed");
      }
      if (!flags->resume && base->count() + baselines->count() + calibrate->count() == 0) {
        throw std::invalid_argument(
            "gate needs something to compare with: --base PROGRAM, --baselines FOLDER, or --calibrate");
      }
      command = [flags] { return gate(*flags); };
    });
  }
  {
    auto flags = std::make_shared<ReportFlags>();
    auto* sub = app.add_subcommand("report", "draw a study again, or two beside each other; tables as CSV and JSON");
    sub->add_option(
           "studies", flags->studies,
           "one study or two: a folder, NAME.study.json with NAME.records.jsonl, or a report.json to draw again")
        ->type_name("STUDY")
        ->required()
        ->expected(1, 2);
    add_text(sub, "--out", flags->out, "folder to write into (default: the study's; of two: reports/FIRST-SECOND)",
             "DIR");
    sub->add_option("--with", flags->with,
                    "show these, too: gate.json, history.json, a noise floor, a trace, Google Benchmark's JSON")
        ->type_name("FILE");
    sub->add_flag("--published", flags->published, "with figures that others have published");
    sub->callback([&command, flags] { command = [flags] { return report(*flags); }; });
  }
  {
    auto flags = std::make_shared<HistoryFlags>();
    auto* sub = app.add_subcommand("history", "what became of each rung's time over stored studies: steps and drifts");
    add_text(sub, "folder", flags->folder, "where studies are kept; every study.json in it and below counts", "FOLDER")
        ->required();
    auto* out = add_text(sub, "--out", flags->out, "write history.json and draw history.svg, history.png here", "DIR");
    sub->add_flag("--json", flags->json, "print the history as JSON")->excludes(out);
    sub->add_flag("--fail-on-slowdown", flags->fail_on_slowdown,
                  "exit status 1 where a rung is found to be slower than at its best");
    sub->callback([&command, flags] { command = [flags] { return history(*flags); }; });
  }
  {
    auto flags = std::make_shared<VerifyFlags>();
    auto* sub = app.add_subcommand("verify", "compute a study again from its records, and every hash");
    add_text(sub, "study", flags->study, "folder of a study", "FOLDER")->required();
    sub->add_flag("--json", flags->json, "print the findings as JSON");
    sub->callback([&command, flags] { command = [flags] { return verify(*flags); }; });
  }
  {
    auto flags = std::make_shared<MergeFlags>();
    auto* sub = app.add_subcommand("merge", "join the shards of a study that several machines measured");
    add_text(sub, "out", flags->out, "folder of the study; may hold a part already", "OUT")->required();
    sub->add_option("shards", flags->shards, "folders of ladder ablate --shard")->type_name("SHARD...")->required();
    sub->add_flag("--group-by-device", flags->group_by_device,
                  "a study for each kind of device, in a folder of OUT (default: refuse different devices)");
    sub->callback([&command, flags] { command = [flags] { return merge(*flags); }; });
  }
  {
    auto flags = std::make_shared<TrainFlags>();
    auto* sub = app.add_subcommand("train", "train, and save the weights for Hugging Face");
    add_text(sub, "--recipe", flags->recipe, "JSON file, or JSON", "FILE|JSON");
    add_text(sub, "--weights", flags->weights, "start from these (safetensors, GPT-2 names)", "FILE");
    add_text(sub, "--save", flags->save, "write the weights here at the end", "FILE");
    sub->add_flag("--json", flags->json, "print the losses only");
    add_workload_flags(sub, flags->workload, "gpt2-124m");
    sub->callback([&command, flags] { command = [flags] { return train(*flags); }; });
  }
  {
    auto flags = std::make_shared<TokenizeFlags>();
    auto* sub = app.add_subcommand("tokenize", "turn a text into a token file");
    add_text(sub, "--data", flags->data, "UTF-8 text", "FILE")->required();
    add_text(sub, "--vocab", flags->vocabulary, "vocab.bpe or gpt2.tiktoken", "FILE");
    add_text(sub, "--out", flags->out, "token file (llm.c's format)", "FILE")->required();
    sub->callback([&command, flags] { command = [flags] { return tokenize(*flags); }; });
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "ladder: {}\n`ladder --help` and `ladder COMMAND --help` say what there is.\n",
               files::printable(error.what()));
    return 2;
  }
  return command();
}

}  // namespace ablations
