#define KERNELS avx2_kernels
#include "model/cpu/kernels.inc.h"
