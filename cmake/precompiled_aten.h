// Compiled once and shared by every target that works with tensors.
#pragma once

#include "cmake/precompiled.h"

#include <ATen/ATen.h>
