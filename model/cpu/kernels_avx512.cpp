#define KERNELS avx512_kernels
#include "model/cpu/kernels.inc.h"
