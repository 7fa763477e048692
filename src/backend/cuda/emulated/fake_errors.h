// Errors of NVIDIA's driver that the one for tests (fake_libcuda.h) returns: their numbers, and their names.
#pragma once

#include "backend/cuda/driver/driver.h"

namespace quire::cuda::fake {

enum : int {
  kInvalidValue = 1,
  kNotInitialised = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotFound = 500,
  kIllegalAddress = 700,
  kTooManyThreads = 701,
  kLaunchFailed = 719,
  kCaptureUnsupported = 900,
};

struct ErrorName {
  int code;
  const char* name;
};
inline constexpr ErrorName kNames[] = {
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
    {kNotInitialised, "CUDA_ERROR_NOT_INITIALIZED"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
    {kTooManyThreads, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
};

}  // namespace quire::cuda::fake
