#include "harness/process/locks.h"

#include "files/files.h"
#include "files/printable.h"
#include "harness/process/process.h"
#include "harness/process/unfit.h"
#include "harness/process/utc.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

namespace harness {

namespace fs = std::filesystem;

namespace {

// Opens a regular file that every user may open, and creates it if needed. Returns -1 with errno if that fails.
int open_for_everybody(const fs::path& file) {
  constexpr int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  for (int attempt = 0; attempt < 3; ++attempt) {
    // Not simply with O_CREAT: in a sticky folder the kernel refuses that on other users' files (fs.protected_regular).
    int fd = ::open(file.c_str(), O_RDWR | flags);
    if (fd < 0 && errno == EACCES) fd = ::open(file.c_str(), O_RDONLY | flags);  // enough for a lock
    if (fd < 0 && errno == ENOENT) {
      fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | flags, 0666);
      if (fd >= 0) ::fchmod(fd, 0666);  // whatever the umask is
    }
    if (fd < 0 && errno == EEXIST) continue;  // somebody else has just made it
    struct stat status {};
    if (fd >= 0 && (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))) {
      ::close(fd);
      errno = EINVAL;
      return -1;
    }
    return fd;
  }
  return -1;
}

int locked(int fd, int operation) {
  int result = 0;
  do result = ::flock(fd, operation);
  while (result != 0 && errno == EINTR && !interrupted());
  return result;
}

// Another user may have written it, so it may hold anything.
std::string owner_in(int fd) {
  std::array<char, 400> text{};
  const ssize_t count = ::pread(fd, text.data(), text.size(), 0);
  const std::string_view read(text.data(), count > 0 ? static_cast<size_t>(count) : 0);
  return read.empty() ? "another program" : files::printable(read.substr(0, read.find('\n')));
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder) : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), folder.string());
  if (locked(fd_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno != EWOULDBLOCK) {
    holds_ = false;
    fmt::print(stderr, "note: {}: this file system has no locks ({}), so a second runner here goes unnoticed\n",
               folder.string(), std::generic_category().message(errno));
  } else {
    ::close(fd_);
    throw std::invalid_argument(fmt::format(
        "{}: another runner is at work in this folder; wait for its end, or name another one", folder.string()));
  }
}

FolderLock::~FolderLock() { ::close(fd_); }

DeviceLock::DeviceLock(const std::string& device, const std::string& owner,
                       const std::function<void(const std::string&)>& on_taken) {
  const char* named = std::getenv("LADDER_LOCK_DIR");
  const fs::path folder = named != nullptr && *named != '\0' ? named : "/tmp";
  const fs::path file = folder / fmt::format("gpt2-ladder-{}.lock", device);
  fd_ = open_for_everybody(file);
  if (fd_ < 0) {
    const std::string why = std::generic_category().message(errno);
    if (named != nullptr) {
      throw std::invalid_argument(
          fmt::format("LADDER_LOCK_DIR {}: {} cannot be opened: {}", named, file.string(), why));
    }
    throw Unfit(fmt::format("{}: the lock of device {} cannot be opened: {}; LADDER_LOCK_DIR names another folder",
                            file.string(), device, why));
  }
  try {
    if (locked(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) {
        throw Unfit(fmt::format("{}: the lock of device {} cannot be taken: {}; LADDER_LOCK_DIR names another folder",
                                file.string(), device, std::generic_category().message(errno)));
      }
      on_taken(fmt::format("device {} is in use by {}", device, owner_in(fd_)));
      if (interrupted() || locked(fd_, LOCK_EX) != 0) {
        const std::string why = interrupted() ? "interrupted" : std::generic_category().message(errno);
        throw Unfit(fmt::format("waiting for device {} ended: {}", device, why));
      }
    }
  } catch (...) {
    ::close(fd_);
    throw;
  }
  // For people only: the lock holds even if the line cannot be written.
  const std::string line = fmt::format("{} since {}\n", owner, utc_now());
  [[maybe_unused]] const bool written = ::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, line.data(), line.size(), 0) > 0;
}

DeviceLock::~DeviceLock() { ::close(fd_); }

Occupied occupy(const std::set<std::string>& devices, const std::string& command, const fs::path& at, bool wait) {
  Occupied locks;
  // In the set's order, the same for everybody: no two programs wait for each other.
  for (const std::string& device : devices) {
    locks.emplace_back(device, fmt::format("{} (pid {}, {})", command, ::getpid(), fs::absolute(at).string()),
                       [wait](const std::string& taken) {
                         if (!wait) throw Unfit(taken + "; begin when it has ended, or pass --wait");
                         fmt::print(stderr, "{}; waiting for its end\n", taken);
                       });
  }
  return locks;
}

}  // namespace harness
