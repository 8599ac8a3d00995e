// How a batch comes to be: the tokens of a step, and each one's successor.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/techniques.h"
#include "files/what_is.h"
#include "text/figures.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

constexpr int64_t token_bytes = 2;

std::string batches_in_words(const Observations::Batches& seen) {
  std::string words = fmt::format(
      "{} {} for {}, {}; {} made of text; {} of {}", seen.copies, seen.copies == 1 ? "copy" : "copies",
      number_of(seen.sequences, "sequence"), number_of(count(seen.operations, "aten::stack"), "stack"),
      number_of(seen.tokenized, "token"), number_of(seen.reads, "read"), number_of(seen.bytes_read, "byte"));
  words += seen.process_bytes_read ? fmt::format(", {} by the kernel's count", *seen.process_bytes_read)
                                   : ", which the kernel does not count";
  words += seen.mapping ? "; the file is mapped at 0x" + *seen.mapping : "; the file is not mapped";
  return words + fmt::format("; of {} {} {} by another thread, {} of them begun before they were asked for", seen.steps,
                             seen.steps == 1 ? "batch" : "batches", seen.by_a_thread, seen.ready);
}

Proof prove_batches(const Recipe& recipe, const RunFacts& facts) {
  if (!facts.observations.batches) return {"batches", false, "batches that were watched", "nobody watched them"};
  const Observations::Batches& seen = *facts.observations.batches;
  const auto process_read = [&](int64_t bytes) { return seen.process_bytes_read.value_or(bytes) >= bytes; };
  // Another thread may read a few bytes meanwhile.
  const bool nothing_read = seen.reads == 0 && seen.process_bytes_read.value_or(0) < token_bytes * seen.tokens;
  const bool nothing_made = seen.tokenized == 0;
  const bool one_by_one =
      seen.copies == seen.sequences && count(seen.operations, "aten::stack") == 2 * seen.micro_steps;
  const bool in_one_pass = seen.copies == 2 * seen.micro_steps && count(seen.operations, "aten::stack") == 0;
  const bool in_the_step = seen.by_a_thread == 0;
  const auto proof = [&](bool passed, const char* expected) {
    return Proof{"batches", seen.tokens > 0 && passed, expected, batches_in_words(seen)};
  };
  switch (recipe.batches) {
    case Batches::tokenized:
      return proof(
          seen.tokenized > 0 && one_by_one && process_read(1) && seen.reads > 0 && !seen.mapping && in_the_step,
          "a step tokenizes text that it reads, and copies each sequence by itself");
    case Batches::read: {
      const int64_t bytes = token_bytes * (seen.tokens + seen.sequences);  // and the last target of each
      return proof(seen.reads == seen.sequences && seen.bytes_read == bytes && process_read(bytes) && one_by_one &&
                       nothing_made && !seen.mapping && in_the_step,
                   "a step reads each sequence from the token file by itself, and tokenizes nothing");
    }
    case Batches::mapped:
      return proof(seen.mapping.has_value() && nothing_read && nothing_made && one_by_one && in_the_step,
                   "the token file is mapped; a step reads nothing by calls, and copies each sequence by itself");
    case Batches::preloaded:
      return proof(!seen.mapping && nothing_read && nothing_made && one_by_one && in_the_step,
                   "a step reads no file and tokenizes nothing, and copies each sequence by itself");
    case Batches::gather:
      return proof(!seen.mapping && nothing_read && nothing_made && in_one_pass && in_the_step,
                   "a step reads no file and tokenizes nothing; it copies all inputs in one pass, and all targets");
    case Batches::prefetched:
      break;
  }
  return proof(!seen.mapping && nothing_read && nothing_made && in_one_pass && seen.by_a_thread == seen.steps &&
                   seen.ready == seen.steps,
               "another thread makes every batch, in one pass, and begins before the step asks");
}

}  // namespace

std::string batches_obstacle(Batches batches, const std::filesystem::path& data) {
  if (batches != Batches::tokenized || !files::is_token_file(data)) return "";
  return fmt::format("batches tokenized needs a text, and {} is a token file; --data names a text",
                     data.filename().string());
}

Technique batches() {
  return {
      .field = "batches",
      .optimizations =
          {{.name = "token_file",
            .title = "pre-tokenized file",
            .summary = "The text was tokenized once, into a file of token numbers. A step reads its sequences from "
                       "there, one by one, instead of tokenizing the text again.",
            .excludes = {"mapped_file", "preloaded", "gather", "prefetch"},
            .edit = [](Recipe& r, const harness::Machine&) { r.batches = Batches::read; }},
           {.name = "mapped_file",
            .title = "mapped file",
            .summary = "The token file is mapped into the process's memory. A sequence is copied from there without "
                       "asking the kernel, and only what is touched takes memory.",
            .excludes = {"preloaded", "gather", "prefetch"},
            .edit = [](Recipe& r, const harness::Machine&) { r.batches = Batches::mapped; }},
           {.name = "preloaded",
            .title = "tokens in memory",
            .summary = "All token numbers are read into memory before the first step. No step has to wait for a disk "
                       "or the kernel; each sequence is still copied by itself.",
            .excludes = {"gather", "prefetch"},
            .edit = [](Recipe& r, const harness::Machine&) { r.batches = Batches::preloaded; }},
           {.name = "gather",
            .title = "one gather",
            .summary = "All inputs of a batch are copied in one pass, and all its targets in another, instead of a "
                       "tensor for each sequence. On a GPU they go into pinned memory, which it can fetch by itself.",
            .excludes = {"prefetch"},
            .edit = [](Recipe& r, const harness::Machine&) { r.batches = Batches::gather; }},
           {.name = "prefetch",
            .title = "prefetching thread",
            .summary = "A thread makes the next batch while the step runs. When the step asks, the batch is there.",
            .edit = [](Recipe& r, const harness::Machine&) { r.batches = Batches::prefetched; }}},
      .prove = prove_batches,
  };
}

}  // namespace ablations
