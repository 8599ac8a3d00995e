// A kernel's short name for tables and sentences.
#pragma once

#include <string>

namespace study {

// The function's own name, without return type, namespaces, template arguments and parameters; for ATen's and CUTLASS's
// general kernels with what they are for: "reduce<sum_functor>", "vectorized_elementwise<FillFunctor>".
// Takes demangled names; those that are no function's (an operation, a copy) stay as they are.
std::string kernel_label(const std::string& name);

// What kind of operation a name's label is: "matrix products", "attention", "copies and casts".
std::string operation_kind(const std::string& label);

}  // namespace study
