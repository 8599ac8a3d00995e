// A reader and writer of the safetensors format, named tensors in a file: 8 bytes header length, JSON header, data
// (https://github.com/huggingface/safetensors). Everything in the header is checked against the file's size before
// memory is allocated. The rules are the reference implementation's: no gaps, no overlaps, no bytes left over, no name
// twice.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace model {

// All tensors of the file, on the CPU, contiguous, each in memory of its own. Dtypes: F32, F64, F16, BF16, I64, I32,
// I16, U8, BOOL. Throws std::invalid_argument naming the file and what is wrong with it.
[[nodiscard]] std::map<std::string, at::Tensor> read_safetensors(const std::filesystem::path& path);

// The shapes of all tensors, from the header alone: the data are not read. Throws as read_safetensors does.
[[nodiscard]] std::map<std::string, std::vector<int64_t>> read_safetensors_shapes(const std::filesystem::path& path);

// Writes strided tensors of the same dtypes from any device, one copy at a time in memory; atomic. `metadata` becomes
// "__metadata__". Larger element types come first, so that every tensor is aligned for its type. Throws
// std::invalid_argument for what the format cannot hold, std::system_error if the file cannot be written.
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, at::Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace model
