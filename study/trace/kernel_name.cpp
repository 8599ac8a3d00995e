#include "study/trace/kernel_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace study {

namespace {

// Kernels that say nothing without their template arguments.
bool is_general(std::string_view name) {
  static constexpr std::array parts{"elementwise_", "multi_tensor_apply_kernel", "device_kernel", "Kernel2"};
  const auto in_name = [&](const char* part) { return name.find(part) != std::string_view::npos; };
  return name == "Kernel" || name == "reduce_kernel" || std::ranges::any_of(parts, in_name);
}

// Namespaces, types of numbers, and what wraps the operation itself.
bool says_nothing(std::string_view word) {
  static constexpr std::string_view words =
      " at native cuda detail std c10 cutlass internal gemm kernel float double int long unsigned bool char "
      "short array BFloat16 Half ReduceOp OpaqueType func_wrapper_t BinaryFunctor AUnaryFunctor "
      "BUnaryFunctor binary_internal foreach_internal templates const true false void __half __nv_bfloat16 ";
  return std::isdigit(static_cast<unsigned char>(word.front())) != 0 || word.starts_with("gpu_kernel_impl") ||
         word.ends_with("Metadata") || words.find(fmt::format(" {} ", word)) != std::string_view::npos;
}

bool of_identifier(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view operation_in(std::string_view arguments) {
  for (size_t begin = 0; begin < arguments.size(); ++begin) {
    size_t end = begin;
    while (end < arguments.size() && of_identifier(arguments[end])) ++end;
    if (end == begin) continue;
    const std::string_view word = arguments.substr(begin, end - begin);
    if (!says_nothing(word)) return word;
    begin = end;
  }
  return {};
}

}  // namespace

std::string kernel_label(const std::string& name) {
  if (name.starts_with("aten::") || name.find('(') == std::string::npos) return name;
  constexpr std::string_view anonymous = "(anonymous namespace)::";
  std::string plain, arguments;
  int depth = 0;
  for (std::string_view rest = name; !rest.empty(); rest.remove_prefix(1)) {
    while (rest.starts_with(anonymous)) rest.remove_prefix(anonymous.size());
    if (rest.empty() || (rest.front() == '(' && depth == 0)) break;
    if (rest.front() == '<') ++depth;
    (depth == 0 ? plain : arguments) += rest.front();
    if (rest.front() == '>') --depth;
  }
  if (const size_t last = plain.find_last_of(" :"); last != std::string::npos) plain.erase(0, last + 1);
  if (plain.empty()) return name;
  const std::string_view operation = is_general(plain) ? operation_in(arguments) : std::string_view();
  if (operation.empty()) return plain;
  constexpr std::string_view suffix = "_kernel";  // said by the operation
  if (plain.ends_with(suffix)) plain.resize(plain.size() - suffix.size());
  return plain + "<" + std::string(operation) + ">";
}

std::string operation_kind(const std::string& label) {
  static constexpr std::pair<std::string_view, const char*> kinds[] = {{"multi_tensor", "optimizer"},
                                                                       {"adam", "optimizer"},
                                                                       {"foreach", "optimizer"},
                                                                       {"sdpa", "attention"},
                                                                       {"flash", "attention"},
                                                                       {"fmha", "attention"},
                                                                       {"attention", "attention"},
                                                                       {"layer_norm", "LayerNorm"},
                                                                       {"layernorm", "LayerNorm"},
                                                                       {"gammabeta", "LayerNorm"},
                                                                       {"add_norm", "LayerNorm"},
                                                                       {"cross_entropy", "loss"},
                                                                       {"nll_loss", "loss"},
                                                                       {"softmax", "softmax"},
                                                                       {"gemm", "matrix products"},
                                                                       {"nvjet", "matrix products"},
                                                                       {"cutlass", "matrix products"},
                                                                       {"splitk", "matrix products"},
                                                                       {"mm", "matrix products"},
                                                                       {"linear", "matrix products"},
                                                                       {"products", "matrix products"},
                                                                       {"gelu", "GELU"},
                                                                       {"embedding", "embedding"},
                                                                       {"copy", "copies and casts"},
                                                                       {"memcpy", "copies and casts"},
                                                                       {"aten::_to", "copies and casts"},
                                                                       {"mask", "masks"},
                                                                       {"where", "masks"},
                                                                       {"sum", "sums"},
                                                                       {"reduce", "sums"}};
  std::string lower = label;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& [part, kind] : kinds) {
    if (lower.find(part) != std::string::npos) return kind;
  }
  return "elementwise operations";
}

}  // namespace study
