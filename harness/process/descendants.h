// Ends the processes that a child process starts and leaves behind, whatever process group or session they move to.
#pragma once

#include <sys/types.h>

#include <vector>

namespace harness {

// A process and all that it has started, and those have started, as far as their parents live.
std::vector<pid_t> process_tree(pid_t root);

// While it lives, a process whose parent ends becomes a child of this process (a "subreaper"). One at a time, and while
// no other thread starts processes.
class Descendants {
 public:
  // Does not touch the children that this process has now: a shell that became this program may have left some.
  Descendants();
  ~Descendants();
  Descendants(const Descendants&) = delete;  // one owner of the process's setting
  Descendants& operator=(const Descendants&) = delete;
  // The child and the processes that it left to this one, with all of their trees.
  [[nodiscard]] std::vector<pid_t> of(pid_t child) const;
  // Whether a process that the child left to this one still lives.
  [[nodiscard]] bool any_left() const;
  // Kills every child that came since, then the children that those leave, until there are none.
  void end() const;

 private:
  std::vector<pid_t> others_;
  int was_subreaper_ = 0;
};

}  // namespace harness
