// One child process: started without a shell, watched, and ended with everything it started.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace harness {

struct ChildResult {
  enum class End { exited, signaled, timed_out, not_started, interrupted, enough } end;
  int code = 0;  // exit status, signal number, or errno
  double seconds = 0;
  bool killed = false;  // by us, because it did not end by itself

  [[nodiscard]] bool succeeded() const { return end == End::exited && code == 0; }
  // "killed by signal 9 (Killed)", "ran past its limit of 60 s", ...
  [[nodiscard]] std::string describe(double limit_s) const;
};

struct ChildOptions {
  std::vector<std::string> argv;  // argv[0]: path of the program
  // Gets standard output and error: their first 4 MiB and, if there is more, their last 64 KiB.
  std::filesystem::path log;
  bool ends_at_interrupt = true;              // false: one that tidies up, begun after an interrupt, is not ended
  double limit_s = 600;                       // without the time in which the child or this process was suspended
  std::vector<std::string> environment = {};  // "NAME=value", in place of what the parent has or beside it
  // Lines that the child writes to file descriptor 3, without their newline.
  std::function<void(std::string_view)> on_line = [](std::string_view) {};

  // For programs of others:
  bool of_others = false;                // ended, too, if this process is killed: they cannot die_with_parent()
  std::filesystem::path directory = {};  // where it works; empty: here
  bool terminal = false;                 // it prints to a terminal, because into a pipe it would hold lines back
  // Gets what one read brought, of standard output (0) or error (1). Returns false when that is enough. Then every
  // process of the child gets SIGTERM, and after grace_s SIGKILL.
  std::function<bool(int stream, std::string_view bytes)> on_output = {};
  double grace_s = 10;
  // Called about twice a second with the child's processes (process_tree), the child first. Returns as on_output.
  std::function<bool(const std::vector<pid_t>&)> on_look = {};
  // Called every turn_ms, or sooner. Returns the same.
  std::function<bool()> on_turn = {};
  int turn_ms = 50;
};

// Returns when the child has ended, or was killed at its limit or at an interrupt (below). Its standard input is empty.
// All processes that it started and left are killed with it (descendants.h). Throws std::system_error if the log cannot
// be opened. Passes on what on_line throws. The child is killed in both cases.
ChildResult run_child(const ChildOptions& options);

// From here on SIGINT, SIGTERM, SIGHUP (the terminal is gone), SIGUSR1 and SIGUSR2 (a batch system, before the end),
// SIGXCPU (`ulimit -t`), SIGPWR and a timer's SIGALRM, SIGVTALRM and SIGPROF only set a flag. Then run_child ends its
// child and returns End::interrupted. All but SIGINT and SIGTERM stay as they are where they are ignored, as under
// nohup, or have a handler.
void catch_interrupts();
bool interrupted();

// From here on a pipe from standard output or error that nobody reads any more counts as an interrupt.
void catch_lost_readers();
// After this call, text printed to such a pipe, or to a terminal that is gone, is lost without an error.
void drop_lost_readers();

// In a child that run_child started: die with the parent, however that ends.
void die_with_parent();

}  // namespace harness
