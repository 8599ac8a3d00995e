// What the words before a number say that it is. A name is evidence, not a rule: step_format.h decides by what the
// number does, too.
// A key has these words in small letters, with a blank on each side of each: " train loss ".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace harness {

// "train/loss_step", "trainLossStep": adds " train loss step ". A word that is there twice in a row is there once.
void add_words(std::string& key, std::string_view text);

// 0: no loss. Higher ones are more like the loss of a step: a loss, one of several, another objective, its exponential.
int loss_rank(std::string_view key);
// 0: no step. Higher ones are more like an optimizer's: step, iteration, batch.
int step_rank(std::string_view key);
// A word of steps is in it, beside others that are not known: "finished step".
bool has_step_word(std::string_view key);
bool is_epoch(std::string_view key);
bool is_rank(std::string_view key);  // of a process: "rank", "worker"
bool is_validation(std::string_view key);
bool counts_samples(std::string_view key);  // or tokens, bytes, ...
bool is_no_counter(std::string_view key);   // a time, a rate, a size, although it may grow
bool is_data_bar(std::string_view key);     // a bar of what comes before a training: "loading", "map"

// "tokens/s", "tok per sec per gpu", "train tokens per second", "tps".
bool is_token_rate(std::string_view key);
// Milliseconds that a step took, if that is what it says. `unit`: the words behind the number.
std::optional<double> step_ms(std::string_view key, std::string_view unit, double value);

}  // namespace harness
