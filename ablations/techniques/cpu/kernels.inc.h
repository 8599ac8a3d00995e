// The loops of kernels.h, included once for each instruction set by a file that sets KERNELS, the name of the table.
//
// The linker keeps one copy of each inline function of a program. It may be this file's, compiled for instructions that
// the machine lacks. So no such function of the standard library is used here, and ATen's vectors stand in a namespace
// for each instruction set.
#include "ablations/techniques/attention/cpu.inc.h"
#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/cross_entropy/cpu.inc.h"
#include "ablations/techniques/mlp/cpu.inc.h"
#include "ablations/techniques/norm/cpu.inc.h"
#include "ablations/techniques/products/cpu.inc.h"
#include "ablations/techniques/weights/cpu.inc.h"

namespace model::cpu {

const Kernels KERNELS{add_norm,  add_norm_backward,  gelu,     gelu_backward, loss, product,
                      attention, attention_backward, add_rows, squares,       adamw};

}  // namespace model::cpu
