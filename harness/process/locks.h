// One runner in a folder, one measurement at a time on a device. Lock files are never deleted. The kernel releases both
// locks (flock) however the owner ends, kill -9 included. The owner that a lock file names counts only while the lock
// is held.
#pragma once

#include <filesystem>
#include <functional>
#include <list>
#include <set>
#include <string>

namespace harness {

// Held by the runner that works in a folder, also against runners on other machines if the file system supports it.
class FolderLock {
 public:
  // Throws std::invalid_argument while somebody else holds it, std::system_error where the folder cannot be opened.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;  // one owner
  FolderLock& operator=(const FolderLock&) = delete;
  // false: the file system has no locks, which a note has said.
  [[nodiscard]] bool holds() const { return holds_; }

 private:
  int fd_;
  bool holds_ = true;
};

// Held by a command that measures on a device of this machine, against all users. The file is gpt2-ladder-DEVICE.lock
// in /tmp, or in $LADDER_LOCK_DIR. The lock holds only among programs that use the same folder.
class DeviceLock {
 public:
  // device: lock_name(). owner: the text that others see, "ladder ablate (pid 7, /home/me/study)". The time since when
  // is added. If somebody else holds the lock, calls on_taken with a sentence about the owner, then waits. on_taken may
  // throw instead. Throws Unfit if the lock file cannot be opened or locked, or the wait is interrupted. If
  // $LADDER_LOCK_DIR is set, a file that cannot be opened throws std::invalid_argument.
  DeviceLock(const std::string& device, const std::string& owner,
             const std::function<void(const std::string&)>& on_taken);
  ~DeviceLock();
  DeviceLock(const DeviceLock&) = delete;  // one owner
  DeviceLock& operator=(const DeviceLock&) = delete;

 private:
  int fd_;
};

// Takes the locks of these devices (DeviceLock). command: "ladder ablate"; at: the folder it works in. If a device is
// in use, prints by whom, and waits if `wait`. Otherwise throws Unfit.
using Occupied = std::list<DeviceLock>;
Occupied occupy(const std::set<std::string>& devices, const std::string& command, const std::filesystem::path& at,
                bool wait);

}  // namespace harness
