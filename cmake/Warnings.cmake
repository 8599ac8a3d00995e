# ladder::warnings: what every target is compiled with, and the sanitizers of the asan preset.
add_library(ladder_warnings INTERFACE)
add_library(ladder::warnings ALIAS ladder_warnings)
target_compile_options(ladder_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  # Designated initializers leave the rest to the defaults on purpose; GCC 12 sees overflows in std::string that are none.
  -Wno-missing-field-initializers -Wno-stringop-overflow -Wno-array-bounds -Wno-restrict)
if(LADDER_WERROR)
  target_compile_options(ladder_warnings INTERFACE -Werror)
endif()
if(LADDER_SANITIZE)
  target_compile_options(ladder_warnings INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer -O1)
  target_link_options(ladder_warnings INTERFACE -fsanitize=address,undefined)
endif()
if(LADDER_FUZZ)
  target_compile_options(ladder_warnings INTERFACE -fsanitize=fuzzer-no-link -Wno-unknown-warning-option)
endif()
