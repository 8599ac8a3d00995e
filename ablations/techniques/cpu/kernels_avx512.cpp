#define KERNELS avx512_kernels
#include "ablations/techniques/cpu/kernels.inc.h"
