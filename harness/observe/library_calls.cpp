#include "harness/observe/library_calls.h"

#include <ATen/ATen.h>
#include <ATen/native/verbose_wrapper.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace harness {

namespace {

std::vector<std::string> split(const std::string& line, char separator) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, separator);) fields.push_back(field);
  return fields;
}

// Standard output goes into a nameless file from construction to destruction.
class RedirectedStdout {
 public:
  RedirectedStdout() : file_(::memfd_create("library-calls", MFD_CLOEXEC)), original_(::dup(1)) {
    std::fflush(stdout);
    if (file_ < 0 || original_ < 0 || ::dup2(file_, 1) < 0) {
      throw std::system_error(errno, std::generic_category(), "library_calls: standard output");
    }
  }
  ~RedirectedStdout() {
    restore();
    ::close(file_);
    ::close(original_);
  }
  RedirectedStdout(const RedirectedStdout&) = delete;  // restores once
  RedirectedStdout& operator=(const RedirectedStdout&) = delete;

  std::string restore() {
    std::fflush(stdout);
    ::dup2(original_, 1);
    const off_t size = ::lseek(file_, 0, SEEK_END);
    std::string text(static_cast<size_t>(std::max<off_t>(size, 0)), '\0');
    const ssize_t got = ::pread(file_, text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }

 private:
  int file_, original_;
};

}  // namespace

std::vector<std::string> silence_libraries() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view entry(*variable);
    const std::string_view name = entry.substr(0, entry.find('='));
    const auto is_of = [&](std::string_view library) { return name.starts_with(library); };
    const bool of_either = is_of("MKL_") || is_of("MKLDNN_") || is_of("DNNL_") || is_of("ONEDNN_");
    if (of_either && name.find("_VERBOSE") != std::string_view::npos) names.emplace_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
  return names;
}

std::map<std::string, int64_t> library_calls(const std::function<void()>& work) {
  RedirectedStdout output;
  struct Verbose {
    Verbose() { set(1); }
    ~Verbose() { set(0); }
    static void set(int level) {
      torch::verbose::_mkl_set_verbose(level);
      torch::verbose::_mkldnn_set_verbose(level);
    }
  };
  {
    const Verbose verbose;
    work();
  }
  return count_library_calls(output.restore());
}

std::map<std::string, int64_t> count_library_calls(const std::string& log) {
  std::map<std::string, int64_t> calls;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("MKL_VERBOSE ") && line.find('(') != std::string::npos &&
        !line.starts_with("MKL_VERBOSE oneMKL")) {
      std::string name = line.substr(12, line.find('(') - 12);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      ++calls["mkl " + name];
    } else if (line.starts_with("onednn_verbose,")) {
      // onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core,undef,src:f32::blocked:ab::f0 wei:...
      const std::vector<std::string> fields = split(line, ',');
      if (fields.size() < 9 || fields[2] != "primitive" || fields[3] != "exec") continue;
      const size_t type = fields[8].find("src:");
      const size_t end = type == std::string::npos ? type : fields[8].find(':', type + 4);
      const std::string source = end == std::string::npos ? "?" : fields[8].substr(type + 4, end - type - 4);
      ++calls[fmt::format("onednn {} {} ({})", fields[5], source, fields[6])];
    }
  }
  return calls;
}

namespace {

// Callbacks are plain functions, so they write to global data.
std::atomic<bool> active = false;
std::atomic<int64_t> calls_seen = 0, bytes_seen = 0;

std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& function) {
  if (std::string_view(function.name()) != "c10d::allreduce_") return nullptr;
  ++calls_seen;
  const auto inputs = function.inputs();
  if (inputs.empty() || !inputs[0].isTensorList()) return nullptr;
  for (const at::Tensor& tensor : inputs[0].toTensorVector()) bytes_seen += static_cast<int64_t>(tensor.nbytes());
  return nullptr;
}

}  // namespace

AllReduces::AllReduces() {
  if (active.exchange(true)) throw std::logic_error("AllReduces: one is already counting");
  calls_seen = bytes_seen = 0;
  handle_ =
      at::addGlobalCallback(at::RecordFunctionCallback(see).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

AllReduces::~AllReduces() {
  at::removeCallback(handle_);
  active = false;
}

int64_t AllReduces::calls() const { return calls_seen; }
int64_t AllReduces::bytes() const { return bytes_seen; }

}  // namespace harness
