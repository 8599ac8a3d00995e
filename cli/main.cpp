#include "harness/process/working_directory.h"

// All of it is in command_line.cpp, whose library is compiled as one.
namespace cli {
int ladder(int argc, char** argv);
}

int main(int argc, char** argv) { return cli::ladder(argc, argv); }
