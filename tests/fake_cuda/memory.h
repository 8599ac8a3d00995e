#pragma once

#include <driver_types.h>

#include <cstddef>

namespace fake_cuda {

size_t total_bytes();  // FAKE_CUDA_GIB, 139 by default
size_t free_bytes();
void* take(size_t bytes, bool of_host);  // nullptr: not there
bool give_back(void* data);              // false: no block of this device's
cudaMemoryType type_of(const void* pointer);
void copy(void* to, const void* from, size_t bytes);  // nothing within the device
void fill(void* to, int value, size_t bytes);

}  // namespace fake_cuda
