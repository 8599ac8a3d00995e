// The commands that measure a study, or one of its rungs, again on the same machine.
#pragma once

#include "results/study.h"

#include <string>
#include <vector>

namespace plots {

// `ladder ablate` with every flag that makes it the same study. Of a study of commands `ladder measure`, which resumes
// the one in the folder `resumed`, if that is not empty.
std::string command_again(const Study& study, const std::string& resumed = "");

// `ladder run` and `ladder profile` of a rung by itself. None where flags do not know the rung by a name.
std::vector<std::string> commands_of_rung(const Study& study, const StudyRung& rung);

// A text as a POSIX shell takes it for one word; what no terminal shows is spelled out.
std::string for_shell(const std::string& given);

}  // namespace plots
