#include "harness/process/working_directory.h"

// All of it is in command_line.cpp, which is compiled with the commands. Its header would bring CLI11 in once more.
namespace cli {
int ladder(int argc, char** argv);
}

int main(int argc, char** argv) { return cli::ladder(argc, argv); }
