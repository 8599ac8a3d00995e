// The commands that measure a study, or one of its rungs, again on the same machine.
#pragma once

#include "results/study.h"

#include <string>
#include <vector>

namespace plots {

// `ladder ablate` or `ladder measure` as it was typed, with the order's seed. Empty: the study does not say.
std::string command_again(const Study& study);

// `ladder measure` of that command alone, with the flags that the study has; empty: the study does not say.
std::string command_of_row(const Study& study, const StudyRung& rung);

// `ladder gate` of two commits as it was typed.
std::string gate_command(const TypedLine& typed);

// `ladder measure` as it was typed, which goes on in the folder.
std::string resume_command(const TypedLine& typed, const std::string& folder);

// `ladder run` and `ladder profile` of a rung by itself. None where flags do not know the rung by a name.
std::vector<std::string> commands_of_rung(const Study& study, const StudyRung& rung);

// A text as a POSIX shell takes it for one word; what no terminal shows is spelled out.
std::string for_shell(const std::string& given);

}  // namespace plots
