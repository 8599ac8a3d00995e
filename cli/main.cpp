// `ladder`: what needs no PyTorch. For other commands the process becomes `ladder-gpt2`, the program beside it.
#include "cli/command.h"
#include "harness/machine/machine.h"
#include "harness/process/unfit.h"
#include "harness/process/working_directory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

namespace cli {
namespace {

namespace fs = std::filesystem;

// Does not return, because the process is the other program from then on. `argv` ends with a null pointer.
int become_trainer(char** argv) {
  const fs::path own = fs::read_symlink("/proc/self/exe"), beside = harness::trainer_of(own);
  // A bundle's launcher finds PyTorch.
  const fs::path launcher = own.parent_path().parent_path() / beside.filename();
  const bool is_bundle = own.parent_path().filename() == "bin" && fs::exists(launcher);
  std::string program = (is_bundle ? launcher : beside).string();
  if (!fs::exists(beside)) {
    throw harness::Unfit(
        fmt::format("{} is missing, which measures and trains GPT-2; in the sources `make` builds it, and `make "
                    "bundle` packs it for other machines; your own programs need only `ladder measure` and `gate`",
                    beside.string()));
  }
  argv[0] = program.data();
  ::execv(program.c_str(), argv);
  throw std::system_error(errno, std::generic_category(), program);
}

}  // namespace
}  // namespace cli

int main(int argc, char** argv) {
  return cli::exit_status([&] {
    cli::CommandLine line([&] { return cli::become_trainer(argv); });
    cli::add_commands_of_ladder(line);
    return cli::run_command_line(line, argc, argv);
  });
}
