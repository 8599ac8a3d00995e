#include "harness/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <system_error>

extern char** environ;

namespace harness {
namespace {

std::atomic<bool> interrupt_seen{false};

constexpr int lines_fd = 3;  // of the child: the pipe whose only reader is the parent

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;  // closes once
  Descriptor& operator=(const Descriptor&) = delete;
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

// A child that leads a process group. However run_child is left, nothing of the group stays behind.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    kill_group();
    while (!reaped_ && ::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;  // waits once
  Child& operator=(const Child&) = delete;
  void kill_group() const { ::kill(-pid_, SIGKILL); }
  [[nodiscard]] bool has_ended(int& status) {
    reaped_ = ::waitpid(pid_, &status, WNOHANG) == pid_;
    return reaped_;
  }

 private:
  pid_t pid_;
  bool reaped_ = false;
};

// The parent's end of a child's pipe.
class Lines {
 public:
  Lines(int pipe, const std::function<void(std::string_view)>& on_line) : pipe_(pipe), on_line_(on_line) {}

  // Waits for as long as that, takes what has come, and says whether there may be more.
  bool read(int wait_ms) {
    pollfd event{.fd = pipe_, .events = POLLIN, .revents = 0};
    ::poll(&event, closed_ ? 0 : 1, wait_ms);
    if (closed_ || event.revents == 0) return false;
    std::array<char, 4096> buffer{};
    const ssize_t count = ::read(pipe_, buffer.data(), buffer.size());
    closed_ = count == 0;
    if (count <= 0) return count < 0 && errno == EINTR;
    pending_.append(buffer.data(), static_cast<size_t>(count));
    hand_on();
    return true;
  }

 private:
  // Complete lines; the rest is kept.
  void hand_on() {
    size_t begin = 0;
    for (size_t end = 0; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      on_line_(std::string_view(pending_).substr(begin, end - begin));
    }
    pending_.erase(0, begin);
    if (pending_.size() > 4096) pending_.clear();  // not a line of ours
  }

  int pipe_;
  const std::function<void(std::string_view)>& on_line_;
  std::string pending_;
  bool closed_ = false;
};

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size());
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  return pointers;
}

// The caller's, but for what is added or replaced.
std::vector<char*> environment_with(const std::vector<std::string>& added) {
  std::vector<char*> environment = pointers_to(added);
  for (char** inherited = environ; *inherited != nullptr; ++inherited) {
    const std::string_view entry(*inherited);
    const std::string_view name = entry.substr(0, entry.find('=') + 1);
    const bool replaced =
        std::ranges::any_of(added, [&](const std::string& other) { return !name.empty() && other.starts_with(name); });
    if (!replaced) environment.push_back(*inherited);
  }
  return environment;
}

// Returns 0 with the child's id in `pid`, or an errno.
int spawn(const ChildOptions& options, int log, int lines, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, log, 1);
  posix_spawn_file_actions_adddup2(&actions, log, 2);
  posix_spawn_file_actions_adddup2(&actions, lines, lines_fd);
  // Last: the log is 0 where the caller has closed its standard input.
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> argv = pointers_to(options.argv), environment = environment_with(options.environment);
  argv.push_back(nullptr);
  environment.push_back(nullptr);
  const int error = ::posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

std::string ChildResult::describe(double limit_s) const {
  switch (end) {
    case End::exited:
      return fmt::format("ended with exit status {}", code);
    case End::signaled:
      return fmt::format("killed by signal {} ({})", code, strsignal(code));
    case End::timed_out:
      return fmt::format("ran past its limit of {:g} s and was killed", limit_s);
    case End::not_started:
      return fmt::format("could not be started: {}", std::strerror(code));
    case End::interrupted:
      return "interrupted";
  }
  return "";
}

ChildResult run_child(const ChildOptions& options) {
  const Descriptor log(::open(options.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (log.get() < 0)
    throw std::system_error(errno, std::generic_category(), options.log.string() + ": cannot be written");
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);

  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  pid_t pid = 0;
  const int error = spawn(options, log.get(), writer.get(), pid);
  writer.close();
  if (error != 0) return {.end = ChildResult::End::not_started, .code = error, .seconds = seconds()};

  Child child(pid);
  ChildResult result{.end = ChildResult::End::exited};
  Lines lines(reader.get(), options.on_line);
  bool stopped = false;
  int status = 0;
  while (true) {
    // The child may end without closing the pipe (a process of its own may hold it), so its end is asked for, too.
    lines.read(50);
    if (child.has_ended(status)) break;
    if (!stopped && (seconds() > options.limit_s || interrupted())) {
      stopped = true;
      result.end = interrupted() ? ChildResult::End::interrupted : ChildResult::End::timed_out;
      child.kill_group();
    }
  }
  result.seconds = seconds();
  if (stopped) return result;
  // What it left in the pipe, which holds 64 KiB; a process that it has let go may write on.
  for (int i = 0; i < 16 && lines.read(0); ++i) {
  }
  if (WIFSIGNALED(status)) {
    result.end = ChildResult::End::signaled;
    result.code = WTERMSIG(status);
  } else {
    result.code = WEXITSTATUS(status);
  }
  return result;
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupt_seen = true; };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return interrupt_seen; }

void die_with_parent() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have ended before the call, while this process was being loaded: then nobody reads the pipe.
  pollfd pipe{.fd = lines_fd, .events = 0, .revents = 0};
  if (::poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLERR) != 0) ::raise(SIGKILL);
}

}  // namespace harness
