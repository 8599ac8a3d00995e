#define KERNELS avx2_kernels
#include "ablations/techniques/cpu/kernels.inc.h"
