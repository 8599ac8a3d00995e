// The header is JSON from strangers. It is checked for repeated names, of which a JSON parser silently keeps one. No
// number in it is used before it is known to fit the file. The bytes of a bool tensor are checked, too: a bool that is
// neither 0 nor 1 is undefined behaviour in C++.
#include "model/safetensors.h"

#include "files/files.h"
#include "files/what_is.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace model {
namespace {

using nlohmann::json;

constexpr uint64_t kLongestHeader = 100'000'000;  // the reference's MAX_HEADER_SIZE
constexpr size_t kMostDimensions = 64;            // at::TensorIterator takes no more
constexpr int kDeepestNesting = 3;                // a shape in an entry in the header; more would only cost memory
constexpr std::string_view kMetadata = "__metadata__";

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 9> kDtypes = {{
    {"F32", at::kFloat},
    {"F64", at::kDouble},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
}};

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw std::invalid_argument(fmt::format("{}: {}", path.string(), why));
}

struct Entry {
  std::string name;
  at::ScalarType type;
  std::vector<int64_t> shape;
  uint64_t begin;  // bytes from the start of the data
  uint64_t end;
};

json parse_header(const std::filesystem::path& path, const std::string& header) {
  std::vector<std::set<std::string>> open_objects;  // the names met so far in each
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kDeepestNesting) refuse(path, fmt::format("the header is nested deeper than {}", kDeepestNesting));
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!open_objects.back().insert(name).second) {
        refuse(path, fmt::format("the header has the name {} twice", files::in_quotes(name)));
      }
    }
    return true;
  };
  json parsed;
  try {
    parsed = json::parse(header, watch);
  } catch (const json::parse_error& error) {
    refuse(path, fmt::format("the header is not valid JSON at byte {} of {}", error.byte, header.size()));
  } catch (const json::exception&) {
    refuse(path, "the header has a number that does not fit; lengths are below 2^63");
  }
  if (!header.starts_with('{') || !parsed.is_object()) {
    refuse(path, "the header must be a JSON object, from its first byte");
  }
  return parsed;
}

// Bytes of a tensor. Every partial product must be below 2^63, because ATen's strides need it even if a 0 follows.
uint64_t byte_count(const std::filesystem::path& path, const Entry& entry) {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(entry.type));
  bool is_empty = false;
  for (const int64_t extent : entry.shape) {
    is_empty |= extent == 0;
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes)) {
      refuse(path, fmt::format("tensor {}: its shape must take at most 2^63 - 1 bytes", files::in_quotes(entry.name)));
    }
  }
  return is_empty ? 0 : static_cast<uint64_t>(bytes);
}

Entry parse_entry(const std::filesystem::path& path, const std::string& name, const json& fields) {
  const auto refuse_entry = [&](const std::string& why) {
    refuse(path, fmt::format("tensor {}: {}", files::in_quotes(name), why));
  };
  if (!fields.is_object() || !fields.contains("dtype") || !fields.contains("shape") ||
      !fields.contains("data_offsets")) {
    refuse_entry("its entry must be an object with dtype, shape and data_offsets");
  }
  const json& dtype = fields["dtype"];
  const json& shape = fields["shape"];
  const json& offsets = fields["data_offsets"];
  if (!dtype.is_string()) refuse_entry("dtype must be a string");
  const auto& spelled = dtype.get_ref<const std::string&>();
  const auto* known = std::ranges::find(kDtypes, std::string_view(spelled), &decltype(kDtypes)::value_type::first);
  if (known == kDtypes.end()) {
    refuse_entry(fmt::format("dtype must be one of F32, F64, F16, BF16, I64, I32, I16, U8, BOOL, got {}",
                             files::in_quotes(spelled)));
  }
  Entry entry{name, known->second, {}, 0, 0};
  if (!shape.is_array() || shape.size() > kMostDimensions) {
    refuse_entry(fmt::format("shape must be an array of at most {} numbers", kMostDimensions));
  }
  for (const json& extent : shape) {
    if (!extent.is_number_unsigned() || extent.get<uint64_t>() > std::numeric_limits<int64_t>::max()) {
      refuse_entry("shape must hold whole numbers from 0 to 2^63 - 1");
    }
    entry.shape.push_back(extent.get<int64_t>());
  }
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    refuse_entry("data_offsets must be two whole numbers from 0 on");
  }
  entry.begin = offsets[0].get<uint64_t>();
  entry.end = offsets[1].get<uint64_t>();
  if (const uint64_t needed = byte_count(path, entry); entry.end < entry.begin || entry.end - entry.begin != needed) {
    refuse_entry(fmt::format("data_offsets must span the {} bytes of its shape and dtype, got {} to {}", needed,
                             entry.begin, entry.end));
  }
  return entry;
}

void check_metadata(const std::filesystem::path& path, const json& metadata) {
  const bool strings =
      std::all_of(metadata.begin(), metadata.end(), [](const json& value) { return value.is_string(); });
  if (!metadata.is_object() || !strings) refuse(path, "__metadata__ must be an object of strings");
}

// The entries in the order of their data. Together they cover the data exactly.
std::vector<Entry> parse_entries(const std::filesystem::path& path, const json& header, uint64_t data_size) {
  std::vector<Entry> entries;
  for (const auto& [name, fields] : header.items()) {
    if (name == kMetadata) {
      check_metadata(path, fields);
    } else {
      entries.push_back(parse_entry(path, name, fields));
    }
  }
  std::ranges::sort(entries, {}, [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  uint64_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != covered || entry.end > data_size) {
      refuse(path, fmt::format("tensor {}: data_offsets must begin at {} and end by {}, got {} to {}",
                               files::in_quotes(entry.name), covered, data_size, entry.begin, entry.end));
    }
    covered = entry.end;
  }
  if (covered != data_size) {
    refuse(path, fmt::format("tensors must cover all {} bytes of data, but cover {}", data_size, covered));
  }
  return entries;
}

// Reads the entries of an open file and leaves it at the first byte of the data.
std::vector<Entry> read_entries(const std::filesystem::path& path, files::InputFile& file) {
  files::refuse_other(path, files::safetensors_file);
  uint64_t header_size = 0;
  if (file.size() < sizeof(header_size)) refuse(path, fmt::format("must have at least 8 bytes, got {}", file.size()));
  file.read(&header_size, sizeof(header_size));
  const uint64_t rest = file.size() - sizeof(header_size);
  if (header_size > std::min(rest, kLongestHeader)) {
    refuse(path, fmt::format("not a safetensors file: its header must be at most {} bytes, got {}",
                             std::min(rest, kLongestHeader), header_size));
  }
  std::string header(header_size, '\0');
  file.read(header.data(), header.size());
  return parse_entries(path, parse_header(path, header), rest - header_size);
}

}  // namespace

std::map<std::string, std::vector<int64_t>> read_safetensors_shapes(const std::filesystem::path& path) {
  files::InputFile file(path);
  std::map<std::string, std::vector<int64_t>> shapes;
  for (Entry& entry : read_entries(path, file)) shapes.emplace(entry.name, std::move(entry.shape));
  return shapes;
}

std::map<std::string, at::Tensor> read_safetensors(const std::filesystem::path& path) {
  files::InputFile file(path);
  std::map<std::string, at::Tensor> tensors;
  for (const Entry& entry : read_entries(path, file)) {
    at::Tensor tensor = at::empty(entry.shape, entry.type);
    const size_t size = entry.end - entry.begin;
    auto* const bytes = static_cast<uint8_t*>(tensor.mutable_data_ptr());
    file.read(bytes, size);
    if (entry.type == at::kBool && std::any_of(bytes, bytes + size, [](uint8_t byte) { return byte > 1; })) {
      refuse(path, fmt::format("tensor {}: the bytes of a BOOL must be 0 or 1", files::in_quotes(entry.name)));
    }
    tensors.emplace(entry.name, std::move(tensor));
  }
  return tensors;
}

void write_safetensors(const std::filesystem::path& path, const std::map<std::string, at::Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<std::pair<std::string, at::Tensor>> ordered(tensors.begin(), tensors.end());
  json header = json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  for (const auto& [name, tensor] : ordered) {
    if (name == kMetadata) refuse(path, "a tensor cannot be named __metadata__");
    if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_meta() || tensor.is_quantized()) {
      refuse(path, fmt::format("tensor {}: only plain strided tensors can be written", files::in_quotes(name)));
    }
  }
  std::ranges::stable_sort(ordered, std::greater<>(), [](const auto& item) { return item.second.element_size(); });
  size_t offset = 0;
  for (const auto& [name, tensor] : ordered) {
    const auto* known = std::ranges::find(kDtypes, tensor.scalar_type(), &decltype(kDtypes)::value_type::second);
    if (known == kDtypes.end()) {
      refuse(path, fmt::format("tensor {}: dtype must be one of F32, F64, F16, BF16, I64, I32, I16, U8, BOOL, got {}",
                               files::in_quotes(name), c10::toString(tensor.scalar_type())));
    }
    const size_t end = offset + tensor.numel() * tensor.element_size();
    header[name] = {{"dtype", known->first}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    refuse(path, "names and metadata must be valid UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t header_size = text.size();
  if (header_size > kLongestHeader) {
    refuse(path, fmt::format("the header must be at most {} bytes, got {}", kLongestHeader, header_size));
  }
  files::AtomicFile file(path, files::Links::followed);
  file.write(&header_size, sizeof(header_size));
  file.write(text.data(), text.size());
  for (const auto& [name, tensor] : ordered) {
    const at::Tensor copy = tensor.detach().to(at::kCPU).contiguous();
    file.write(copy.const_data_ptr(), copy.nbytes());
  }
  file.commit();
}

}  // namespace model
