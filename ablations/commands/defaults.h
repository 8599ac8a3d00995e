// What a command takes where no flag says otherwise.
#pragma once

#include <filesystem>
#include <string>

namespace ablations {

// "gpt2" with a GPU, "gpt2-cpu" without.
std::string ladder_for_this_machine();

// The Python that draws reports and runs the peers: $LADDER_PYTHON, else the one this program was built with.
std::string python();

// What setup/data.py fetched.
std::filesystem::path default_vocabulary();
std::filesystem::path default_text();
// The same text's tokens, which a bundle brings; the default where the text is not there.
std::filesystem::path bundled_tokens();

}  // namespace ablations
