# LibTorch and CUDA's run-time library as imported targets: ladder::torch.
#
# Torch's own package file is not used: it enables the CUDA language and puts libcuda's stub on the link line, so that the
# program would not start on a machine without a driver. A wheel (site-packages/torch), a LibTorch archive with a CUDA
# toolkit beside it, and a system installation all work through CMAKE_PREFIX_PATH; the wheel's CUDA headers and libraries
# lie in site-packages/nvidia/cu13 and are found from there.

set(LADDER_TORCH_VERSION 2.11)

find_path(TORCH_INCLUDE_DIR ATen/ATen.h PATH_SUFFIXES include)
if(NOT TORCH_INCLUDE_DIR)
  message(FATAL_ERROR "LibTorch ${LADDER_TORCH_VERSION} not found under CMAKE_PREFIX_PATH=${CMAKE_PREFIX_PATH}.\n"
    "`make build` installs it; or pass -DCMAKE_PREFIX_PATH=<site-packages>/torch or an unpacked LibTorch archive.")
endif()
file(STRINGS ${TORCH_INCLUDE_DIR}/torch/headeronly/version.h version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX MATCHALL "[0-9]+" version_numbers "${version_lines}")
list(JOIN version_numbers . torch_full_version)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" torch_version "${torch_full_version}")
option(LADDER_OTHER_TORCH "Take another LibTorch than ${LADDER_TORCH_VERSION}: nobody has proven its numbers" OFF)
if(NOT torch_version STREQUAL LADDER_TORCH_VERSION AND NOT LADDER_OTHER_TORCH)
  message(FATAL_ERROR "LibTorch ${torch_version} in ${TORCH_INCLUDE_DIR}; this project is written for ${LADDER_TORCH_VERSION} "
    "(-DLADDER_OTHER_TORCH=ON tries another).")
endif()

cmake_path(GET TORCH_INCLUDE_DIR PARENT_PATH torch_root)
cmake_path(GET torch_root PARENT_PATH site_packages)
set(wheel_cuda ${site_packages}/nvidia/cu13)

foreach(library c10 torch_cpu c10_cuda torch_cuda torch)
  find_library(LIB_${library} ${library} PATHS ${torch_root}/lib NO_DEFAULT_PATH)
  if(NOT LIB_${library})
    message(FATAL_ERROR "lib${library}.so not found in ${torch_root}/lib: a LibTorch built for CUDA 13 is needed "
      "(it runs on machines without a GPU, too).")
  endif()
endforeach()
# The file itself, where a wheel lacks the link "libX.so", and not another CUDA's of that name: NAMES_PER_DIR.
find_path(CUDART_INCLUDE_DIR cuda_runtime_api.h HINTS ${wheel_cuda}/include ${CUDAToolkit_ROOT}/include
  /usr/local/cuda/include $ENV{CUDA_HOME}/include)
find_library(LIB_cudart NAMES cudart libcudart.so.13 NAMES_PER_DIR
  HINTS ${wheel_cuda}/lib ${torch_root}/lib ${CUDAToolkit_ROOT}/lib64 /usr/local/cuda/lib64 $ENV{CUDA_HOME}/lib64)
# CUPTI: libtorch_cpu has loaded the same library already.
find_path(CUPTI_INCLUDE_DIR cupti.h HINTS ${wheel_cuda}/include ${CUDAToolkit_ROOT}/include
  ${CUDAToolkit_ROOT}/extras/CUPTI/include /usr/local/cuda/extras/CUPTI/include $ENV{CUDA_HOME}/extras/CUPTI/include)
find_library(LIB_cupti NAMES cupti libcupti.so.13 NAMES_PER_DIR HINTS ${wheel_cuda}/lib ${torch_root}/lib ${CUDAToolkit_ROOT}/lib64
  ${CUDAToolkit_ROOT}/extras/CUPTI/lib64 /usr/local/cuda/extras/CUPTI/lib64 $ENV{CUDA_HOME}/extras/CUPTI/lib64)
# NCCL's header; LibTorch has loaded the library. Without it data parallel training works on CPUs only.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${site_packages}/nvidia/nccl/include)
if(NOT CUDART_INCLUDE_DIR OR NOT LIB_cudart OR NOT CUPTI_INCLUDE_DIR OR NOT LIB_cupti)
  message(FATAL_ERROR "CUDA 13 headers, libcudart or CUPTI not found; a toolkit is named with -DCUDAToolkit_ROOT=<folder>.")
endif()

add_library(ladder_torch INTERFACE)
add_library(ladder::torch ALIAS ladder_torch)
# The wheel ships headers of other libraries (fmt, nlohmann), whose compiled part it keeps to itself: searched last, so that
# the system's are found first.
target_compile_options(ladder_torch INTERFACE "SHELL:-idirafter \"${TORCH_INCLUDE_DIR}\""
  "SHELL:-idirafter \"${TORCH_INCLUDE_DIR}/torch/csrc/api/include\"" "SHELL:-idirafter \"${CUDART_INCLUDE_DIR}\""
  "SHELL:-idirafter \"${CUPTI_INCLUDE_DIR}\"")
# Nothing refers to libtorch_cuda by name, but loading it registers the CUDA backend.
target_link_libraries(ladder_torch INTERFACE
  ${LIB_torch_cpu} ${LIB_c10} ${LIB_c10_cuda} ${LIB_cudart} ${LIB_cupti}
  -Wl,--push-state,--no-as-needed ${LIB_torch_cuda} -Wl,--pop-state)
target_link_options(ladder_torch INTERFACE -Wl,--disable-new-dtags)
foreach(library ${LIB_torch_cpu} ${LIB_cudart} ${LIB_cupti})
  cmake_path(GET library PARENT_PATH folder)
  list(APPEND LADDER_LIBRARY_FOLDERS ${folder})
endforeach()
message(STATUS "LibTorch ${torch_version}: ${torch_root}; CUDA run-time library: ${LIB_cudart}")
