// What a child process starts and leaves behind, whatever process group or session it moves to: ended with the child.
#pragma once

#include <sys/types.h>

#include <vector>

namespace harness {

// While it lives, a process whose parent ends becomes a child of this process (a "subreaper"). One at a time, and while
// no other thread starts processes.
class Descendants {
 public:
  // The children that this process has now are not touched: a shell that became this program may have left it some.
  Descendants();
  ~Descendants();
  Descendants(const Descendants&) = delete;  // one owner of the process's setting
  Descendants& operator=(const Descendants&) = delete;
  // Kills every child that came since, then what those leave behind, until there is none.
  void end() const;

 private:
  std::vector<pid_t> others_;
  int was_subreaper_ = 0;
};

}  // namespace harness
