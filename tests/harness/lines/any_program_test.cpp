// Random programs whose time per step is known: what they print, how often, what they do between, and what stands
// between them and the reader. The reader may refuse one. It may not tell a wrong time.
#include "harness/lines/step_pace.h"
#include "harness/lines/step_reader.h"
#include "harness/stats/stats.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace any_program_test {

using harness::StepLine;

struct State {
  int64_t step = 1, epoch = 0, of_epoch = 1, epoch_steps = 100;  // step and of_epoch from 1
  double loss = 3, ms = 20, share = 0;                           // share: of the whole training
  int64_t every = 1;                                             // steps from line to line
};

// What it prints of a step, and what it counts in that.
struct Style {
  const char* name;
  std::function<std::string(const State&)> line;
  std::string heading = "";
  double units = 1;        // of what it counts, in one step
  bool is_bar = false;     // a thread may draw it
  bool has_ranks = false;  // several processes may print it
  bool counts = true;      // else its lines are the steps
  bool drawn = false;      // always by a thread
};

const std::vector<Style>& styles() {
  static const std::vector<Style> all{
      {"plain", [](const State& s) { return fmt::format("step {} loss {:.4f}\n", s.step, s.loss); }, "", 1, false,
       true},
      {"own time",
       [](const State& s) { return fmt::format("iter {}: loss {:.4f}, time {:.2f}ms\n", s.step, s.loss, s.ms); }, "", 1,
       false, true},
      {"epoch and batch",
       [](const State& s) {
         return fmt::format("Epoch {} [{}/{}] loss: {:.4f}\n", s.epoch, s.of_epoch, s.epoch_steps, s.loss);
       }},
      {"brackets",
       [](const State& s) { return fmt::format("[{}, {:5d}] loss: {:.3f}\n", s.epoch + 1, s.of_epoch, s.loss); }},
      {"logger",
       [](const State& s) {
         return fmt::format("I1128 03:04:05.678901 140012345678 writer.py:48] [{}] accuracy=0.1234, loss={:.5f}\n",
                            s.step, s.loss);
       }},
      {"verb", [](const State& s) { return fmt::format("finished step {} cost {:.4f}\n", s.step, s.loss); }, "", 1,
       false, true},
      {"round", [](const State& s) { return fmt::format("Round {}: train nll {:.4f}\n", s.step, s.loss); }},
      {"csv", [](const State& s) { return fmt::format("{},0.001,{:.4f}\n", s.step, s.loss); }, "step,lr,loss\n"},
      {"table", [](const State& s) { return fmt::format("{:3d} {:7d} {:13.2f}    0.54\n", s.epoch, s.step, s.loss); },
       "E    #       LOSS TEXT    SCORE\n---  ------  -----------  -----\n"},
      {"markdown", [](const State& s) { return fmt::format("| {} | {:.4f} | 0.1 |\n", s.step, s.loss); },
       "| step | loss | lr |\n|---|---|---|\n"},
      {"block",
       [](const State& s) {
         return fmt::format(
             "----------\n| rollout/ | |\n| ep_len | {} |\n| iterations | {} |\n| train/ | |\n| loss | {:.3f} "
             "|\n----------\n",
             20 + s.step % 7, s.step, s.loss);
       }},
      {"two lines",
       [](const State& s) {
         return fmt::format("[batch={}/{}]:\n\t Train loss/train/total: {:.4f}\n", s.step, 100000, s.loss);
       }},
      {"bar with loss",
       [](const State& s) {
         return fmt::format("\rEpoch {}: {}%|##   | {}/{} [00:01<00:09, 9.90it/s, loss={:.3f}]", s.epoch,
                            100 * s.of_epoch / s.epoch_steps, s.of_epoch, s.epoch_steps, s.loss);
       },
       "", 1, true},
      {"bar and dictionary",
       [](const State& s) {
         std::string text = fmt::format("\r{}%|##   | {}/100000 [00:01<00:09, 9.90it/s]", s.step / 1000, s.step);
         if (s.step % 10 == 0) text += fmt::format("\n{{'loss': {:.3f}, 'lr': 4e-05, 'epoch': 0.02}}\n", s.loss);
         return text;
       },
       "", 1, true},
      {"bar without loss",
       [](const State& s) {
         return fmt::format("\r\x1b[2KEpoch {}/19 ━━━━╸━━━━━ {}/{} 0:00:00 • 0:00:01 98.76it/s v_num: 0.000", s.epoch,
                            s.of_epoch, s.epoch_steps);
       },
       "", 1, true},
      {"boosting",
       [](const State& s) {
         return fmt::format("[{}]\ttrain-logloss:{:.5f}\ttest-logloss:{:.5f}\n", s.step, s.loss, s.loss + 0.1);
       }},
      {"learn",
       [](const State& s) {
         return fmt::format("{}:\tlearn: {:.7f}\ttest: {:.7f}\tbest: {:.7f} ({})\ttotal: {}ms\tremaining: 1.2s\n",
                            s.step, s.loss, s.loss + 0.1, s.loss, s.step,
                            static_cast<int64_t>(s.ms * static_cast<double>(s.step)));
       }},
      {"train and val",
       [](const State& s) {
         return fmt::format("Epoch {}, train_loss={:.4f}, val_loss={:.4f}\n", s.step, s.loss, s.loss + 0.1);
       }},
      {"epoch heading",
       [](const State& s) {
         return fmt::format("Epoch {}/8000\n40/40 - 0s - 5ms/step - loss: {:.4f} - val_loss: {:.4f}\n", s.step, s.loss,
                            s.loss + 0.1);
       }},
      {"json",
       [](const State& s) { return fmt::format("{{\"step\":{},\"loss\":{:.4f},\"lr\":0.001}}\n", s.step, s.loss); }, "",
       1, false, true},
      {"logfmt",
       [](const State& s) {
         return fmt::format("time=2026-11-28T03:04:05Z level=info msg=\"step\" step={} loss={:.4f}\n", s.step, s.loss);
       }},
      {"thousands", [](const State& s) { return fmt::format("iter {}k loss {:.4f}\n", 10 * s.step, s.loss); }, "",
       10000},
      {"cost after", [](const State& s) { return fmt::format("Cost after iteration {}: {:.4f}\n", s.step, s.loss); }},
      {"colon",
       [](const State& s) {
         return fmt::format("{}: {:.6f}, {:.6f} avg, 0.001000 rate, 0.020000 seconds, {} images\n", s.step, s.loss,
                            s.loss, 64 * s.step);
       }},
      {"epoch and update",
       [](const State& s) {
         return fmt::format(
             "[2026-11-28 03:04:05] Ep. {} : Up. {} : Sen. {:},234 : Cost {:.8f} * 1,234 : 1234.56 words/s\n",
             s.epoch + 1, s.step, s.step, s.loss);
       }},
      {"samples",
       [](const State& s) {
         return fmt::format("Train Epoch: {} [{}/{} ({}%)]\tLoss: {:.6f}\n", s.epoch, 64 * (s.of_epoch - 1),
                            64 * s.epoch_steps, 100 * s.of_epoch / s.epoch_steps, s.loss);
       },
       "", 64},
      {"two losses",
       [](const State& s) {
         return fmt::format("[{}/20][{}/{}] Loss_D: {:.4f} Loss_G: {:.4f} D(x): 0.5\n", s.epoch, s.of_epoch,
                            s.epoch_steps, s.loss, s.loss / 2);
       }},
      {"detector",
       [](const State& s) {
         return fmt::format(
             "\r\x1b[K{:8d}/20         0G      {:.3f}      1.268       1.14          8         64: {}% ━━─ {}/{} "
             "13.4it/s 2.2s<0.6s",
             s.epoch + 1, s.loss, 100 * s.of_epoch / s.epoch_steps, s.of_epoch, s.epoch_steps);
       },
       "", 1, true},
      {"loss only", [](const State& s) { return fmt::format("loss: {:.4f}\n", s.loss); }, "", 1, false, false, false},
      {"percentage",
       [](const State& s) {
         return fmt::format("\rProgress: {:5.1f}% words/sec/thread: 12345 lr: 0.05 avg.loss: {:.6f} ETA: 0h 0m 1s",
                            100 * s.share, s.loss);
       },
       "", 0, true, false, true, true},
  };
  return all;
}

struct Event {
  double seconds = 0;
  int stream = 0;
  std::string bytes;
};

struct Program {
  const Style* style = nullptr;
  double step_s = 0, jitter = 0.05;
  int64_t every = 1, epoch_steps = 100;
  int64_t eval_every = 0;  // steps; 0: no evaluation
  double eval_s = 0;
  bool eval_prints = true;
  double flush_s = 0;       // a collector hands lines on so often; 0: at once
  int64_t flush_lines = 0;  // or so many together
  double apart_s = 0;       // lines of a burst
  bool by_thread = false;   // a bar is drawn every 100 ms
  int64_t ranks = 1;
  bool tells_rank = false;
  double share_of_step = 0;  // of the training
  int stream = 0;

  [[nodiscard]] double units() const { return style->units > 0 ? style->units : 1000 * share_of_step; }
  [[nodiscard]] std::string said() const {
    return fmt::format(
        "{}: {:.3g} ms, every {}, epochs of {}, evaluation {} steps {:.3g} s{}, flush {:.3g} s {} lines {:.2g} s "
        "apart, thread {}, ranks {}{}",
        style->name, 1000 * step_s, every, epoch_steps, eval_every, eval_s, eval_prints ? "" : " silent", flush_s,
        flush_lines, apart_s, by_thread, ranks, tells_rank ? " told" : "");
  }
};

class Random {
 public:
  explicit Random(uint64_t seed) : random_(seed) {}
  double between(double least, double most) {
    return least + (most - least) * std::generate_canonical<double, 53>(random_);
  }
  bool chance(double share) { return between(0, 1) < share; }
  int64_t one_of(std::vector<int64_t> values) { return values[random_() % values.size()]; }

 private:
  std::mt19937_64 random_;
};

Program program_of(uint64_t seed) {
  Random random(seed);
  Program program;
  program.style = &styles()[seed % styles().size()];
  program.step_s = std::exp(random.between(std::log(0.0004), std::log(0.25)));
  program.jitter = random.chance(0.3) ? 0.003 : 0.03;
  program.every = random.chance(0.5) ? 1 : random.one_of({2, 5, 10, 50});
  program.epoch_steps = program.every * random.one_of({25, 40, 1000});
  program.stream = random.chance(0.3) ? 1 : 0;
  program.share_of_step = std::min(0.01, program.step_s / 30);
  if (random.chance(0.3)) {
    program.eval_every = program.every * random.one_of({10, 20, 50});
    program.eval_s = program.step_s * static_cast<double>(program.every) * random.between(1, 12);
    program.eval_prints = random.chance(0.7);
  }
  const double way = random.between(0, 1);
  if (way < 0.12) program.flush_s = random.between(0.1, 0.5);
  if (way > 0.12 && way < 0.2) program.flush_lines = random.one_of({5, 20, 50});
  if (random.chance(0.7)) program.apart_s = random.between(2e-6, 1e-4);
  program.by_thread = program.style->drawn || (program.style->is_bar && random.chance(0.3));
  if (program.by_thread) program.every = 1;
  if (program.style->has_ranks && random.chance(0.3)) {
    program.ranks = random.one_of({2, 4});
    program.tells_rank = random.chance(0.5);
  }
  return program;
}

// What comes out of one run of it.
std::vector<Event> events_of(const Program& program, uint64_t seed, double seconds) {
  Random random(seed);
  std::vector<Event> printed{{0.5, 0, "config: batch_size 12, seed 1337\nloading data ...\n" + program.style->heading}};
  double now = 0.6, draw = 0.6;
  State state{.epoch_steps = program.epoch_steps, .ms = 1000 * program.step_s, .every = program.every};
  if (program.style == styles().data()) printed.front().bytes += "loaded 3 files\n";
  for (; now < seconds && printed.size() < 60000; ++state.step) {
    state.of_epoch = (state.step - 1) % program.epoch_steps + 1;
    state.epoch = (state.step - 1) / program.epoch_steps;
    const double begun = now;
    now += program.step_s * (1 + program.jitter * random.between(-1.7, 1.7));
    const State before = state;
    state.loss = 1 + 2 * std::exp(-static_cast<double>(state.step) / 400) + random.between(-0.05, 0.05);
    state.share = std::min(0.999, static_cast<double>(state.step) * program.share_of_step);
    if (program.by_thread) {
      for (; draw < now; draw += 0.1 + random.between(0, 3e-4)) {
        if (draw >= begun && before.step > 1) printed.push_back({draw, program.stream, program.style->line(before)});
      }
    } else if (state.step % program.every == 0) {
      for (int64_t rank = 0; rank < program.ranks; ++rank) {
        State of_rank = state;
        of_rank.loss += 0.01 * static_cast<double>(rank);
        const std::string tag = program.tells_rank ? fmt::format("[rank{}]: ", rank) : "";
        printed.push_back({now + program.step_s * random.between(0, program.ranks > 1 ? 0.05 : 1e-3), program.stream,
                           tag + program.style->line(of_rank)});
      }
    }
    if (program.eval_every > 0 && state.step % program.eval_every == 0) {
      now += program.eval_s;
      if (program.eval_prints)
        printed.push_back({now, program.stream, fmt::format("\nvalidation: loss {:.4f}\n", state.loss)});
    }
  }
  std::ranges::stable_sort(printed, {}, &Event::seconds);
  if (program.flush_s == 0 && program.flush_lines == 0) return printed;
  double last = 0;
  for (size_t i = 0; i < printed.size();) {  // what comes together
    size_t end = i + 1;
    double when = 0;
    if (program.flush_s > 0) {
      when = program.flush_s * std::ceil(printed[i].seconds / program.flush_s);
      while (end < printed.size() && printed[end].seconds <= when) ++end;
    } else {
      end = std::min(i + static_cast<size_t>(program.flush_lines), printed.size());
      when = printed[end - 1].seconds;
    }
    when = std::max(when, last);
    for (; i < end; ++i, when += program.apart_s) printed[i].seconds = when;
    last = when;
  }
  return printed;
}

constexpr int64_t warmup = 5, timed = 20;

// Milliseconds of what it counts, as a run of it is measured; none: refused.
struct Told {
  std::optional<double> ms;
  std::string why;
  bool has_all = false;  // with what the program does between its steps
  double window = 1;     // of what it counts
};
Told measured(const Program& program, uint64_t seed) {
  std::optional<harness::TrialLines::Learned> learned;
  harness::PaceFound pace;
  for (double trial_s = 0.6 + std::max(3.5, 40 * program.step_s * static_cast<double>(program.every)); trial_s < 200;
       trial_s *= 2) {
    harness::TrialLines trial;
    for (const Event& event : events_of(program, seed, trial_s)) trial.take(event.stream, event.bytes, event.seconds);
    learned = trial.learned();
    if (!learned) return {{}, "no step found"};
    pace = harness::pace_of(learned->steps);
    if (!pace.needs_more) break;
  }
  if (!pace.doubt.empty()) return {{}, pace.doubt};
  if (learned->format->unit == "line" && program.style->counts) return {{}, "counts lines: " + learned->format->shape};
  harness::StepReader reader(*learned->format);
  harness::StepWindow window(warmup, timed, pace.pace, /*counts_lines=*/false);
  harness::LineSplitter lines;
  const double run_s = 100 * program.step_s * static_cast<double>(program.every) + 60;
  for (const Event& event : events_of(program, seed + 1'000'000, run_s)) {
    for (const auto& line : lines.take(event.stream, event.bytes, event.seconds)) {
      for (const StepLine& step : reader.take(line)) window.take(step);
    }
    if (window.is_full()) break;
  }
  const std::string& shape = learned->format->shape;
  if (!window.is_full()) return {{}, fmt::format("too few lines: {} of [{}]", window.lines().size(), shape)};
  return {harness::median(window.timed_ms()),
          fmt::format("{} [{}] burst {:.3g} block {:.3g}", learned->format->unit, shape, pace.pace.burst_s,
                      pace.pace.block_s),
          pace.pace.has_all(),
          static_cast<double>(window.lines().back().step - window.lines()[window.first_timed()].step)};
}

TEST(AnyProgram, NeverTellsAWrongTime) {
  const char* const one = std::getenv("PROGRAM");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 0;
  int64_t right = 0, wrong = 0;
  std::map<std::string, int64_t> refused;
  const uint64_t programs = one != nullptr ? 1 : 2000;
  for (uint64_t seed = first; seed < first + programs; ++seed) {
    const Program program = program_of(seed);
    const Told told = measured(program, seed);
    if (!told.ms) {
      ++refused[program.style->name];
      if (std::getenv("REFUSED") != nullptr) fmt::print("{} refused {}: {}\n", seed, program.said(), told.why);
      continue;
    }
    const double truth =
        1000 * program.step_s / (program.style->counts ? program.units() : 1.0 / static_cast<double>(program.every));
    const double between =
        program.eval_every > 0 ? program.eval_s / static_cast<double>(program.eval_every) / program.step_s : 0;
    const bool may_have_all = told.has_all || program.by_thread;
    const double most = may_have_all
                            ? truth * (1 + between) + 1000 * program.eval_s * harness::least_intervals / told.window
                            : truth;  // one more in each
    const double off = *told.ms < truth ? *told.ms / truth - 1 : std::max(*told.ms / most - 1, 0.0);
    ++(std::abs(off) < 0.05 ? right : wrong);
    EXPECT_LT(std::abs(off), 0.05) << "PROGRAM=" << seed << " " << program.said() << "\n  told " << *told.ms
                                   << ", true " << truth << " to " << most << " by " << told.why;
  }
  int64_t refusals = 0;
  for (const auto& [name, times] : refused) refusals += times;
  fmt::print("{} right, {} wrong, {} refused\n", right, wrong, refusals);
  for (const auto& [name, times] : refused) fmt::print("  {:4} {}\n", times, name);
  EXPECT_TRUE(one != nullptr || right > 1600) << "most are read";
}

}  // namespace any_program_test
