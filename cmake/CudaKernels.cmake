# ladder_kernels: our own CUDA kernels, ablations/techniques/*/*.cu, as objects. Only these files need nvcc, and no GPU. LIB_cublasLt:
# what multiplies beside them.
#
# nvcc comes from the wheels that LibTorch's CUDA headers come from, else from the toolkit that is named or installed.
# -DLADDER_CUDA_KERNELS=OFF builds without; it is the default where there is no nvcc.

find_program(LADDER_NVCC nvcc HINTS ${wheel_cuda}/bin ${CUDAToolkit_ROOT}/bin $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(LADDER_NVCC)
  option(LADDER_CUDA_KERNELS "Build our own CUDA kernels" ON)
else()
  option(LADDER_CUDA_KERNELS "Build our own CUDA kernels" OFF)
endif()
# Machine code for the A100 and for the H100 and H200, and PTX for what comes later.
set(LADDER_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "What our own CUDA kernels are compiled for")

if(NOT LADDER_CUDA_KERNELS)
  set(why "LADDER_CUDA_KERNELS is OFF")
  if(NOT LADDER_NVCC)
    set(why "nvcc was not found; `make setup` installs it, or name a CUDA 13 toolkit with -DCUDAToolkit_ROOT=<folder>")
  endif()
  message(STATUS "Own CUDA kernels: not built (${why})")
  return()
endif()
if(NOT LADDER_NVCC)
  message(FATAL_ERROR "LADDER_CUDA_KERNELS is ON, and nvcc was not found. `make setup` installs it; or name a CUDA 13 toolkit "
    "with -DCUDAToolkit_ROOT=<folder>, or build without with -DLADDER_CUDA_KERNELS=OFF.")
endif()

# LibTorch has loaded the same library already.
find_library(LIB_cublasLt NAMES cublasLt libcublasLt.so.13 NAMES_PER_DIR HINTS ${wheel_cuda}/lib ${torch_root}/lib
  ${CUDAToolkit_ROOT}/lib64 /usr/local/cuda/lib64 $ENV{CUDA_HOME}/lib64)
if(NOT LIB_cublasLt)
  message(FATAL_ERROR "LADDER_CUDA_KERNELS is ON, and libcublasLt was not found. A CUDA 13 toolkit is named with "
    "-DCUDAToolkit_ROOT=<folder>; -DLADDER_CUDA_KERNELS=OFF builds without.")
endif()

# The run-time library is ladder::torch's, for the kernels and for what is linked with them: a second one, which CMake would
# add, has kernels of its own.
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
set(CMAKE_CUDA_COMPILER ${LADDER_NVCC})
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
set(CMAKE_CUDA_ARCHITECTURES ${LADDER_CUDA_ARCHITECTURES})
enable_language(CUDA)

file(GLOB kernel_sources CONFIGURE_DEPENDS ablations/techniques/*/*.cu)
add_library(ladder_kernels OBJECT ${kernel_sources})
target_include_directories(ladder_kernels PUBLIC ${PROJECT_SOURCE_DIR})
# CMake before 3.26 knows no C++20 for nvcc 13 and says nothing.
set_target_properties(ladder_kernels PROPERTIES CUDA_STANDARD_REQUIRED OFF POSITION_INDEPENDENT_CODE ON)
target_compile_options(ladder_kernels PRIVATE -std=c++20 -Xcompiler=-Wall,-Wextra)
message(STATUS "Own CUDA kernels: ${LADDER_NVCC}, for ${LADDER_CUDA_ARCHITECTURES}")
