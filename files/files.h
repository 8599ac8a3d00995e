// Files that are read, and files written whole or not at all. Every file format of the program uses these.
// Input that cannot be used throws std::invalid_argument, output that cannot be written std::system_error; both name
// the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace files {

// A regular file open for reading.
class InputFile {
 public:
  // Throws std::invalid_argument if `path` cannot be opened or is not a regular file.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;  // owns a file descriptor
  InputFile& operator=(const InputFile&) = delete;

  // Bytes in the file when it was opened.
  [[nodiscard]] uint64_t size() const { return size_; }

  // The next `count` bytes; throws std::invalid_argument if there are fewer.
  void read(void* bytes, size_t count);

  // The `count` bytes from `offset` on; throws as read(), and does not move its place.
  void read_at(uint64_t offset, void* bytes, size_t count) const;

 private:
  friend class MappedFile;
  std::string name_;
  int descriptor_;
  uint64_t size_ = 0;
};

// A regular file in the process's memory, read-only: the kernel reads a page when it is first touched. If somebody
// makes the file shorter meanwhile, touching what is gone ends the process (SIGBUS).
class MappedFile {
 public:
  // Throws std::invalid_argument as InputFile, and for a file that cannot be mapped, such as an empty one.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;  // owns a mapping
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::string_view bytes() const { return {static_cast<const char*>(bytes_), size_}; }

 private:
  void* bytes_;
  size_t size_;
};

// Where a link leads, even if nothing is there yet; any other path unchanged.
[[nodiscard]] std::filesystem::path followed(std::filesystem::path path);

// What a symbolic link means to a writer. Somebody else may have prepared a folder of results. A link in it must not
// lead to the user's other files.
enum class Links {
  replaced,  // a link at the file's place is replaced, one in place of its folder refused (std::invalid_argument)
  followed,  // the file that the link leads to is written: for a path that the user has named
};

// The folder to which a link leads, for a path that the user has named; any other path unchanged.
[[nodiscard]] std::filesystem::path named_folder(const std::filesystem::path& path);

// Throws std::invalid_argument if a folder that is to be written into is a link.
void refuse_link(const std::filesystem::path& folder);

// The folder `name` in `folder`, made if there is none. Throws std::invalid_argument if it is a link, std::system_error
// if it cannot be made.
std::filesystem::path make_folder_in(const std::filesystem::path& folder, const std::string& name);

// Opens a new, empty file for writing in place of a file or link that is there (Links::replaced). Returns the
// descriptor; throws std::system_error naming the file.
[[nodiscard]] int open_new(const std::filesystem::path& path);

// All files in a folder and below whose path is `wanted`, sorted. Links to folders are not followed. Files that vanish
// meanwhile and folders that cannot be read are left out. Throws std::system_error if `folder` itself cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> files_below(
    const std::filesystem::path& folder, const std::function<bool(const std::filesystem::path&)>& wanted);

// Whether a killed writer of `name` leaves a file, or a folder, of this name: NAME.0123456789abcdef.tmp.
[[nodiscard]] bool is_unfinished(std::string_view file, std::string_view name);
// NAME of such a file; empty for any other.
[[nodiscard]] std::string finished_name(std::string_view file);

// "-", for a path that the user has named.
[[nodiscard]] bool is_standard_output(const std::filesystem::path& path);
// Throws std::system_error.
void write_standard_output(std::string_view bytes);

// A file that appears at `path` complete or not at all. It is written beside it under another name, then fsync and
// rename. Does not replace a device, a pipe or a folder. Everything here throws std::system_error naming the file.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path, Links links = Links::replaced);
  ~AtomicFile();                           // without commit(), leaves `path` as it was and removes what was written
  AtomicFile(const AtomicFile&) = delete;  // owns a file descriptor and a temporary file
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, size_t count);
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once renamed
  int folder_ = -1;                  // names are looked up in it, even if its path changes
  int descriptor_ = -1;
};

// A folder that appears at `path` complete or not at all. It is filled beside it under another name, then fsync and
// rename. Its files are written as AtomicFile does, which has them on the disk before. Everything here throws
// std::system_error.
class AtomicFolder {
 public:
  // Nothing may be at `path` yet.
  explicit AtomicFolder(const std::filesystem::path& path);
  ~AtomicFolder();                             // without commit(), removes what was written
  AtomicFolder(const AtomicFolder&) = delete;  // owns a temporary folder
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Where its files are written until commit().
  [[nodiscard]] const std::filesystem::path& place() const { return temporary_; }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once renamed
};

// Removes a folder with all that is in it. It loses its name first, so that a killed program leaves no part of it under
// that name. Throws std::system_error.
void remove_folder(const std::filesystem::path& path);

// A link at `path` to `target`, in place of a link that is there. Throws std::system_error, also for a file or a folder
// that is there.
void write_link(const std::filesystem::path& path, const std::filesystem::path& target);

// A file that grows at its end, a line at a time. Everything here throws std::system_error naming the file.
class GrowingFile {
 public:
  // Begins with `content`, in place of a file that is there, as write_file does it.
  GrowingFile(const std::filesystem::path& path, std::string_view content);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;  // owns a file descriptor
  GrowingFile& operator=(const GrowingFile&) = delete;

  void append(std::string_view text);
  // Returns when all of it is on the disk.
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_;
};

// An empty folder PREFIX-xxxxxx in the system's temporary one ($TMPDIR, else /tmp), removed with its owner. It is new,
// even if a killed process has left one there. Throws std::system_error.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& prefix);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// All bytes of a regular file; throws std::invalid_argument if it cannot be read or has more than `limit` bytes.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, uint64_t limit = UINT64_MAX);

// The last bytes of a file, at most `most`; "" if it cannot be read.
[[nodiscard]] std::string read_end(const std::filesystem::path& path, size_t most);

// Writes a file whole or not at all, as AtomicFile does.
void write_file(const std::filesystem::path& path, std::string_view content, Links links = Links::replaced);

// A number that nobody foresees. Not by std::random_device, whose static library needs glibc 2.36 on Debian 12. Throws
// std::system_error where the kernel has none.
uint64_t random_number();

// `text` in double quotes for a message of one line. At most 60 bytes; all but printable ASCII is shown as \xNN.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace files
