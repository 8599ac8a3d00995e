// What a command takes where no flag says otherwise.
#pragma once

#include <filesystem>
#include <string>

namespace ablations {

// The ladder that is named; with "" gpt2 on a machine with a GPU, gpt2-cpu on others.
std::string chosen_ladder(const std::string& named);

// The Python that draws reports and runs the peers: $LADDER_PYTHON, else the one this program was built with.
std::string python();

// What setup/data.py fetched.
std::filesystem::path default_vocabulary();
std::filesystem::path default_text();
// The same text's tokens, which a bundle brings; the default where the text is not there.
std::filesystem::path bundled_tokens();

}  // namespace ablations
