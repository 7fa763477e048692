// The runtime on a driver for tests: what it asks of it, each call that may fail, and that nothing stays open.
#include "backend/cuda/driver/runtime_cuda.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "backend/cuda/emulated/fake_libcuda.h"
#include "backend/cuda/kernels/list.cuh"

namespace quire::cuda {
namespace {

using testing::HasSubstr;

// A context, a module, four streams, an event for each mark and one for an order between streams.
constexpr int kOpen = 6 + kMarks + kCopyStreams * kCopyMarks + 1;

class DriverRuntime : public testing::Test {
 protected:
  void SetUp() override {
    path_ = fake_libcuda_path();
    library_ = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
    reset({});
  }
  void TearDown() override {
    if (library_ == nullptr) return;
    EXPECT_EQ(alive(), 0);
  }

  void reset(const FakeDriver& options) { reinterpret_cast<FakeReset>(::dlsym(library_, "quire_fake_reset"))(options); }
  int alive() { return reinterpret_cast<FakeCount>(::dlsym(library_, "quire_fake_alive"))(); }
  int calls() { return reinterpret_cast<FakeCount>(::dlsym(library_, "quire_fake_calls"))(); }
  std::string trace() { return reinterpret_cast<FakeText>(::dlsym(library_, "quire_fake_trace"))(); }

  Result<std::shared_ptr<Runtime>> open(std::string_view image = kFakeImage) {
    return open_driver_runtime({.library = path_, .image = std::as_bytes(std::span(image))});
  }
  // What goes wrong with these options.
  std::string refusal(const FakeDriver& options, std::string_view image = kFakeImage) {
    reset(options);
    const auto runtime = open(image);
    return runtime ? "nothing" : runtime.error().message;
  }

  std::string path_;
  void* library_ = nullptr;
};

TEST_F(DriverRuntime, WithoutADriverItSaysSo) {
  const auto runtime = open_driver_runtime({.library = "libno-such-driver.so.1"});
  ASSERT_FALSE(runtime);
  EXPECT_EQ(runtime.error().code, Code::unsupported);
  EXPECT_THAT(runtime.error().message,
              HasSubstr("the cuda backend: NVIDIA's driver cannot be opened: libno-such-driver"));
}

TEST_F(DriverRuntime, ALibraryThatIsNoDriver) {
  const auto runtime = open_driver_runtime({.library = "libc.so.6"});
  ASSERT_FALSE(runtime);
  EXPECT_EQ(runtime.error().message, "the cuda backend: libc.so.6 has no cuInit: NVIDIA's driver is too old");
}

TEST_F(DriverRuntime, WhatADeviceMustHave) {
  EXPECT_EQ(refusal({.n_devices = 0}), "the cuda backend: cuInit: CUDA_ERROR_NO_DEVICE (100)");
  EXPECT_EQ(refusal({.major = 7, .minor = 5}),
            "the cuda backend: the kernels need compute capability 8.0 or more, the device has 7.5");
  EXPECT_EQ(refusal({}, "something that is no code"),
            "the cuda backend: cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE (200) on a device of tests, compute "
            "capability 9.0, "
            "driver for CUDA 13.0; this program's kernels are for compute capability 8.x, 9.0, 10.x and 12.x");
  EXPECT_NE(refusal({.version = 12'080}, "of a newer compiler").find("wants driver 580 or later"), std::string::npos);
}

TEST_F(DriverRuntime, EveryCallThatFailsAtTheStartIsNamedAndNothingStaysOpen) {
  reset({});
  int n = 0;
  {
    const auto runtime = open();
    ASSERT_TRUE(runtime) << runtime.error().message;
    n = calls();
    EXPECT_EQ((*runtime)->describe(), "a device of tests, compute capability 9.0, driver for CUDA 13.0");
  }
  ASSERT_GT(n, 25);
  for (int nth = 1; nth <= n; ++nth) {
    reset({.failing_call = nth, .code = 999});
    const auto runtime = open();
    ASSERT_FALSE(runtime) << nth;
    EXPECT_THAT(runtime.error().message, HasSubstr(": an unknown error (999)"));
    EXPECT_THAT(runtime.error().message, testing::StartsWith("the cuda backend: cu"));
    EXPECT_EQ(alive(), 0) << runtime.error().message << " after " << trace();
  }
}

TEST_F(DriverRuntime, ADeviceWithLittleSharedMemoryHasTheKernelsThatFit) {
  constexpr int kLittle = 99 << 10;
  static_assert(LinearMany<PackedQ8_0>::kSharedBytes > kLittle && LinearSome<PackedQ8_0>::kSharedBytes <= kLittle);
  reset({.shared_bytes = kLittle, .major = 8, .minor = 9});
  const auto runtime = open();
  ASSERT_TRUE(runtime) << runtime.error().message;
  EXPECT_EQ((*runtime)->size().shared_bytes, kLittle);
}

TEST_F(DriverRuntime, MemoryIsClearedAndEndsWithItsSizes) {
  reset({.bytes = 1 << 20});
  const auto runtime = *open();
  std::byte* shared = *runtime->allocate(100, Place::shared);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(shared[i], std::byte{0});
  const auto more = runtime->allocate(2 << 20, Place::device);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Code::exhausted);
  EXPECT_EQ(
      more.error().message,
      "cannot allocate 2097152 bytes on the device: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2), 1048476 are left");
  runtime->release(shared);
}

TEST_F(DriverRuntime, EveryCallThatFailsInAnAllocationIsNamedAndNothingIsKept) {
  reset({});
  int at_start = 0;
  {
    const auto runtime = *open();
    at_start = calls();
  }
  for (const Place place : {Place::device, Place::shared}) {
    for (int nth = 1; nth <= 4; ++nth) {
      reset({.failing_call = at_start + nth, .code = 999});
      const auto runtime = *open();
      const auto got = runtime->allocate(64, place);
      ASSERT_FALSE(got) << nth;
      EXPECT_THAT(got.error().message, HasSubstr("an unknown error (999)"));
      EXPECT_EQ(alive(), kOpen) << got.error().message;
    }
  }
}

TEST_F(DriverRuntime, KernelsRunWithTheArgumentsOfTheLaunch) {
  const auto runtime = *open();
  auto* x = reinterpret_cast<float*>(*runtime->allocate(64 * 4, Place::shared));
  std::byte* factor = *runtime->allocate(4, Place::device);
  for (int i = 0; i < 64; ++i) x[i] = static_cast<float>(i);
  const float three = 3.0F;
  runtime->upload(factor, &three, 4);
  {
    Launch scale = launch_of(Elementwise<Scale>{{{x, 64}, 2.0F}, 64}, {});
    runtime->launch(scale);
    scale.arguments.fill(std::byte{0xff});  // the driver has copied them
  }
  runtime->launch(launch_of(Elementwise<ScaleRows>{{{x, 64}, reinterpret_cast<const float*>(factor)}, 64}, {}));
  runtime->wait();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(x[i], 6.0F * static_cast<float>(i));
  runtime->release(factor);
  runtime->release(reinterpret_cast<std::byte*>(x));
}

TEST_F(DriverRuntime, RecordedLaunchesKeepTheirArguments) {
  const auto runtime = *open();
  auto* x = reinterpret_cast<float*>(*runtime->allocate(64 * 4, Place::shared));
  x[5] = 1;
  std::vector<Launch> launches(3, launch_of(Elementwise<Scale>{{{x, 64}, 2.0F}, 64}, {}));
  const Graph graph = *runtime->record(launches);
  for (Launch& launch : launches) launch.arguments.fill(std::byte{0xff});
  EXPECT_EQ(x[5], 1);
  runtime->replay(graph);
  runtime->replay(graph);
  runtime->wait();
  EXPECT_EQ(x[5], 64);
  runtime->forget(graph);
  EXPECT_EQ(alive(), kOpen + 1);
  runtime->release(reinterpret_cast<std::byte*>(x));
}

TEST_F(DriverRuntime, EveryCallThatFailsInARecordingIsNamedAndNothingIsKept) {
  reset({});
  int before = 0, n = 0;
  const auto record = [&](const std::shared_ptr<Runtime>& runtime) {
    auto* x = reinterpret_cast<float*>(*runtime->allocate(64 * 4, Place::shared));
    before = calls();
    const Launch launch = launch_of(Elementwise<Scale>{{{x, 64}, 2.0F}, 64}, {});
    const Result<Graph> graph = runtime->record(std::vector(2, launch));
    n = calls() - before;
    if (graph) runtime->forget(*graph);
    x[5] = 1;
    runtime->launch(launch);  // nothing is left captured
    runtime->wait();
    EXPECT_EQ(x[5], 2);
    runtime->release(reinterpret_cast<std::byte*>(x));
    return graph ? "nothing" : graph.error().message;
  };
  EXPECT_EQ(record(*open()), "nothing");
  ASSERT_GE(n, 5);
  const int at_start = before, most = n;
  int n_asked_again = 0;
  for (int nth = 1; nth < most; ++nth) {  // the last gives the captured graph back
    reset({.failing_call = at_start + nth, .code = 999});
    const auto runtime = *open();
    const std::string error = record(runtime);
    EXPECT_EQ(alive(), kOpen) << trace();
    if (error == "nothing") {  // or the stream would stay captured
      EXPECT_THAT(trace(), HasSubstr("cuStreamEndCapture cuStreamEndCapture"));
      ++n_asked_again;
      continue;
    }
    EXPECT_THAT(error, HasSubstr("an unknown error (999)")) << nth;
  }
  EXPECT_EQ(n_asked_again, 1);
}

TEST_F(DriverRuntime, WhatIsBehindAMarkIsNotWaitedFor) {
  const auto runtime = *open();
  std::byte *at = *runtime->allocate(64, Place::device), *first = *runtime->allocate(64, Place::pinned),
            *second = *runtime->allocate(64, Place::pinned);
  const int64_t one = 1, two = 2;
  runtime->upload(at, &one, sizeof one);
  runtime->download(first, at, 64);
  runtime->set_mark(0);
  runtime->upload(at, &two, sizeof two);
  runtime->download(second, at, 64);
  runtime->set_mark(1);
  runtime->wait_for(0);
  EXPECT_EQ(std::memcmp(first, &one, sizeof one), 0);
  EXPECT_TRUE(runtime->is_well());
  runtime->wait_for(1);
  EXPECT_EQ(std::memcmp(first, &one, sizeof one), 0);
  EXPECT_EQ(std::memcmp(second, &two, sizeof two), 0);
  runtime->wait();
  for (std::byte* data : {at, first, second}) runtime->release(data);
}

TEST_F(DriverRuntime, ACopyWithinTheDevice) {
  const auto runtime = *open();
  std::byte *a = *runtime->allocate(64, Place::device), *b = *runtime->allocate(64, Place::device),
            *host = *runtime->allocate(64, Place::pinned);
  const int64_t value = 0x0123456789abcdef;
  runtime->upload(a + 8, &value, sizeof value);
  runtime->copy(b, a, 64);
  runtime->download(host, b, 64);
  runtime->wait();
  EXPECT_EQ(std::memcmp(host + 8, &value, sizeof value), 0);
  EXPECT_EQ(host[0], std::byte{0});
  EXPECT_EQ(runtime->free_bytes(), (int64_t{64} << 30) - 3 * 64);
  for (std::byte* data : {a, b, host}) runtime->release(data);
}

// Each call of a copy up, a launch, a replay, a copy down and a wait in turn.
TEST_F(DriverRuntime, AFailureIsToldOnceAndNothingBehindItIsDone) {
  const auto runtime = *open();
  auto* x = reinterpret_cast<float*>(*runtime->allocate(64 * 4, Place::shared));
  std::byte *to = *runtime->allocate(4, Place::device), *host = *runtime->allocate(4, Place::pinned);
  const Launch scale = launch_of(Elementwise<Scale>{{{x, 64}, 2.0F}, 64}, {});
  const Graph graph = *runtime->record({&scale, 1});
  const auto fail = reinterpret_cast<FakeFail>(::dlsym(library_, "quire_fake_fail"));
  const char* const names[] = {"cuMemcpyHtoDAsync_v2", "cuLaunchKernelEx",    "cuGraphLaunch",
                               "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "nothing"};
  const float done[] = {1, 1, 2, 4, 4, 4};
  for (int nth = 1; nth <= 6; ++nth) {
    x[5] = 1;
    const int32_t value = 100 + nth;
    fail(nth, 999);
    runtime->upload(to, &value, 4);
    runtime->launch(scale);
    runtime->replay(graph);
    runtime->download(host, to, 4);
    runtime->wait();
    fail(0, 0);
    const auto at = static_cast<size_t>(nth) - 1;
    const Status told = runtime->take_error();
    EXPECT_EQ(told ? "nothing" : told.error().message.substr(0, told.error().message.find(':')), names[at]);
    EXPECT_EQ(x[5], done[at]) << nth;
    EXPECT_EQ(std::memcmp(host, &value, 4) == 0, nth > 4) << nth;
    EXPECT_TRUE(runtime->take_error());
  }
  fail(1, 999);
  runtime->forget(graph);
  for (std::byte* data : {reinterpret_cast<std::byte*>(x), to, host}) {
    fail(1, 999);
    runtime->release(data);
  }
  EXPECT_EQ(alive(), kOpen) << "what is given back is given back at the second try";
}

TEST_F(DriverRuntime, WhatItOpenedIsClosedThoughACallFails) {
  for (int nth = 1; nth <= 5; ++nth) {
    reset({});
    auto runtime = *open();
    reinterpret_cast<FakeFail>(::dlsym(library_, "quire_fake_fail"))(nth, 999);
    runtime.reset();
    EXPECT_EQ(alive(), 0) << nth;
  }
}

// What fails is a copy's alone, and said at once; a wait is asked for again.
TEST_F(DriverRuntime, EveryCallThatFailsInCopiesBesideIsNamedAndAllElseGoesOn) {
  const auto runtime = *open();
  std::byte *device = *runtime->allocate(64, Place::device), *pinned = *runtime->allocate(64, Place::pinned),
            *back = *runtime->allocate(64, Place::pinned);
  const auto fail = reinterpret_cast<FakeFail>(::dlsym(library_, "quire_fake_fail"));
  for (int i = 0; i < 64; ++i) pinned[i] = static_cast<std::byte>(i);
  const auto all = [&](std::vector<std::string>& errors) {
    const auto see = [&](const Status& status) {
      if (!status) errors.push_back(status.error().message.substr(0, status.error().message.find(':')));
    };
    see(runtime->put_behind(CopyStream::in));
    see(runtime->copy_beside(CopyStream::in, device, pinned, 64, 3));
    see(runtime->wait_on_device(CopyStream::in, 3));
    see(runtime->wait_beside(CopyStream::in, 3));
    see(runtime->copy_beside(CopyStream::out, back, device, 64, 7));
    const Result<bool> has_happened = runtime->has_happened(CopyStream::out, 7);
    if (!has_happened) see(tl::make_unexpected(has_happened.error()));
    see(runtime->wait_beside(CopyStream::out));
    runtime->wait();
  };
  std::vector<std::string> errors;
  all(errors);
  EXPECT_THAT(errors, testing::IsEmpty());
  EXPECT_EQ(std::memcmp(back, pinned, 64), 0);
  int nth = 0;
  for (const char* name :
       {"cuEventRecord", "cuStreamWaitEvent", "cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuStreamWaitEvent",
        "cuEventSynchronize", "cuMemcpyDtoHAsync_v2", "cuEventRecord", "cuEventQuery", "cuStreamSynchronize"}) {
    errors.clear();
    fail(++nth, 999);
    all(errors);
    fail(0, 0);
    EXPECT_THAT(errors, testing::ElementsAre(name)) << nth;
    EXPECT_TRUE(runtime->take_error()) << nth;
  }
  for (std::byte* data : {device, pinned, back}) runtime->release(data);
  EXPECT_EQ(alive(), kOpen);
}

// While a launch waits to be done, and while another stream is recorded. The source is the caller's again.
TEST_F(DriverRuntime, AnyThreadMayLoadBesideWhatIsUnderWay) {
  const auto runtime = *open();
  auto* x = reinterpret_cast<float*>(*runtime->allocate(64 * 4, Place::shared));
  std::byte* host = *runtime->allocate(64, Place::pinned);
  x[5] = 1;
  runtime->launch(launch_of(Elementwise<Scale>{{{x, 64}, 2.0F}, 64}, {}));
  std::byte* loaded = nullptr;
  std::thread([&] {
    std::vector<std::byte> bytes(64, std::byte{7});
    loaded = *runtime->load(bytes);
    std::ranges::fill(bytes, std::byte{9});
  }).join();
  runtime->download(host, loaded, 64);
  runtime->wait();
  EXPECT_EQ(x[5], 2);
  EXPECT_EQ(host[63], std::byte{7});
  for (std::byte* data : {reinterpret_cast<std::byte*>(x), host, loaded}) runtime->release(data);
  EXPECT_EQ(alive(), kOpen);
}

TEST_F(DriverRuntime, EveryCallThatFailsInALoadIsNamedAndNothingIsKept) {
  const std::vector<std::byte> bytes(64);
  reset({});
  int at_start = 0;
  {
    const auto runtime = *open();
    at_start = calls();
  }
  for (const auto& [nth, is_tried_again] : {std::pair{1, false}, {2, false}, {3, false}, {4, true}}) {
    reset({.failing_call = at_start + nth, .code = 999});
    const auto runtime = *open();
    const auto got = runtime->load(bytes);
    EXPECT_EQ(got.has_value(), is_tried_again) << nth << trace();
    if (got) {
      runtime->release(*got);
    } else {
      EXPECT_THAT(got.error().message, HasSubstr("an unknown error (999)"));
    }
    EXPECT_EQ(alive(), kOpen) << trace();
  }
}

TEST_F(DriverRuntime, AnyThreadMayGiveMemoryBack) {
  const auto runtime = *open();
  std::byte* data = *runtime->allocate(64, Place::device);
  std::thread([&] { runtime->release(data); }).join();
  EXPECT_EQ(alive(), kOpen);
}

TEST_F(DriverRuntime, AnErrorAfterTheStartEndsTheProcessAndIsNamed) {
  const auto runtime = *open();
  auto* outside = reinterpret_cast<float*>(uintptr_t{4096});
  EXPECT_DEATH(
      {
        runtime->launch(launch_of(Elementwise<Scale>{{{outside, 64}, 2.0F}, 64}, {}));
        runtime->wait();
      },
      "the CUDA device is lost cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED \\(719\\)");
  EXPECT_DEATH(runtime->release(reinterpret_cast<std::byte*>(outside)),
               "cuMemFree_v2: CUDA_ERROR_INVALID_VALUE \\(1\\)");
}

}  // namespace
}  // namespace quire::cuda
