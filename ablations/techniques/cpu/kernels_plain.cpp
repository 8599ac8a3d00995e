#define KERNELS plain_kernels
#include "ablations/techniques/cpu/kernels.inc.h"
