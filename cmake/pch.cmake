# Precompiled standard headers, for the builds with sanitizers alone (QR_PCH): a third of their time. Every other build
# goes without, so a file that forgets an #include does not compile there.

set(QR_PCH_HEADERS <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstring>
  <deque> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream>
  <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)

# What ccache takes in place of a precompiled file, which holds the path of its folder: a digest of the text that is in it.
function(quire_sum_of_pch name)
  set(dir ${CMAKE_BINARY_DIR}/CMakeFiles/${name}.dir)
  set(text "")
  foreach(header IN LISTS ARGN)
    string(APPEND text "#include ${header}\n")
  endforeach()
  file(WRITE ${dir}/sum.cc "${text}")
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${flags} -std=c++20 -E -P -o ${dir}/sum.ii ${dir}/sum.cc COMMAND_ERROR_IS_FATAL ANY)
  file(SHA256 ${dir}/sum.ii sum)
  file(REMOVE ${dir}/sum.ii ${dir}/sum.cc)
  foreach(suffix gch pch)
    file(WRITE ${dir}/cmake_pch.hxx.${suffix}.sum "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${sum}\n")
  endforeach()
endfunction()

function(quire_precompile)
  if(EXISTS /var/lib/dpkg/status)  # other headers may be there after an upgrade
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS /var/lib/dpkg/status)
  endif()
  foreach(name quire_pch quire_test_pch)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${name}.cc CONTENT "// Generated: carries the headers.\n")
    add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/generated/${name}.cc)
    target_link_libraries(${name} PRIVATE quire_options)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      target_compile_options(${name} PRIVATE -Xclang -fno-pch-timestamp)  # the same bytes each time: ccache keeps it
    endif()
  endforeach()
  target_link_libraries(quire_test_pch PRIVATE quire_thirdparty GTest::gmock)  # the definitions that tests have
  set(for_tests <gmock/gmock.h> <gtest/gtest.h>)
  target_precompile_headers(quire_pch PRIVATE ${QR_PCH_HEADERS})
  target_precompile_headers(quire_test_pch PRIVATE ${QR_PCH_HEADERS} ${for_tests})
  quire_sum_of_pch(quire_pch ${QR_PCH_HEADERS})
  quire_sum_of_pch(quire_test_pch ${QR_PCH_HEADERS} ${for_tests})
endfunction()

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Without -Xclang ccache sees a path and takes it relative to the project: clones elsewhere share the cache.
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include-pch <PCH_FILE>)
endif()

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
