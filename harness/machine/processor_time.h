// How long a process's threads ran and how long they waited for a processor, as the kernel's scheduler counts it. This
// is the surest sign of other work on the machine. Work beside a virtual machine shows in the time that its hypervisor
// stole. If there are more threads than cores, threads also wait for each other. So waiting counts only as far as the
// process did not use the cores itself.
#pragma once

#include <unistd.h>

#include <optional>
#include <span>
#include <string>

namespace harness {

struct ProcessorTime {
  double ran_s = 0, waited_s = 0;                  // waited: ready to run, on a queue
  double machine_ran_s = 0, machine_stolen_s = 0;  // of all processors and programs; by a hypervisor: /proc/stat
  double throttled_s = 0;                          // by a quota of this process's control groups: no other work
};

// The time of all threads of a process that live now, since they began. None where there is no such process, or where
// the kernel does not count it (/proc/PID/task/*/schedstat).
std::optional<ProcessorTime> processor_time(pid_t process = ::getpid());
// The time of several processes together.
std::optional<ProcessorTime> processor_time(std::span<const pid_t> processes);

// The share of a window, between 0 and 1, that `threads` busy threads lost to other work on `cores` cores: (min(waited
// - throttled, window * cores - ran) + stolen) / (window * min(threads, cores)). Threads that sleep neither run nor
// wait. Of the time stolen from the machine the process bears its share of what ran there.
double share_lost(const ProcessorTime& begin, const ProcessorTime& end, double window_s, int threads, int cores);

// The share of the machine's processors that all programs use within the next seconds, between 0 and 1.
double share_in_use(double window_s);

// "cc1plus (pid 812) takes 97 % of a processor": of the programs that this process has not started the one that used
// most within the next seconds. Empty: none used a tenth.
std::string busiest_other(double window_s);

// "shared: the processor was busy with something else for 23 % of the time"; empty up to 10 %.
std::string flag(double share_lost);

// "paused: a step took 10 s among steps of 0.02 s". Empty unless a step took ten times the median, and half a second
// more. Such a step means that the process, its container or the machine was suspended.
std::string flag_of_pause(std::span<const double> step_ms);

}  // namespace harness
