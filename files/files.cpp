// File descriptors rather than streams: a stream on a folder opens without complaint, and only a descriptor can fsync.
#include "files/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace files {
namespace {

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path)
    : name_(path.string()), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat status {};
  std::string why;
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
    why = std::generic_category().message(errno);
  } else if (!S_ISREG(status.st_mode)) {
    why = "is not a regular file; only regular files are read";
  }
  if (!why.empty()) {
    if (descriptor_ >= 0) close(descriptor_);
    throw std::invalid_argument(fmt::format("{}: {}", name_, why));
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

InputFile::~InputFile() { close(descriptor_); }

void InputFile::read(void* bytes, size_t count) {
  for (char* at = static_cast<char*>(bytes); count > 0;) {
    const ssize_t got = ::read(descriptor_, at, count);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const std::string why = got == 0 ? "the file ended" : std::generic_category().message(errno);
      throw std::invalid_argument(fmt::format("{}: {} with {} bytes still to read", name_, why, count));
    }
    at += got;
    count -= static_cast<size_t>(got);
  }
}

std::filesystem::path followed(std::filesystem::path path) {
  constexpr int most_links = 40;  // Linux's own limit
  for (int i = 0; i < most_links && std::filesystem::is_symlink(path); ++i) {
    path = path.parent_path() / std::filesystem::read_symlink(path);  // an absolute one takes the whole place
  }
  return path;
}

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(followed(path)), temporary_(path_) {
  if (std::filesystem::exists(path_) && !std::filesystem::is_regular_file(path_)) {
    errno = std::filesystem::is_directory(path_) ? EISDIR : EINVAL;  // a rename would put a file where /dev/null was
    throw_errno(path.string() + " is no file to be replaced");
  }
  std::random_device random;
  temporary_ += fmt::format(".{:08x}{:08x}.tmp", random(), random());
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw_errno("cannot write " + temporary_.string());
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(const void* bytes, size_t count) {
  for (const char* at = static_cast<const char*>(bytes); count > 0;) {
    const ssize_t put = ::write(descriptor_, at, count);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw_errno("cannot write " + temporary_.string());
    at += put;
    count -= static_cast<size_t>(put);
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) throw_errno("cannot write " + temporary_.string());
  if (close(std::exchange(descriptor_, -1)) != 0) throw_errno("cannot write " + temporary_.string());
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) throw_errno("cannot write " + path_.string());
  temporary_.clear();
}

TemporaryFolder::TemporaryFolder(const std::string& prefix) {
  std::string path = (std::filesystem::temp_directory_path() / (prefix + "-XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr) throw_errno(path);
  path_ = path;
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::filesystem::path& path, uint64_t limit) {
  InputFile file(path);
  if (file.size() > limit) {
    throw std::invalid_argument(fmt::format("{}: {} bytes; at most {} are read", path.string(), file.size(), limit));
  }
  std::string bytes(file.size(), '\0');
  file.read(bytes.data(), bytes.size());
  return bytes;
}

std::string read_end(const std::filesystem::path& path, size_t most) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return "";
  std::string bytes(most, '\0');
  const off_t size = lseek(descriptor, 0, SEEK_END);
  const ssize_t got = pread(descriptor, bytes.data(), most, std::max(off_t{0}, size - static_cast<off_t>(most)));
  close(descriptor);
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return bytes;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, 60)) {
    const bool plain = c >= 0x20 && c < 0x7f;
    if (c == '"' || c == '\\') out += '\\';
    out += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out + (text.size() > 60 ? "...\"" : "\"");
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content.data(), content.size());
  file.commit();
}

}  // namespace files
