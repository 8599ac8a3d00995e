// Parts of packed attention on a GPU.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>

namespace model {

// qkv (B, T, 3C) -> query, key and value (B, T, NH, HS), views of it.
std::array<at::Tensor, 3> thirds_of(const at::Tensor& qkv, int64_t NH);

// Query, key and value (B, T, NH, HS) of 16 bits -> (B, T, C). One node of autograd's graph: FlashPackedAttention.
at::Tensor flash_packed_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);

}  // namespace model
