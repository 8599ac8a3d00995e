// A ladder file and the rungs it makes on a machine: rung 0 is the start, rung k the recipe after the first k edits.
#pragma once

#include "ablations/documents/common.h"
#include "harness/measure/environment.h"
#include "model/recipe.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

struct Ladder {
  std::string name, title, start_title;
  std::string file = {};  // the file's name, of one that does not come with the program
  model::Recipe start;
  std::vector<std::string> rungs;  // names of optimizations
  std::string reference;           // the one from which speedups count; empty: the start
  std::vector<std::string> quick;  // those that --quick measures besides the reference; empty: the last
  std::string model;
  int64_t B = 1, T = 256, accumulation = 1;
  int64_t repeats = 1, warmup_steps = 0, timed_steps = 1;
};

// `name_or_file`: a ladder that comes with the program ("gpt2-cpu") or the path of a file. Throws std::invalid_argument
// with the file, the field and what is allowed: syntax, schema, unknown or repeated optimizations, conflicts, missing
// needs.
Ladder load_ladder(const std::string& name_or_file);

// The file that it is read from, whether that is there or not.
std::filesystem::path ladder_file(const std::string& name_or_file);

// Names of the ladders that come with the program.
std::vector<std::string> ladder_names();

// Those of them that can be read and have the optimization: gpt2 and gpt2-cpu first, between which the program chooses
// by itself.
std::vector<Ladder> ladders_with(const std::string& optimization);

// One recipe that a study measures. In a cumulative ladder: that of the rung below and one edit more; in other modes
// also at another size or by another program, as the fields say.
struct Rung {
  enum class Status { planned, not_applicable, not_measured };
  std::string optimization;  // the one it is about; empty: the start, or a set that has no name of its own
  std::string title;
  std::vector<std::string> applied;  // optimizations on at this rung, in order
  model::Recipe recipe;
  Status status = Status::planned;
  std::string reason;  // why it is not planned

  std::string name = {};                 // in its runs' ids; empty: the optimization's, or "start"
  std::optional<Shape> shape = {};       // where it is not the plan's
  std::string peer = {};                 // who runs it: empty: a ladder program; "pytorch-eager", ...
  std::string program = {};              // which one; empty: this
  std::string program_sha256 = {};       // of that file; empty: not known
  std::optional<size_t> against = {};    // the rung that speedup_previous is taken against
  std::optional<size_t> reference = {};  // the rung whose losses guard it and speedup_first counts from
};

// Puts one more optimization on. Where this machine or what is on already does not allow it, the reason; the rung is
// then as it was.
[[nodiscard]] std::string put_on(Rung& rung, const std::string& optimization, const harness::Machine& machine);

// `rung.name`, or its default.
std::string name_of(const Rung& rung);

// Edits that this machine cannot have are skipped, with the reason, and later rungs do without them. Rungs below
// the reference are not measured where the reference applies.
std::vector<Rung> climb(const Ladder& ladder, const harness::Machine& machine);

// Its title as a ladder shows it: "+ bf16 autocast".
std::string label_of(const Rung& rung);

// Index of the rung that is meant by a name or title (is_meant). Throws std::invalid_argument for one that is not
// there, harness::Unfit for one that does not apply here; the message begins with `flag` and the name.
size_t find_rung(const std::vector<Rung>& rungs, const std::string& name, const char* flag, const std::string& ladder);

// Index of the rung from which speedups count.
size_t reference_rung(const std::vector<Rung>& rungs);

}  // namespace ablations
