// Defaults of flags that are not given.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cli {

// Below the current folder: where `ladder ablate` puts its studies.
std::filesystem::path default_studies();

// The Python that draws reports and runs the peers, with its flags. It is $LADDER_PYTHON, which PATH may find. Else
// an installed program has the Python beside it or the one on PATH, and a built one has the Python of the build. The
// latter ignores the user's packages and variables (PYTHONPATH, PYTHONHOME).
std::vector<std::string> python();

// CPU threads for --threads, 0: as many as this process may use cores. Throws std::invalid_argument for more.
int64_t threads_for(int64_t given);

// What setup/data.py fetched; files/resources.h has its vocabulary.
std::filesystem::path default_text();
// The tokens of that text, which a bundle includes; the default if the text is missing.
std::filesystem::path bundled_tokens();

}  // namespace cli
