#include "harness/lines/step_reader.h"

#include "files/files.h"
#include "harness/lines/step_pace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

namespace step_reader_test {

namespace fs = std::filesystem;
using harness::LineSplitter;
using harness::LogLine;
using harness::StepFormat;
using harness::StepLine;
using harness::StepReader;
using harness::TrialLines;

std::vector<StepLine> steps_in(std::string_view text, const std::string& steps_from = "") {
  TrialLines trial(steps_from);
  trial.take(0, text, 1);
  trial.end();
  const auto learned = trial.learned();
  return learned ? learned->steps : std::vector<StepLine>{};
}

StepFormat format_in(std::string_view text) {
  TrialLines trial;
  trial.take(0, text, 1);
  trial.end();
  return trial.learned().value().format.value();
}

std::string figure(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "-"; }

// "3 2.5 1000 12.5": step, loss, tokens per second, milliseconds.
std::string said(const StepLine& step) {
  return fmt::format("{} {} {} {}", step.step, figure(step.loss), figure(step.tokens_per_s), figure(step.own_ms));
}

std::string said(const std::vector<StepLine>& steps) {
  std::string all;
  for (const StepLine& step : steps) all += (all.empty() ? "" : " | ") + said(step);
  return all;
}

// Steps and losses only: "3 2.5, 4 2.25".
std::string losses(std::string_view text, const std::string& steps_from = "") {
  std::string all;
  for (const StepLine& step : steps_in(text, steps_from)) {
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", step.step, figure(step.loss));
  }
  return all;
}

std::string unescaped(std::string text) {
  for (const auto& [escape, byte] : {std::pair("\\e", "\x1b"), {"\\r", "\r"}, {"\\t", "\t"}}) {
    for (size_t i; (i = text.find(escape)) != std::string::npos;) text.replace(i, 2, byte);
  }
  return text;
}

// formats/NAME.txt: what a project prints. Its first line names the project and the file of it that prints so, the
// second has what is to be found in the others.
struct Format {
  std::string name, source, expected, text;
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all = [] {
    std::vector<Format> read;
    for (const auto& entry : fs::directory_iterator(fs::path(__FILE__).parent_path() / "formats")) {
      const std::string text = files::read_file(entry.path());
      const size_t first = text.find('\n'), second = text.find('\n', first + 1);
      std::string name = entry.path().stem();
      std::ranges::replace_if(
          name, [](char c) { return c == '-' || c == '.'; }, '_');
      read.push_back({name, text.substr(2, first - 2), text.substr(first + 3, second - first - 3),
                      unescaped(text.substr(second + 1))});
    }
    std::ranges::sort(read, {}, &Format::name);
    return read;
  }();
  return all;
}

TEST(StepReader, HasAllFormats) { EXPECT_GE(formats().size(), 33U); }

class Formats : public testing::TestWithParam<Format> {};

TEST_P(Formats, HaveTheirSteps) {
  const Format& format = GetParam();
  const std::vector<StepLine> steps = steps_in(format.text);
  ASSERT_FALSE(steps.empty()) << format.source;
  EXPECT_EQ(said(steps) + (steps[0].numbered ? "" : " | unnumbered"), format.expected) << format.source;
}

// Wherever a read ends: the same steps, at the clock of the read that brought a line's last byte before its end.
TEST_P(Formats, DoNotDependOnReads) {
  const std::string& text = GetParam().text;
  const std::string whole = said(steps_in(text));
  for (size_t split = 0; split <= text.size(); ++split) {
    TrialLines trial;
    trial.take(0, std::string_view(text).substr(0, split), 1);
    trial.take(0, std::string_view(text).substr(split), 2);
    trial.end();
    const std::vector<StepLine> steps = trial.learned().value().steps;
    ASSERT_EQ(said(steps), whole) << split;
    ASSERT_TRUE(std::ranges::is_sorted(steps, {}, &StepLine::seconds)) << split;
    EXPECT_TRUE(split > 0 || steps.front().seconds == 2);
    EXPECT_TRUE(split < text.size() || steps.back().seconds == 1);
  }
}

void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

INSTANTIATE_TEST_SUITE_P(Projects, Formats, testing::ValuesIn(formats()), [](const auto& p) { return p.param.name; });

// Ways to write step 12 with the loss 2.5 (of 100 steps).
class Neighbours : public testing::TestWithParam<const char*> {};

TEST_P(Neighbours, AreStepTwelve) { EXPECT_EQ(losses(unescaped(GetParam())), "12 2.5"); }

INSTANTIATE_TEST_SUITE_P(
    Lines, Neighbours,
    testing::Values(
        "step 12 loss 2.5", "Step 12: Loss 2.5", "STEP=12 LOSS=2.5", "step:12,loss:2.5", "step: 12 | loss: 2.5",
        "[step 12] loss = 2.5", "(step 12) (loss 2.5)", "step #12 loss 2.5", "step 12/100, loss 2.5",
        "step 12 / 100, loss 2.5", "step [12/100] loss 2.5", "[12/100] loss: 2.5", "12/100 loss: 2.5",
        "it: 12 loss: 2.5", "Iter 12, loss 2.5", "iteration 12 of 100, loss 2.5", "batch 12: loss 2.5",
        "global_step=12 loss=2.5", "globalStep: 12, trainLoss: 2.5", "train/step 12 train/loss 2.5",
        "train_step=12 train_loss=2.5", "loss 2.5 step 12", "loss: 2.5; step: 12", "{'step': 12, 'loss': 2.5}",
        "{'step': '12', 'loss': '2.5'}", R"({"iter": 12, "loss": 2.5})", R"({"loss":2.5,"step":12})",
        "step 12\\tloss 2.5", "  step   12   loss   2.5  ", "INFO:root:step 12 loss 2.5",
        "2025-03-04 12:00:01,123 - INFO - step 12 - loss 2.5", "[2025/03/04 12:00:01] step 12 loss 2.5",
        "03/04 12:00:01 loss 2.5 step 12", "[rank0]: step 12 loss 2.5", "[rank 0] step 12 loss 2.5",
        "0: step 12 loss 2.5", "\\e[1;31mstep\\e[0m 12 \\e]0;title\\e\\loss 2.5", "step 12 loss 2.5e+00",
        "step 12 loss +2.5", "step 00012 loss 2.500000", "step 12 | training loss 2.5", "step 12 | total_loss 2.5",
        "step 12 | loss/train 2.5", "step 12 | avg_loss 2.5", "step 12 loss 2.5 (2.7)", "step 12 (12.00%) loss 2.5",
        "12%|#2   | 12/100 [00:05<00:37, 2.37it/s, loss=2.5]",
        "train: 12%|█▏   | 12/100 [00:05<00:37, 2.37s/it, loss=2.5, lr=0.1]", "12it [00:05, 2.37it/s, loss=2.5]",
        "Epoch 1 step 12 loss 2.5", "Epoch [1/10], Step [12/100], Loss: 2.5", "epoch 12 loss 2.5",
        "epoch 12/100, loss 2.5", "update 12 loss 2.5", "iter_num 12 loss 2.5", "step 12 · loss 2.5",
        "step 12 → loss 2.5", "step 12 the loss is 2.5",
        // Other numbers beside it.
        "step 12 loss_scale 65536 loss 2.5", "step 12 z_loss 0.1 loss 2.5 aux_loss 0.2",
        "step 12 moving loss 2.7 loss 2.5 avg loss 2.6", "step 12 grad norm 1.5 loss 2.5", "lr 6e-4 step 12 loss 2.5",
        "step 12 loss 2.5 lr 6e-4 epoch 3", "Step 12, Minibatch Loss= 2.5, Accuracy= 0.1",
        "step 12 loss scale: 1.0 | loss: 2.5", "step 12 acc 45% loss 2.5 | loss 50%",
        "step 12 loss 2.5 max_steps 100 eval_every 10", "step 12 loss 2.5, best step 3",
        "batch 7 iter 8 step 12 loss 2.5", "batch_size=64 step=12 loss=2.5", "step 12 loss 2.5 val_acc 0.3",
        "step 12 val_acc 0.3 loss 2.5", "/home/me/test/train.py:7 step 12 loss 2.5",
        "torch 2.11.0 on 10.0.0.1:80 step 12 loss 2.5", "step 12 loss 2.5 7f3a9c1",
        "step 12 perplexity 12.18 loss 2.5 ppl 12.18", "warmup steps 5 step 12 loss 2.5",
        // By other names, in other forms.
        "step 12 train loss 2.5 val loss 2.6", "Epoch 12, train_loss=2.5, val_loss=2.6", "step 12 nll 2.5",
        "step 12 xent: 2.5", "step 12 train/CrossEntropyLoss=2.5", "step 12 reduced_train_loss=2.5",
        "step 12 NLLLoss 2.5", "step 12 mse 2.5", "iter 12, objective = 2.5",
        "step 12 loss tensor(2.5, grad_fn=<NllLossBackward0>)", "step 12 perplexity 2.5",
        "step 12 loss: Array(2.5, dtype=float32)", "{'step': 12, 'loss': np.float32(2.5)}", "iter 0.012k loss 2.5",
        "time=2026-11-28T03:04:05Z level=info msg=\"step\" step=12 loss=2.5", "Loss_D: 2.5 Loss_G: 3.1 [12/100]",
        "Round 12: train cost 2.5", "Loss at step 12: 2.5", "step 12 cross entropy 2.5",
        "step 12 train_loss 2.5 val_loss nan"));

// What is no step line, or one of a validation.
class Others : public testing::TestWithParam<const char*> {};

TEST_P(Others, AreNoSteps) { EXPECT_EQ(losses(unescaped(GetParam())), ""); }

INSTANTIATE_TEST_SUITE_P(
    Lines, Others,
    testing::Values("", "\\r", "loss", "loss: cross_entropy", "step", "steps to go", "2.5", "12/100", "12%", "loss 50%",
                    "loss_scale 65536", "z_loss 0.1", "aux_loss=0.1", "loss weight 0.1", "val loss 2.5",
                    "val_loss: 2.5", "step 12 val loss 2.5", "step 12 | validation loss 2.5", "step 12 eval_loss 2.5",
                    "Validation step 12 loss 2.5", "validate step: 12 loss: 2.5", "Validation: loss 2.5",
                    "test loss 2.5", "Test: [12/100] loss 2.5", "step 12 test/loss 2.5", "eval/loss 2.5 step 12",
                    "Evaluating: 12%|#2   | 12/100 [00:05<00:37, 2.37it/s, loss=2.5]", "Evaluation: step 12 loss 2.5",
                    "{'eval_loss': 2.5, 'epoch': 1.0}", "max_steps 100", "warmup_steps=5", "12 steps per second",
                    "saving checkpoint at step 12", "tokens per step: 12", "epoch 12", "correct 45/100",
                    "2025-03-04 12:00:01"));

TEST(StepReader, ReadsLargeNumbersAndOddLosses) {
  EXPECT_EQ(losses("step 1,000/10,000 loss 1,234.5\nstep 1,001/10,000 loss .5\nstep 1002/10000 loss 2.\nstep "
                   "1003/10000 loss -1e-3\n"),
            "1000 1234.5, 1001 0.5, 1002 2, 1003 -0.001");
  EXPECT_EQ(losses("step 1 loss nan\nstep 2 loss: NaN\nstep 3 loss=inf\nstep 4 loss -inf\nstep 5 loss: Infinity\n"
                   "step 6 loss 1e999\nstep 7 loss 1e-999\n"),
            "1 nan, 2 nan, 3 inf, 4 -inf, 5 inf, 6 inf, 7 0");
  // With a decimal comma. In a list, and before three digits, a comma is none.
  EXPECT_EQ(losses("step 1 loss 3,9876\nstep 2 loss 3,1, acc 0,95\nstep 3 loss 0,123\nstep 4 loss 2,5e-1\n"),
            "1 3.9876, 2 3.1, 3 0.123, 4 0.25");
  EXPECT_EQ(losses("step 5 [1,2,3] loss 2,5\nstep 6,0.5 loss 2,25\n"), "5 2.5, 6 2.25");
  const auto has_commas = [](std::string_view text) { return std::ranges::any_of(steps_in(text), &StepLine::comma); };
  EXPECT_TRUE(has_commas("step 1 loss 12,345\nstep 2 loss 1,234.5\nstep 3 loss 2\n"));
  EXPECT_FALSE(has_commas("step 1,000 loss 1,234.5\nstep 1,001 loss 0,950 12,345 tok/s\n"));
  EXPECT_EQ(losses("step 99999999999999999999 loss 1\nstep 1.5 loss 2"), "0 1, 1 2");  // no step numbers
  EXPECT_EQ(said(steps_in("step 1 loss 2 12.5 s 170K tok/s\nstep 2 loss 1, step time 0.5s, 1.5M tokens/sec\nstep 3 "
                          "loss 0 perf/tokens_per_sec 9")),
            "1 2 170000 - | 2 1 1500000 500 | 3 0 9 -");
}

TEST(StepReader, EndsLinesAtBothEnds) {
  EXPECT_EQ(losses("step 1 loss 3\r\nstep 2 loss 2\rstep 3 loss 1\n\n\rstep 4 loss 0"), "1 3, 2 2, 3 1, 4 0");
  LineSplitter lines;
  EXPECT_TRUE(lines.take(0, "step 1 lo", 1).empty());
  EXPECT_EQ(lines.take(1, "a warning\n", 2).size(), 1U);  // the other stream
  EXPECT_TRUE(lines.take(0, "ss 3", 3).empty());
  const auto ended = lines.take(0, "\n", 9);  // a bar's line ends when it is redrawn
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].text, "step 1 loss 3");
  EXPECT_EQ(ended[0].seconds, 3);
  EXPECT_EQ(lines.take(0, "step 2 loss 2\nstep 3 loss 1", 10).size(), 1U);
  EXPECT_EQ(lines.end().at(0).seconds, 10);
}

TEST(StepReader, CountsAStepOnce) {
  EXPECT_EQ(losses("step 1 loss 3\nstep 1 loss 3.5\nstep 2 loss 2\nstep 1 loss 9\nstep 3 loss 1\n"), "1 3, 2 2, 3 1");
  // A bar and a log of the same steps, in either order.
  std::string log_first, bar_first;
  for (int step = 1; step <= 9; ++step) {
    const std::string bar = fmt::format("\r{0}/9 [00:01<00:01, 1it/s, loss={1}.5]", step, step);
    const std::string log = fmt::format("\nstep {} train loss {}.25\n", step, step);
    log_first += log + bar;
    bar_first += bar + log;
  }
  EXPECT_EQ(losses(log_first), "1 1.25, 2 2.25, 3 3.25, 4 4.25, 5 5.25, 6 6.25, 7 7.25, 8 8.25, 9 9.25");
  EXPECT_EQ(losses(bar_first), losses(log_first));
}

TEST(StepReader, DecidesFromAllLines) {
  // A remark before or after does not decide; nor do bars that load something.
  EXPECT_EQ(losses("iter 7 loss 9\nstep 1 loss 4\nstep 2 loss 3\nstep 3 loss 2\n"), "1 4, 2 3, 3 2");
  EXPECT_EQ(
      losses("loading: 50%|# | 1/2 [0:01<0:01]\rloading: 100%|##| 2/2 [0:01<0:01]\nstep 1 loss 3\nfinal loss 9\n"),
      "1 3");
  EXPECT_EQ(losses("step 1 lr 1\nstep 2 lr 1\nfinal loss 9\n"), "1 -, 2 -");
  EXPECT_EQ(losses("steps: 100\nstep 1 loss 3\nstep 2 loss 2\n"), "1 3, 2 2");
  // An evaluation's loss of the training is one only where there is no other.
  EXPECT_EQ(losses("iter 1: loss 3\nstep 1: train loss 3.5, val loss 4\niter 2: loss 2\n"), "1 3, 2 2");
}

// So many lines as show how a number grows.
std::string lines_of(const std::function<std::string(int)>& line, int lines = 8) {
  std::string text;
  for (int i = 1; i <= lines; ++i) text += line(i);
  return text;
}

TEST(StepReader, FindsTheNumberThatGrowsByAConstant) {
  // The i-th line, its tenfold, a hundredfold, two thousandfold and what is before it; the first step and the eighth.
  for (const auto& [line, expected] :
       {std::pair{"[1, {thousands}] loss: {i}.5\n", "2000 1.5 - - 16000 8.5 - -"},
        {"I1128 03:04:05.6 1400123 writer.py:48] [{hundreds}] acc=0.5, loss={i}.5\n", "100 1.5 - - 800 8.5 - -"},
        {"done with {tens} of it, nll {i}.5\n", "10 1.5 - - 80 8.5 - -"},
        {"[{before}]\ttrain-logloss:{i}.5\ttest-logloss:{i}.7\n", "0 1.5 - - 7 8.5 - -"},
        {"[{i}]\tlearn's l2: {i}.5\tcheck's l2: {i}.7\n", "1 1.5 - - 8 8.5 - -"},
        {"{i}:\tlearn: {i}.5\ttest: {i}.7\tbest: 1.5 ({i})\ttotal: {tens}ms\n", "1 1.5 - - 8 8.5 - -"},
        {"Cost after iteration {hundreds}: {i}.5\n", "100 1.5 - - 800 8.5 - -"},
        {"Ep. 1 : Up. {i} : Sen. {i},234 : Cost {i}.5 * 1,234 : Time 0.02s\n", "1 1.5 - 20 8 8.5 - 20"}}) {
    const std::vector<StepLine> all = steps_in(lines_of([&](int i) {
      return fmt::format(fmt::runtime(line), fmt::arg("i", i), fmt::arg("before", i - 1), fmt::arg("tens", 10 * i),
                         fmt::arg("hundreds", 100 * i), fmt::arg("thousands", 2000 * i));
    }));
    EXPECT_EQ(said(all.at(0)) + " " + said(all.back()), expected) << line;
  }
  // Neither a clock nor a size grows so.
  EXPECT_EQ(format_in(lines_of([](int i) { return fmt::format("ts {} lr 1 loss {}.5\n", 1764300000 + i, i); })).unit,
            "line");
  EXPECT_EQ(format_in(lines_of([](int i) { return fmt::format("mem {} loss {}.5\n", 100 + i, i); })).unit, "line");
  // Samples are no steps, and a percentage counts where nothing else does.
  const std::string samples =
      lines_of([](int i) { return fmt::format("Train Epoch: 1 [{}/60000 ({}%)] Loss: {}.5\n", 640 * i, i, i); });
  EXPECT_EQ(format_in(samples).unit, "sample");
  EXPECT_EQ(losses(samples).substr(0, 8), "640 1.5,");
  const std::string percentage =
      lines_of([](int i) { return fmt::format("\rProgress: {}.5% words/sec: 12 avg.loss: {}.5", i, i); });
  EXPECT_EQ(format_in(percentage).unit, "0.1 %");
  EXPECT_EQ(losses(percentage).substr(0, 7), "15 1.5,");
}

TEST(StepReader, ReadsTables) {
  EXPECT_EQ(losses("step,lr,loss\n1,0.1,2.5\n2,0.1,2.25\n"), "1 2.5, 2 2.25");
  EXPECT_EQ(
      losses("E    #       LOSS TEXT    SCORE\n---  ------  -----------  -----\n" +
             lines_of([](int i) { return fmt::format("{:3d} {:7d} {:13.2f}    0.54\n", 0, 200 * i, i + 0.5); }, 4)),
      "200 1.5, 400 2.5, 600 3.5, 800 4.5");
  EXPECT_EQ(losses("| step | loss | lr |\n|---|---|---|\n| 1 | 2.5 | 0.1 |\n| 2 | 2.25 | 0.1 |\n"), "1 2.5, 2 2.25");
  // Lines of one step: its number, then its loss.
  EXPECT_EQ(losses(lines_of(
                [](int i) { return fmt::format("| iterations | {} |\n| fps | 900 |\n| loss | {}.5 |\n", i, i); }, 3)),
            "1 1.5, 2 2.5, 3 3.5");
  EXPECT_EQ(losses(lines_of(
                [](int i) {
                  return fmt::format("[batch={}/800]:\n\t Train time/batch: {}\n\t Train loss/train/total: {}.5\n",
                                     10 * i, i, i);
                },
                4)),
            "10 1.5, 20 2.5, 30 3.5, 40 4.5");
  EXPECT_EQ(
      losses(lines_of(
          [](int i) { return fmt::format("Epoch {}/80\n40/40 - 0s - 5ms/step - loss: {}.5 - val_loss: 3\n", i, i); },
          5)),
      "1 1.5, 2 2.5, 3 3.5, 4 4.5, 5 5.5");
}

// A bar counts every step, and the log beside it has the loss of some.
TEST(StepReader, TakesTheFinerNumber) {
  const std::string text = lines_of(
      [](int i) {
        return fmt::format("\r{}%|##  | {}/800 [00:01<00:09, 9.90it/s]", i / 8, i) +
               (i % 5 == 0 ? fmt::format("\n{{'loss': {}.5, 'lr': 4e-05, 'epoch': 0.02}}\n", i) : "");
      },
      20);
  const std::vector<StepLine> steps = steps_in(text);
  ASSERT_EQ(steps.size(), 20U);
  EXPECT_EQ(steps[4].loss, 5.5);
  EXPECT_FALSE(steps[5].loss);
}

TEST(StepReader, TakesOneRank) {
  const auto rank = [](int i, int of, const char* tag) { return fmt::format("{}step {} loss {}.{}\n", tag, i, i, of); };
  const auto of_two = [&](const char* first, const char* second, bool swaps) {
    return lines_of([&](int i) {
      return swaps && i % 2 == 0 ? rank(i, 7, second) + rank(i, 5, first) : rank(i, 5, first) + rank(i, 7, second);
    });
  };
  const std::string right = "1 1.5, 2 2.5, 3 3.5, 4 4.5, 5 5.5, 6 6.5, 7 7.5, 8 8.5";
  for (const bool swaps : {false, true}) {
    EXPECT_EQ(losses(of_two("[rank0]: ", "[rank1]: ", swaps)), right);
    EXPECT_EQ(losses(of_two("[default0]:", "[default1]:", swaps)), right);
    EXPECT_EQ(losses(of_two("0: ", "1: ", swaps)), right);
    EXPECT_EQ(losses(of_two("[1,0]<stdout>: ", "[1,1]<stdout>: ", swaps)), right);
    EXPECT_EQ(losses(of_two("", "", swaps)), right);
  }
}

TEST(StepReader, CountsOnFromOneEpochToTheNext) {
  EXPECT_EQ(
      losses("epoch 0 step 0/3 loss 9\nepoch 0 step 2/3 loss 8\nepoch 1 step 0/3 loss 7\nepoch 1 step 1/3 loss 6\n"),
      "0 9, 2 8, 3 7, 4 6");
  EXPECT_EQ(losses("epoch 1 step 1 loss 9\nepoch 1 step 2 loss 8\nepoch 2 step 1 loss 7\n"), "1 9, 2 8, 3 7");
  EXPECT_EQ(losses("epoch 1 [3/3] loss 9\nepoch 2 [3/3] loss 8\n"),
            "1 9, 2 8");  // of a bar that is always full its epoch counts
  EXPECT_EQ(losses("epoch 1 step 5 loss 9\nepoch 2 step 6 loss 8\n"), "5 9, 6 8");  // they count on themselves
}

// As tqdm does: the number is drawn before its loss is known.
TEST(StepReader, WaitsForTheNewLossOfABar) {
  StepReader reader(format_in("1/9 [0:01, 1it/s, loss=3.5]\r2/9 [0:01, 1it/s, loss=2.5]\r"));
  const auto take = [&](const char* text, double seconds) {
    return reader.take(LogLine{.text = text, .seconds = seconds});
  };
  EXPECT_EQ(said(take("1/9 [0:01, loss=3.5]", 1)), "1 3.5 - -");
  EXPECT_EQ(said(take("2/9 [0:01, loss=3.5]", 2)), "");
  const auto second = take("2/9 [0:01, loss=2.5]", 3);
  EXPECT_EQ(said(second), "2 2.5 - -");
  EXPECT_EQ(second.at(0).seconds, 3);
  EXPECT_EQ(said(take("3/9 [0:01, loss=2.5]", 4)), "");
  const auto fourth = take("4/9 [0:01, loss=1.5]", 5);  // the loss of step 3 really was that of step 2
  EXPECT_EQ(said(fourth), "3 2.5 - - | 4 1.5 - -");
  EXPECT_EQ(fourth.at(0).seconds, 4);
  EXPECT_EQ(said(take("5/9 [0:01, loss=1.5]", 6)), "");
  EXPECT_EQ(said(reader.end()), "5 1.5 - -");
}

TEST(StepReader, ShowsShapes) {
  TrialLines trial;
  EXPECT_FALSE(trial.learned());
  trial.take(0, "loaded 12 files\niter 10: loss 3.1234, time 123.45ms\nloaded 1,234 files\n\x1b[2J\xff\xfeodd\n", 1);
  EXPECT_EQ(trial.learned().value().format.value().shape, "iter STEP: loss LOSS, time Nms");
  const auto shapes = trial.frequent_shapes();
  ASSERT_EQ(shapes.size(), 3U);
  EXPECT_EQ(shapes[0].shape, "loaded N files");
  EXPECT_EQ(shapes[0].count, 2);
  EXPECT_EQ(shapes[2].shape, "\\xff\\xfeodd");
  EXPECT_EQ(trial.frequent_shapes(1).size(), 1U);
  EXPECT_EQ(format_in("loss 3.1\nloss 2.9\n").shape, "each line a step: loss LOSS");
}

// What it proposes finds the step and the loss of the line that it was made from.
TEST(StepReader, ProposesARegularExpression) {
  for (const char* line : {"u 12 -> value 2.5 (0.1 s)", "  [12] a.b|c=2.5", "x's 12: 2.5", "12: 2,5, 3",
                           "a \x91"
                           "12 b 2.5",
                           "12\u2192 2.5", "2.5 | 12"}) {
    const std::string pattern = harness::pattern_for(line);
    EXPECT_EQ(losses(std::string(line) + "\n", pattern), "12 2.5") << line << " by " << pattern;
    EXPECT_EQ(pattern.find('\''), std::string::npos);
  }
  EXPECT_EQ(harness::pattern_for("no number"), "");
}

size_t resident_bytes() {
  size_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(StepReader, NeedsLittleMemory) {
  TrialLines reader;
  reader.take(0, "a line\na line\nstep 1 loss 9\n", 1);
  const size_t before = resident_bytes();
  const std::string block(1 << 20, 'x');
  for (int i = 0; i < 1000; ++i) reader.take(0, block, 1);  // a line of 1 GB
  for (int i = 0; i < 50'000; ++i) {                        // as many shapes
    std::string word;
    for (int rest = i; rest > 0; rest /= 26) word += static_cast<char>('a' + rest % 26);
    reader.take(1, std::string(1000, '!') + word + "\n" + word + "\na line\n", 1);
  }
  EXPECT_LT(resident_bytes(), before + (32 << 20));
  EXPECT_EQ(reader.frequent_shapes(1).at(0).shape, "a line");
  EXPECT_EQ(losses(std::string(4096 - 13, ' ') + "step 1 loss 3"), "1 3");
  EXPECT_EQ(losses(std::string(4096 - 12, ' ') + "step 1 loss 3"), "1 -");  // cut
}

TEST(StepReader, TakesARegularExpression) {
  const std::string pattern = R"(^\[(?P<step>[\d,]+)\] L=(?P<loss>\S+)(?: (?P<tokens_per_s>\d+) t)?)";
  const std::string text = "step 1 loss 9\n[1,000] L=2.5 77 t\n[1,001] L=nan\n[1,002] L=-inf\n[1,003] L=odd\n";
  EXPECT_EQ(said(steps_in(text, pattern)), "1000 2.5 77 - | 1001 nan - - | 1002 -inf - -");
  EXPECT_EQ(losses("val 3\nval 2\n", "val (?P<loss>.*)"), "0 3, 1 2");
  EXPECT_EQ(losses("at 3\nat 4\nat 4\n", "at (?P<step>.*)"), "3 -, 4 -");
  EXPECT_EQ(losses("epoch 1\n1 loss\n2 loss\nepoch 2\n1 loss\n", R"(^(?P<step>\d+) loss)"), "1 -, 2 -, 3 -");
  EXPECT_EQ(losses(std::string(4000, 'a') + "\n", "^(a+)+(?P<step>x)$"), "");  // exponential time, were there no limit
  EXPECT_EQ(losses("\xff step 7\n", "\xff step (?P<step>.*)"), "7 -");
  for (const char* bad : {"(", "loss (.*)", "(?P<lass>.*)", "(?P<step>"}) {
    EXPECT_THROW(TrialLines{bad}, std::invalid_argument) << bad;
  }
}

}  // namespace step_reader_test

namespace step_pace_test {

using harness::Pace;
using harness::StepLine;
using harness::StepWindow;

TEST(StepMs, OfALineIsItsIntervalOverItsSteps) {
  EXPECT_EQ(harness::step_ms_of({0, 1, 11}, {1.0, 1.5, 2.5}), (std::vector<double>{500, 100}));
  EXPECT_TRUE(harness::step_ms_of({7}, {1.0}).empty());
}

TEST(StepMs, OfLinesOfOneReadIsTheMeanSinceTheReadBefore) {
  EXPECT_EQ(harness::step_ms_of({0, 1, 2, 3, 4, 5}, {1, 1, 2, 2, 2, 2.5}),
            (std::vector<double>{harness::least_step_ms, 1000.0 / 3, 1000.0 / 3, 1000.0 / 3, 500}));
}

std::vector<StepLine> lines_at(const std::vector<double>& seconds, bool numbered = true) {
  std::vector<StepLine> lines;
  for (const double one : seconds) lines.push_back({.seconds = one, .step = std::ssize(lines), .numbered = numbered});
  return lines;
}

TEST(StepPace, SeesBurstsAndClocks) {
  std::vector<double> even, bursts, clock, pauses;
  for (int i = 0; i < 60; ++i) {
    even.push_back(0.02 * i + (i % 3) * 1e-4);
    bursts.push_back(0.25 * (i / 10) + 1e-5 * (i % 10));
    clock.push_back(0.1 * i + (i % 2) * 2e-4);
    pauses.push_back(0.02 * i + 0.5 * (i / 20));
  }
  EXPECT_FALSE(harness::pace_of(lines_at(even)).pace.has_all());
  EXPECT_FALSE(harness::pace_of(lines_at(pauses)).pace.has_all());
  EXPECT_EQ(harness::pace_of(lines_at(pauses)).doubt, "");
  EXPECT_GT(harness::pace_of(lines_at(bursts)).pace.burst_s, 0);
  EXPECT_TRUE(harness::pace_of(lines_at({bursts.begin(), bursts.begin() + 20})).needs_more);
  EXPECT_NE(harness::pace_of(lines_at(clock, /*numbered=*/false)).doubt.find("every 100 ms"), std::string::npos);
  EXPECT_FALSE(harness::pace_of(lines_at(clock)).pace.has_all()) << "one step a tick is a step of 100 ms";
}

TEST(StepPace, JoinsPiecesOfABurstThatABusyMachineReadsLate) {
  const auto bursts = [](double late_s) {
    std::vector<double> seconds;
    for (int i = 0; i < 1000; ++i) seconds.push_back(0.2 * (i / 50) + (i % 50 < 30 ? 0 : late_s));
    return lines_at(seconds);
  };
  StepWindow window(5, 20, harness::pace_of(bursts(0)).pace, /*counts_lines=*/false);
  for (const StepLine& line : bursts(0.015)) window.take(line);
  for (const double ms : window.timed_ms()) EXPECT_NEAR(ms, 4, 1e-9);
}

TEST(StepWindow, BeginsAndEndsWithABurst) {
  StepWindow window(5, 20, Pace{.burst_s = 0.01}, /*counts_lines=*/false);
  int i = 0;
  for (; !window.is_full() && i < 1000; ++i) window.take({.seconds = 0.25 * (i / 10) + 1e-5 * (i % 10), .step = i});
  EXPECT_EQ(window.lines()[window.first_timed()].step, 9);
  EXPECT_EQ(window.lines().back().step, 89);  // eight bursts
  for (const double ms : window.timed_ms()) EXPECT_NEAR(ms, 25, 1e-9);
  StepWindow blocks(5, 20, Pace{.block_s = 1}, /*counts_lines=*/false);
  for (i = 0; !blocks.is_full() && i < 1000; ++i) blocks.take({.seconds = 0.1 * (i * 3 / 4), .step = i});
  for (const double ms : blocks.timed_ms()) EXPECT_NEAR(ms, 75, 8);
  StepWindow samples(5, 20, Pace{}, /*counts_lines=*/true);
  for (i = 0; !samples.is_full() && i < 1000; ++i) samples.take({.seconds = 0.1 * i, .step = 640 * i});
  EXPECT_EQ(samples.lines().back().step, 640 * 25);
}

}  // namespace step_pace_test
