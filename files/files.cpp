// File descriptors rather than streams: a stream on a folder opens without complaint, and only a descriptor can fsync.
#include "files/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace files {
namespace {

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// Asks read_some(at, left) until all bytes are there. It returns what ::read does.
void read_whole(const std::string& name, void* bytes, size_t count, const auto& read_some) {
  for (char* at = static_cast<char*>(bytes); count > 0;) {
    const ssize_t got = read_some(at, count);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const std::string why = got == 0 ? "the file ended early" : std::generic_category().message(errno);
      throw std::invalid_argument(fmt::format("{}: {} with {} bytes still to read", name, why, count));
    }
    at += got;
    count -= static_cast<size_t>(got);
  }
}

// A handle of the folder that a file lies in.
int open_folder(const std::filesystem::path& file, Links links) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const int no_link = links == Links::replaced ? O_NOFOLLOW : 0;
  const int descriptor = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | no_link);
  if (descriptor >= 0) return descriptor;
  const int error = errno;
  if (links == Links::replaced) refuse_link(folder);
  errno = error;
  throw_errno("cannot write " + file.string());
}

// What is written has this name until it is complete (is_unfinished).
std::filesystem::path unfinished(std::filesystem::path path) {
  path += fmt::format(".{:016x}.tmp", random_number());
  return path;
}

void write_all(int descriptor, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw_errno("cannot write " + path.string());
    bytes.remove_prefix(static_cast<size_t>(put));
  }
}

// Its entries are on the disk then. Some file systems have no such order: EINVAL.
void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL);
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  errno = error;
  if (!synced) throw_errno("cannot write " + folder.string());
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path)
    : name_(path.string()), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat status {};
  std::string why;
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
    why = std::generic_category().message(errno);
  } else if (S_ISDIR(status.st_mode)) {
    why = "is a folder, not a file";
  } else if (!S_ISREG(status.st_mode)) {
    why = "must be a file, got a device or a pipe";
  }
  if (!why.empty()) {
    if (descriptor_ >= 0) close(descriptor_);
    throw std::invalid_argument(fmt::format("{}: {}", name_, why));
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

InputFile::~InputFile() { close(descriptor_); }

void InputFile::read(void* bytes, size_t count) {
  read_whole(name_, bytes, count, [this](char* at, size_t left) { return ::read(descriptor_, at, left); });
}

void InputFile::read_at(uint64_t offset, void* bytes, size_t count) const {
  read_whole(name_, bytes, count, [&](char* at, size_t left) {
    const ssize_t got = ::pread(descriptor_, at, left, static_cast<off_t>(offset));
    if (got > 0) offset += static_cast<uint64_t>(got);
    return got;
  });
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const InputFile file(path);
  size_ = file.size();
  bytes_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor_, 0);  // stays when the file is closed
  if (bytes_ == MAP_FAILED) {
    throw std::invalid_argument(
        fmt::format("{}: cannot be mapped: {}", path.string(), std::generic_category().message(errno)));
  }
}

MappedFile::~MappedFile() { ::munmap(bytes_, size_); }

std::filesystem::path followed(std::filesystem::path path) {
  constexpr int most_links = 40;  // Linux's own limit
  for (int i = 0; i < most_links && std::filesystem::is_symlink(path); ++i) {
    path = path.parent_path() / std::filesystem::read_symlink(path);  // an absolute one takes the whole place
  }
  return path;
}

std::filesystem::path named_folder(const std::filesystem::path& path) {
  // "link/" is a link, too, but is_symlink does not see it with the slash at the end.
  return followed(path.has_filename() ? path : path.parent_path());
}

void refuse_link(const std::filesystem::path& folder) {
  std::error_code unknown;
  if (!std::filesystem::is_symlink(folder, unknown)) return;
  throw std::invalid_argument(fmt::format(
      "{}: is a symbolic link, and the program does not write through links; put a folder there, or name another",
      folder.string()));
}

std::filesystem::path make_folder_in(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path path = folder / name;
  refuse_link(path);
  std::filesystem::create_directory(path);
  return path;
}

int open_new(const std::filesystem::path& path) {
  const int folder = open_folder(path, Links::replaced);
  const std::string name = path.filename().string();
  struct stat status {};
  // Others who have the old file open keep its content: it is unlinked, not emptied.
  const bool gives_way = fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                         (S_ISREG(status.st_mode) || S_ISLNK(status.st_mode));
  const int descriptor = gives_way && unlinkat(folder, name.c_str(), 0) != 0
                             ? -1
                             : openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  const int error = errno;
  close(folder);
  errno = error;
  if (descriptor < 0) throw_errno(path.string() + ": cannot be written");
  return descriptor;
}

std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               const std::function<bool(const std::filesystem::path&)>& wanted) {
  namespace fs = std::filesystem;
  std::vector<fs::path> found, waiting;
  const auto look_into = [&](fs::directory_iterator entries) {
    for (std::error_code gone; entries != fs::directory_iterator() && !gone; entries.increment(gone)) {
      std::error_code unknown;
      const fs::file_type type = entries->symlink_status(unknown).type();
      if (type == fs::file_type::directory) waiting.push_back(entries->path());
      if (wanted(entries->path()) && !entries->is_directory(unknown)) found.push_back(entries->path());
    }
  };
  look_into(fs::directory_iterator(folder));
  while (!waiting.empty()) {
    const fs::path next = std::move(waiting.back());
    waiting.pop_back();
    std::error_code closed;
    look_into(fs::directory_iterator(next, closed));
  }
  std::ranges::sort(found);
  return found;
}

bool is_unfinished(std::string_view file, std::string_view name) {
  return !name.empty() && finished_name(file) == name;
}

std::string finished_name(std::string_view file) {
  constexpr size_t digits = 16;
  constexpr std::string_view ending = ".tmp";
  constexpr size_t added = 1 + digits + ending.size();
  if (file.size() <= added || !file.ends_with(ending)) return "";
  const std::string_view name = file.substr(0, file.size() - added), number = file.substr(name.size() + 1, digits);
  const bool is_number = number.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return file[name.size()] == '.' && is_number ? std::string(name) : "";
}

bool is_standard_output(const std::filesystem::path& path) { return path == "-"; }

void write_standard_output(std::string_view bytes) { write_all(STDOUT_FILENO, bytes, "standard output"); }

AtomicFile::AtomicFile(const std::filesystem::path& path, Links links)
    : path_(links == Links::followed ? followed(path) : path),
      temporary_(unfinished(path_)),
      folder_(open_folder(path_, links)) {
  struct stat status {};
  const bool is_there = fstatat(folder_, path_.filename().c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (is_there && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) {
    close(folder_);
    errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;  // a rename would put a file where /dev/null was
    throw_errno(path.string() + " is no file to be replaced");
  }
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  descriptor_ = openat(folder_, temporary_.filename().c_str(), flags, 0666);
  if (descriptor_ < 0) {
    const int error = errno;
    close(folder_);
    errno = error;
    throw_errno("cannot write " + temporary_.string());
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlinkat(folder_, temporary_.filename().c_str(), 0);
  close(folder_);
}

void AtomicFile::write(const void* bytes, size_t count) {
  write_all(descriptor_, {static_cast<const char*>(bytes), count}, temporary_);
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) throw_errno("cannot write " + temporary_.string());
  if (close(std::exchange(descriptor_, -1)) != 0) throw_errno("cannot write " + temporary_.string());
  if (renameat(folder_, temporary_.filename().c_str(), folder_, path_.filename().c_str()) != 0) {
    throw_errno("cannot write " + path_.string());
  }
  temporary_.clear();
}

AtomicFolder::AtomicFolder(const std::filesystem::path& path) : path_(path), temporary_(unfinished(path)) {
  std::filesystem::create_directory(temporary_);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  sync_folder(temporary_);
  std::filesystem::rename(temporary_, path_);
  temporary_.clear();
  sync_folder(path_.parent_path());
}

void remove_folder(const std::filesystem::path& path) {
  const std::filesystem::path nameless = unfinished(path);
  std::filesystem::rename(path, nameless);
  std::filesystem::remove_all(nameless);
}

void write_link(const std::filesystem::path& path, const std::filesystem::path& target) {
  if (const auto there = std::filesystem::symlink_status(path); exists(there) && !is_symlink(there)) {
    errno = EEXIST;
    throw_errno(path.string() + " is no link to be replaced");
  }
  const std::filesystem::path temporary = unfinished(path);
  std::filesystem::create_symlink(target, temporary);
  std::filesystem::rename(temporary, path);
}

GrowingFile::GrowingFile(const std::filesystem::path& path, std::string_view content) : path_(path) {
  write_file(path, content);
  descriptor_ = open(path.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor_ < 0) throw_errno("cannot write " + path.string());
}

GrowingFile::~GrowingFile() { close(descriptor_); }

void GrowingFile::append(std::string_view text) { write_all(descriptor_, text, path_); }

void GrowingFile::sync() {
  if (fsync(descriptor_) != 0) throw_errno("cannot write " + path_.string());
}

TemporaryFolder::TemporaryFolder(const std::string& prefix) {
  std::string path = (std::filesystem::temp_directory_path() / (prefix + "-XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr) throw_errno(path);
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::filesystem::path& path, uint64_t limit) {
  InputFile file(path);
  if (file.size() > limit) {
    throw std::invalid_argument(fmt::format("{}: must be at most {} bytes, got {}", path.string(), limit, file.size()));
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

uint64_t random_number() {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) throw_errno("no random number");
  return number;
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

void write_file(const std::filesystem::path& path, std::string_view content, Links links) {
  AtomicFile file(path, links);
  file.write(content.data(), content.size());
  file.commit();
}

}  // namespace files
