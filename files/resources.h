// Where the program's own files are: schemas, ladders, the plotting script.
#pragma once

#include <filesystem>

namespace files {

// PREFIX of an installed program: it is PREFIX/bin/ladder and has PREFIX/share/gpt2-ladder. Empty where it has not.
std::filesystem::path installed_prefix();

// The folder that holds ladders/, results/schemas/ and plots/. It is $LADDER_HOME, else PREFIX/share/gpt2-ladder, else
// the source tree. Throws std::invalid_argument when none of them does.
std::filesystem::path resource_root();

// $XDG_CACHE_HOME/gpt2-ladder or ~/.cache/gpt2-ladder; not created here. Throws std::invalid_argument where no home
// folder is known, and for a folder that belongs to neither this user nor root.
std::filesystem::path cache_folder();

// The vocabulary that setup/data.py fetches.
std::filesystem::path default_vocabulary();

// Throws std::invalid_argument where `file` is the default vocabulary, and not as published.
void check_vocabulary(const std::filesystem::path& file);

}  // namespace files
