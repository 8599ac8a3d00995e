# The toolchain of the wheel's program, for CMAKE_TOOLCHAIN_FILE: Clang and its C++ library, as zig brings them. It links for the
# glibc that is named here, whatever this machine has, and for other processors. `zig` is in PyPI's package ziglang.

set(LADDER_GLIBC 2.28)  # that of Red Hat Enterprise Linux 8
set(LADDER_PROCESSOR x86_64 CACHE STRING "x86_64 or aarch64")
find_program(LADDER_ZIG zig REQUIRED)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LADDER_PROCESSOR LADDER_ZIG)

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${LADDER_PROCESSOR})
set(CMAKE_CXX_COMPILER ${LADDER_ZIG} c++ -target ${LADDER_PROCESSOR}-linux-gnu.${LADDER_GLIBC})
set(CMAKE_CXX_LIBRARY_ARCHITECTURE ${LADDER_PROCESSOR}-linux-gnu)  # where Debian has libpcre2-8.a
# 128-bit division. Zig's library for it also has exp() and log(), which would come before glibc's and give other last digits.
find_program(gcc ${LADDER_PROCESSOR}-linux-gnu-gcc REQUIRED)
execute_process(COMMAND ${gcc} -print-libgcc-file-name OUTPUT_VARIABLE libgcc OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(CMAKE_CXX_STANDARD_LIBRARIES ${libgcc})
# The machine's own tools know one processor.
set(CMAKE_CXX_ARCHIVE_CREATE "${LADDER_ZIG} ar qc <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "${LADDER_ZIG} ranlib <TARGET>")
set(CMAKE_STRIP "" CACHE FILEPATH "none: the linker strips")
set(CMAKE_EXE_LINKER_FLAGS_INIT -s)
set(CMAKE_LINK_DEPENDS_USE_LINKER OFF)  # zig 0.16 crashes when it lists them
set(CMAKE_CXX_FLAGS_INIT -Wno-unknown-warning-option)
find_program(emulator qemu-${LADDER_PROCESSOR}-static)
if(emulator AND NOT CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL LADDER_PROCESSOR)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${emulator})  # of the tests
endif()

# Debian's headers without those of its C library, which lie in the same folder.
foreach(headers boost CLI fmt gtest nlohmann pcre2.h)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/headers)
  file(CREATE_LINK /usr/include/${headers} ${CMAKE_BINARY_DIR}/headers/${headers} SYMBOLIC)
endforeach()
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/headers)
