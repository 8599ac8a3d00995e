#include "harness/process/process.h"

#include "files/files.h"
#include "harness/process/descendants.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

extern char** environ;

namespace harness {
namespace {

std::atomic<bool> interrupt_seen{false};

constexpr int lines_fd = 3;  // of the child: the pipe whose only reader is the parent

// How many bytes of a child's output are kept, of its beginning and of its end.
constexpr size_t log_begin = size_t{4} << 20, log_end = size_t{64} << 10;

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

// A child that leads a session and its process group. However run_child ends, no process of the group stays.
// Descendants ends the processes that have left the group.
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
    while (!reaped_ && ::waitpid(pid_, &status, WNOHANG | WUNTRACED | WCONTINUED) == pid_) {
      stopped_ = WIFSTOPPED(status);
      reaped_ = !stopped_ && !WIFCONTINUED(status);
    }
    return reaped_;
  }
  // Whether SIGSTOP had stopped it when has_ended() looked last.
  [[nodiscard]] bool is_stopped() const { return stopped_; }

 private:
  pid_t pid_;
  bool reaped_ = false, stopped_ = false;
};

// A clock that stands still while the machine, its container or this process is suspended. Suspended time does not use
// up a child's limit.
class RunningTime {
 public:
  // Counts what has passed since the last call.
  void pass() {
    const double passed = since(std::exchange(looked_, Clock::now()));
    seconds_ += passed < suspended_s ? passed : 0;
  }
  // Leaves out what has passed since the last call.
  void skip() { looked_ = Clock::now(); }
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double suspended_s = 2;  // run_child looks twenty times a second
  static double since(Clock::time_point time) { return std::chrono::duration<double>(Clock::now() - time).count(); }

  Clock::time_point looked_ = Clock::now();
  double seconds_ = 0;
};

// A pipe from the child, closed with it.
struct Pipe {
  Pipe() : Pipe(made()) {}
  Descriptor reader, writer;

 private:
  explicit Pipe(std::array<int, 2> ends) : reader(ends[0]), writer(ends[1]) {}
  static std::array<int, 2> made() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    return ends;
  }
};

// All but the standard input. Not by close_range(), which Linux has since 5.9 and glibc since 2.34.
void close_others() {
  std::vector<int> open;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", unreadable)) {
    open.push_back(std::stoi(entry.path().filename()));
  }
  for (const int fd : open) {
    if (fd > 0) ::close(fd);
  }
}

// A process of its own that ends the child if this process is killed: it waits for the end of a pipe, which no signal
// prevents.
class Watcher {
 public:
  Watcher() : process_(::fork()) {
    if (process_ != 0) return;
    ::setsid();  // signals of the terminal are not for it
    ::dup2(pipe_.reader.get(), 0);
    close_others();
    pid_t told = 0, child = 0;
    for (ssize_t read = 0; (read = ::read(0, &told, sizeof told)) > 0 || (read < 0 && errno == EINTR);) {
      if (read > 0) child = told;
    }
    if (child > 0) {
      for (const pid_t pid : process_tree(child)) ::kill(pid, SIGKILL);
      ::kill(-child, SIGKILL);
    }
    ::_exit(0);
  }
  ~Watcher() {
    watch(0);
    pipe_.writer.close();
    while (process_ > 0 && ::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Watcher(const Watcher&) = delete;  // waits once
  Watcher& operator=(const Watcher&) = delete;
  void watch(pid_t child) const {
    [[maybe_unused]] const ssize_t ignored = ::write(pipe_.writer.get(), &child, sizeof child);
  }

 private:
  Pipe pipe_;
  pid_t process_;
};

// What the child writes about its progress, line by line.
class Lines {
 public:
  explicit Lines(const std::function<void(std::string_view)>& on_line) : on_line_(on_line) {}
  // Passes on complete lines and keeps the rest.
  void take(std::string_view bytes) {
    pending_.append(bytes);
    size_t begin = 0;
    for (size_t end = 0; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      on_line_(std::string_view(pending_).substr(begin, end - begin));
    }
    pending_.erase(0, begin);
    if (pending_.size() > 4096) pending_.clear();  // not a line of ours
  }

 private:
  const std::function<void(std::string_view)>& on_line_;
  std::string pending_;
};

// The child's output: its first megabytes, the end of the rest, and how much was left out between. A full disk only
// costs the log.
class Log {
 public:
  explicit Log(const std::filesystem::path& path) : file_(files::open_new(path)) {}
  ~Log() {
    if (left_out_ > 0)
      put(fmt::format("\n[ladder: {} bytes of this log are left out here; the first {} MiB and the end are kept]\n",
                      left_out_, log_begin >> 20U));
    put(end_);
  }
  Log(const Log&) = delete;  // writes its end once
  Log& operator=(const Log&) = delete;
  void take(std::string_view bytes) {
    const size_t direct = std::min(bytes.size(), room_);
    put(bytes.substr(0, direct));
    room_ -= direct;
    end_.append(bytes.substr(direct));
    if (end_.size() <= 2 * log_end) return;  // it is cut now and then, not at every byte
    left_out_ += end_.size() - log_end;
    end_.erase(0, end_.size() - log_end);
  }

 private:
  void put(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
  }

  Descriptor file_;
  size_t room_ = log_begin, left_out_ = 0;
  std::string end_;
};

// Where a child prints: one pipe, one for each stream, or a terminal of its own.
class Output {
 public:
  explicit Output(const ChildOptions& options) {
    if (options.terminal) {
      open_terminal();
    } else {
      first_.emplace();
      if (options.on_output) second_.emplace();
    }
  }
  // The child's ends, of standard output and error, and the parent's; -1: there is none.
  [[nodiscard]] int out() const { return first_ ? first_->writer.get() : terminal_->get(); }
  [[nodiscard]] int err() const { return second_ ? second_->writer.get() : out(); }
  [[nodiscard]] int out_reader() const { return first_ ? first_->reader.get() : master_->get(); }
  [[nodiscard]] int err_reader() const { return second_ ? second_->reader.get() : -1; }
  void close_childs() {
    if (first_) first_->writer.close();
    if (second_) second_->writer.close();
    if (terminal_) terminal_->close();
  }

 private:
  void open_terminal() {
    master_.emplace(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    std::array<char, 64> name{};
    if (master_->get() < 0 || ::grantpt(master_->get()) != 0 || ::unlockpt(master_->get()) != 0 ||
        ::ptsname_r(master_->get(), name.data(), name.size()) != 0) {
      throw std::system_error(errno, std::generic_category(), "a terminal for the program");
    }
    terminal_.emplace(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (terminal_->get() < 0) throw std::system_error(errno, std::generic_category(), name.data());
    const winsize size{.ws_row = 50, .ws_col = 250, .ws_xpixel = 0, .ws_ypixel = 0};  // wide: bars do not shorten lines
    ::ioctl(terminal_->get(), TIOCSWINSZ, &size);
  }

  std::optional<Pipe> first_, second_;
  std::optional<Descriptor> master_, terminal_;
};

// The parent's ends of the child's pipes.
class Readers {
 public:
  Readers(const Output& output, int lines)
      : polled_{{{output.out_reader(), POLLIN, 0}, {output.err_reader(), POLLIN, 0}, {lines, POLLIN, 0}}} {}

  // Waits that long, passes on what has come, and returns whether there may be more. `on_output` is told of output.
  bool read(int wait_ms, Log& log, Lines& lines, const std::function<void(int, std::string_view)>& on_output) {
    ::poll(polled_.data(), polled_.size(), wait_ms);
    bool more = false;
    for (pollfd& pipe : polled_) {
      if (pipe.fd < 0 || pipe.revents == 0) continue;
      const ssize_t count = ::read(pipe.fd, buffer_.data(), buffer_.size());
      more = more || count > 0 || (count < 0 && errno == EINTR);
      if (count == 0 || (count < 0 && errno != EINTR)) pipe.fd = -1;  // nobody writes any more: poll() passes it over
      if (count <= 0) continue;
      const std::string_view bytes(buffer_.data(), static_cast<size_t>(count));
      if (&pipe == &polled_.back()) {
        lines.take(bytes);
      } else {
        on_output(&pipe == &polled_.front() ? 0 : 1, bytes);
        log.take(bytes);
      }
    }
    return more;
  }

 private:
  std::array<pollfd, 3> polled_;
  std::array<char, 65536> buffer_{};
};

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size());
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  return pointers;
}

// The caller's environment with the given variables added or replaced.
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

// Returns 0 with the child's id in `pid`, or an errno. Not by posix_spawn(), which changes the folder since glibc 2.29
// only.
int spawn(const ChildOptions& options, const Output& output, int lines, pid_t& pid) {
  std::vector<char*> argv = pointers_to(options.argv), environment = environment_with(options.environment);
  argv.push_back(nullptr);
  environment.push_back(nullptr);
  sigset_t no_signals;
  sigemptyset(&no_signals);
  Pipe failure;  // closed by a program that begins
  pid = ::fork();
  if (pid < 0) return errno;
  if (pid == 0) {
    const int tell = ::fcntl(failure.writer.get(), F_DUPFD_CLOEXEC, lines_fd + 1);
    // A session has no terminal to ask: a question at /dev/tty fails at once instead of waiting for ever.
    ::setsid();
    ::sigprocmask(SIG_SETMASK, &no_signals, nullptr);
    ::dup2(output.out(), 1);
    ::dup2(output.err(), 2);
    ::dup2(lines, lines_fd);
    ::fcntl(lines_fd, F_SETFD, 0);  // where both were 3
    ::close(0);                     // last: it is the log where the caller has closed its standard input
    ::open("/dev/null", O_RDONLY);
    if (options.directory.empty() || ::chdir(options.directory.c_str()) == 0) {
      ::execve(argv[0], argv.data(), environment.data());
    }
    const int error = errno;
    [[maybe_unused]] const ssize_t told = ::write(tell, &error, sizeof error);
    ::_exit(1);
  }
  failure.writer.close();
  int error = 0;
  while (::read(failure.reader.get(), &error, sizeof error) < 0 && errno == EINTR) {
  }
  while (error != 0 && ::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
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
    case End::enough:
      return "ended when it had printed enough";
  }
  return "";
}

ChildResult run_child(const ChildOptions& options) {
  using Clock = std::chrono::steady_clock;
  Log log(options.log);
  Lines lines(options.on_line);
  Output output(options);
  Pipe lines_pipe;
  Readers readers(output, lines_pipe.reader.get());

  const auto start = Clock::now();
  const auto since = [](Clock::time_point time) { return std::chrono::duration<double>(Clock::now() - time).count(); };
  const bool tidies_up = !options.ends_at_interrupt && interrupted();
  const auto is_interrupted = [&] { return !tidies_up && interrupted(); };
  std::optional<Watcher> watcher;
  if (options.of_others) watcher.emplace();
  const Descendants descendants;
  pid_t pid = 0;
  const int error = spawn(options, output, lines_pipe.writer.get(), pid);
  output.close_childs();
  lines_pipe.writer.close();
  if (error != 0) return {.end = ChildResult::End::not_started, .code = error, .seconds = since(start)};

  Child child(pid);
  if (watcher) watcher->watch(pid);
  ChildResult result{.end = ChildResult::End::exited};
  RunningTime running;
  bool stopped = false, enough = false;
  Clock::time_point looked = start, asked_to_end;
  int status = 0;
  const auto end_unless = [&](bool goes_on) {
    if (goes_on) return;
    enough = true;
    asked_to_end = Clock::now();
    for (const pid_t process : descendants.of(pid)) ::kill(process, SIGTERM);
  };
  const auto on_output = [&](int stream, std::string_view bytes) {
    if (!enough && options.on_output) end_unless(options.on_output(stream, bytes));
  };
  if (options.on_look) (void)options.on_look({pid});
  while (true) {
    // The child may end without its pipes being closed (one of its children may hold them), so its end is checked, too.
    readers.read(options.turn_ms, log, lines, on_output);
    if (child.has_ended(status)) break;
    if (child.is_stopped()) {
      running.skip();
    } else {
      running.pass();
    }
    if (options.on_look && !enough && since(looked) > 0.5) {
      looked = Clock::now();
      end_unless(options.on_look(descendants.of(pid)));
    }
    if (options.on_turn && !enough) end_unless(options.on_turn());
    if (!stopped && (running.seconds() > options.limit_s || is_interrupted() ||
                     (enough && since(asked_to_end) > options.grace_s))) {
      stopped = true;
      result.end = is_interrupted() ? ChildResult::End::interrupted : ChildResult::End::timed_out;
      child.kill_group();
    }
  }
  if (watcher) watcher->watch(0);
  result.killed = stopped;
  result.seconds = since(start);
  // What it started may need the same time as it.
  while (enough && since(asked_to_end) < options.grace_s && !is_interrupted() && descendants.any_left()) {
    readers.read(20, log, lines, on_output);
  }
  child.kill_group();
  descendants.end();
  // Reads what is left in the pipes, which hold 64 KiB each. It stops after 64 reads, because a process that cannot be
  // killed may write on.
  for (int i = 0; i < 64 && readers.read(0, log, lines, on_output); ++i) {
  }
  if (enough && !is_interrupted()) {
    result.end = ChildResult::End::enough;
    return result;
  }
  if (stopped) return result;
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
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM, SIGVTALRM, SIGPROF, SIGPWR}) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_DFL) ::sigaction(signal, &action, nullptr);
  }
}

void drop_lost_readers() {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    pollfd output{.fd = fd, .events = 0, .revents = 0};
    if (::poll(&output, 1, 0) != 1 || (output.revents & (POLLERR | POLLHUP)) == 0) continue;
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(nowhere, fd);
    ::close(nowhere);
  }
}

void catch_lost_readers() {
  struct sigaction action {};
  action.sa_handler = [](int) {  // the write that found no reader still fails
    const int error = errno;
    drop_lost_readers();
    interrupt_seen = true;
    errno = error;
  };
  ::sigaction(SIGPIPE, &action, nullptr);
}

bool interrupted() { return interrupt_seen; }

void die_with_parent() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before the call, while this process was being loaded: then nobody reads the pipe.
  pollfd pipe{.fd = lines_fd, .events = 0, .revents = 0};
  if (::poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLERR) != 0) ::raise(SIGKILL);
}

}  // namespace harness
