# Precompiled standard headers, for the builds with sanitizers alone (QR_PCH): a third of their time. Every other build
# goes without, so a file that forgets an #include does not compile there.

set(QR_PCH_HEADERS <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstring>
  <deque> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream>
  <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)

function(quire_precompile)
  foreach(name quire_pch quire_test_pch)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${name}.cc CONTENT "// Generated: carries the headers.\n")
    add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/generated/${name}.cc)
    target_link_libraries(${name} PRIVATE quire_options)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      target_compile_options(${name} PRIVATE -Xclang -fno-pch-timestamp)  # the same bytes each time: ccache keeps it
    endif()
  endforeach()
  target_link_libraries(quire_test_pch PRIVATE quire_thirdparty GTest::gmock)  # the definitions that tests have
  target_precompile_headers(quire_pch PRIVATE ${QR_PCH_HEADERS})
  target_precompile_headers(quire_test_pch PRIVATE ${QR_PCH_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
endfunction()

# With the headers of `pch`, one of the two above. Files with flags of their own (kernels) go without.
function(quire_use_pch target pch)
  if(NOT QR_PCH)
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${pch})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # ccache looks at what was included
  endif()
endfunction()
