// What a test puts before a program's own libraries (LD_PRELOAD). FAULT_CLOCK: the system's clock runs backwards, a
// hundred seconds for each that passes and one more whenever it is looked at; not through time(), because MKL's log
// waits for the next second of that. FAULT_GARBAGE: a `ladder run` first writes a megabyte of anything to its standard
// output, its standard error and the pipe to its parent; then it works ("work"), ends with exit status 7 ("die") or
// leaves garbage for a record and ends well ("record"). FAULT_FLOCK: folders have no locks, as on some network file
// systems.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace {

bool clock_runs_backwards() {
  static const bool asked = std::getenv("FAULT_CLOCK") != nullptr;
  return asked;
}

std::time_t backwards() {
  static std::atomic<std::time_t> looks{0};
  timespec steady{};
  ::syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &steady);
  return std::time_t{1'900'000'000} - 100 * steady.tv_sec - steady.tv_nsec / 10'000'000 - ++looks;
}

std::vector<std::string> arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

std::string garbage() {
  std::string bytes;
  uint64_t state = 1;
  while (bytes.size() < size_t{1} << 20) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    bytes += static_cast<char>(state >> 56U);
  }
  return bytes +
         "\n\x1b[2J\xff\xfe\xc3\n-5 4\n7 3\n3 0\n99999999999999999999 1\n1 99999999999999999999\n\x1b]0;x\x07\xff "
         "last\n";
}

__attribute__((constructor)) void write_garbage() {
  const char* then = std::getenv("FAULT_GARBAGE");
  const auto words = arguments();
  if (then == nullptr || words.size() < 2 || words[1] != "run") return;
  const std::string bytes = garbage();
  for (const int fd : {1, 2, 3}) {
    for (std::string_view left = bytes; !left.empty();) {
      const ssize_t put = ::write(fd, left.data(), left.size());
      if (put <= 0) break;
      left.remove_prefix(static_cast<size_t>(put));
    }
  }
  if (then == std::string_view("die")) ::_exit(7);
  if (then != std::string_view("record")) return;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "--record") std::ofstream(words[i + 1], std::ios::binary) << bytes;
  }
  ::_exit(0);
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const bool system = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (!system || !clock_runs_backwards()) return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  *time = {.tv_sec = backwards(), .tv_nsec = 0};
  return 0;
}

int flock(int fd, int operation) noexcept {
  struct stat status {};
  if (std::getenv("FAULT_FLOCK") != nullptr && ::fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
    errno = ENOSYS;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}

int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

}  // extern "C"
