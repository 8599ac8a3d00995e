#define KERNELS plain_kernels
#include "model/cpu/kernels.inc.h"
