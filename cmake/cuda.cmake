# The CUDA backend's three forms (docs/backend-cuda.md):
#   QR_CUDA           NVIDIA's driver, opened at run time, with kernels that nvcc compiles and the program carries
#   QR_CUDA_EMULATED  the emulator, for tests; beside it the program quire_on_driver, which opens a driver as the first does,
#                     and a libcuda.so.1 for tests to be that driver
#   neither           a backend that says it is not there

# What a program's kernels are compiled for. tools/check_cuda holds each instance to limits for the same architectures.
set(QR_CUDA_ARCHITECTURES 80 90a 100 120)
set(QR_CUDA_DIR ${CMAKE_SOURCE_DIR}/src/backend/cuda)

# Of the room's sources those that every program of this build has.
function(quire_cuda_sources list)
  set(sources "${${list}}")
  if(QR_CUDA OR QR_CUDA_EMULATED)
    list(FILTER sources EXCLUDE REGEX "/(no_device|open_runtime|image|fake_libcuda)\\.cc$")
  else()
    list(FILTER sources INCLUDE REGEX "/no_device\\.cc$")
  endif()
  if(NOT QR_CUDA_EMULATED)
    list(FILTER sources EXCLUDE REGEX "/cuda/(emulated/.*|.*_test)\\.cc$")
  endif()
  set(${list} "${sources}" PARENT_SCOPE)
endfunction()

# kernels.fatbin, and a source that carries it.
function(quire_cuda_image out)
  find_program(NVCC nvcc HINTS /usr/local/cuda/bin REQUIRED)
  set(dir ${CMAKE_BINARY_DIR}/generated/backend_cuda)
  file(GLOB kernels CONFIGURE_DEPENDS ${QR_CUDA_DIR}/kernels/*.cuh ${QR_CUDA_DIR}/device/*)
  set(codes "")
  foreach(architecture IN LISTS QR_CUDA_ARCHITECTURES)
    list(APPEND codes -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  add_custom_command(OUTPUT ${dir}/kernels.fatbin
    COMMAND ${NVCC} -std=c++20 -O3 -fmad=false -I${CMAKE_SOURCE_DIR}/src -fatbin ${codes} ${QR_CUDA_DIR}/device/entries.cu
      -o ${dir}/kernels.fatbin
    DEPENDS ${kernels} ${CMAKE_SOURCE_DIR}/src/ops/activation.h
    VERBATIM)
  quire_write(${dir}/image.cc "// Generated: the kernels that nvcc compiled.
#include \"backend/cuda/driver/runtime_cuda.h\"

asm(R\"(
  .section .rodata
  .balign 16
  .global quire_kernels_begin, quire_kernels_end
quire_kernels_begin:
  .incbin \"${dir}/kernels.fatbin\"
quire_kernels_end:
  .text
)\");

extern \"C\" const std::byte quire_kernels_begin[], quire_kernels_end[];

namespace quire::cuda {
std::span<const std::byte> kernel_image() { return {quire_kernels_begin, quire_kernels_end}; }
}  // namespace quire::cuda
")
  set_source_files_properties(${dir}/image.cc PROPERTIES OBJECT_DEPENDS ${dir}/kernels.fatbin)
  set(${out} ${dir}/image.cc PARENT_SCOPE)
endfunction()

# libcuda.so.1 for tests, in a folder of its own.
function(quire_cuda_fake_driver)
  set(dir ${QR_CUDA_DIR}/emulated)
  add_library(fake_libcuda SHARED ${dir}/fake_libcuda.cc ${dir}/runtime_fake.cc ${dir}/streams.cc
    ${dir}/emulator.cc ${dir}/async.cc ${dir}/tensor_core.cc
    ${dir}/kernel_bodies.cc)
  target_link_libraries(fake_libcuda PRIVATE quire_options ${BOOST_CONTEXT_LIBRARY})
  set_target_properties(fake_libcuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_driver
    OUTPUT_NAME cuda SUFFIX .so.1 POSITION_INDEPENDENT_CODE ON)
endfunction()

# cuda_emulated and cuda_on_driver: which device a program opens; one of them is the default.
function(quire_cuda_devices)
  if(QR_CUDA_EMULATED)
    add_library(cuda_emulated OBJECT ${QR_CUDA_DIR}/emulated/open_runtime.cc)
    target_link_libraries(cuda_emulated PUBLIC quire_options)
    quire_cuda_fake_driver()
    set(QR_CUDA_DEFAULT cuda_emulated CACHE INTERNAL "")
  elseif(QR_CUDA)
    set(QR_CUDA_DEFAULT cuda_on_driver CACHE INTERNAL "")
  else()
    set(QR_CUDA_DEFAULT "" CACHE INTERNAL "")
    return()
  endif()
  if(QR_CUDA)
    quire_cuda_image(image)
  else()
    set(image ${QR_CUDA_DIR}/emulated/image.cc)
  endif()
  add_library(cuda_on_driver OBJECT ${QR_CUDA_DIR}/driver/open_runtime.cc ${image})
  target_link_libraries(cuda_on_driver PUBLIC quire_options)
endfunction()

function(quire_link_cuda target)
  set(device ${QR_CUDA_DEFAULT})
  if(ARGN)
    set(device ${ARGN})
  endif()
  if(device)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${device}>)
  endif()
  if(TARGET fake_libcuda)
    add_dependencies(${target} fake_libcuda)
  endif()
endfunction()
