// `ladder-gpt2`: every command, with PyTorch. `ladder` starts it for those that train or look at the device.
#include "cli/gpt2/commands.h"
#include "files/printable.h"
#include "harness/observe/library_calls.h"
#include "harness/process/working_directory.h"
#include "model/ranks.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>

int main(int argc, char** argv) {
  return cli::exit_status([&] {
    for (const std::string& name : harness::silence_libraries()) {
      fmt::print(stderr, "note: {} is ignored: the library would print among the results on standard output\n",
                 files::printable(name));
    }
    try {
      cli::WholeCommandLine line;
      // Before anything looks for GPUs.
      return cli::run_command_line(line, argc, argv, [] { model::choose_gpu(model::ranks_of_environment()); });
    } catch (const c10::Error& error) {
      std::string text = error.what_without_backtrace();
      if (text.starts_with("CUDA ")) {  // hints for those who debug or set up PyTorch follow
        text.resize(std::min({text.size(), text.find('\n'), text.find(" Of the allocated memory")}));
      }
      throw std::runtime_error(text);
    }
  });
}
