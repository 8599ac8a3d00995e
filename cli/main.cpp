// `ladder`: reports, compares and verifies by itself, and so starts without PyTorch. For the other commands the process
// becomes `ladder-gpt2`, the program beside it.
#include "cli/command.h"
#include "cli/commands.h"
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

char** arguments = nullptr;  // of main(), which end with a null pointer

// Does not return, because the process is the other program from then on.
int become_trainer() {
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
  arguments[0] = program.data();
  ::execv(program.c_str(), arguments);
  throw std::system_error(errno, std::generic_category(), program);
}

}  // namespace

int doctor(const DoctorFlags&) { return become_trainer(); }
int ablate(const AblateFlags&) { return become_trainer(); }
int run(const RunFlags&) { return become_trainer(); }
int profile(const ProfileFlags&) { return become_trainer(); }
int gate(const GateFlags&) { return become_trainer(); }
int train(const TrainFlags&) { return become_trainer(); }
int sample(const SampleFlags&) { return become_trainer(); }

}  // namespace cli

int main(int argc, char** argv) {
  cli::arguments = argv;
  return cli::exit_status([&] { return cli::run_command_line(argc, argv); });
}
