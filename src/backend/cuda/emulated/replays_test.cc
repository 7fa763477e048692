// Steps that are launched as one: what is recorded, what is not, and what becomes of what was recorded.
#include "backend/cuda/replays.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/emulated/counting_runtime.h"
#include "backend/cuda/kernels/list.cuh"

namespace quire::cuda {
namespace {

class CudaReplays : public testing::Test {
 protected:
  void SetUp() override {
    x_ = reinterpret_cast<float*>(*runtime_->allocate(64 * 4, Place::shared));
    factors_ = reinterpret_cast<float*>(*runtime_->allocate(64 * 4, Place::device));
  }
  void TearDown() override {
    if (runtime_ == nullptr) return;
    runtime_->release(reinterpret_cast<std::byte*>(x_));
    runtime_->release(reinterpret_cast<std::byte*>(factors_));
  }
  void scale(float factor) { runtime_->launch(launch_of(Elementwise<Scale>{{{x_, 64}, factor}, 64}, {})); }
  // Four launches, and what comes of a one.
  float step(float factor) {
    x_[3] = 1;
    for (int i = 0; i < 4; ++i) scale(factor);
    runtime_->wait();
    return x_[3];
  }

  int n_graphs() const { return below_.n_recorded - below_.n_forgotten; }

  RuntimeCalls below_;
  std::shared_ptr<Runtime> runtime_ = with_replays(std::make_shared<CountingRuntime>(below_));
  float *x_ = nullptr, *factors_ = nullptr;
};

TEST_F(CudaReplays, AStepIsRecordedWhenItComesAgainAndReplayedFromThenOn) {
  EXPECT_EQ(step(2), 16);
  EXPECT_EQ(below_.n_launches, 4);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(step(2), 16);
    EXPECT_EQ(below_.n_launches, 4);
    EXPECT_EQ(below_.n_replays, i);
  }
  EXPECT_EQ(n_graphs(), 1);
}

TEST_F(CudaReplays, AnotherArgumentIsAnotherStep) {
  step(2);
  step(2);
  EXPECT_EQ(step(3), 81);
  EXPECT_EQ(below_.n_launches, 8);
  EXPECT_EQ(step(3), 81);
  EXPECT_EQ(step(2), 16);
  EXPECT_EQ(below_.n_launches, 8);
  EXPECT_EQ(n_graphs(), 2);
}

TEST_F(CudaReplays, WhatMemoryHoldsIsNotRecorded) {
  for (const float factor : {2.0F, 3.0F, 5.0F}) {
    const std::vector<float> factors(64, factor);
    x_[3] = 1;
    runtime_->upload(reinterpret_cast<std::byte*>(factors_), factors.data(), 64 * 4);
    for (int i = 0; i < 4; ++i) {
      runtime_->launch(launch_of(Elementwise<ScaleRows>{{{x_, 64}, factors_}, 64}, {}));
    }
    runtime_->wait();
    EXPECT_EQ(x_[3], factor * factor * factor * factor);
  }
  EXPECT_EQ(below_.n_replays, 2);
}

TEST_F(CudaReplays, CopiesKeepTheirPlaceBetweenLaunches) {
  std::byte* host = *runtime_->allocate(64 * 4, Place::pinned);
  for (int turn = 0; turn < 3; ++turn) {
    x_[3] = 1;
    for (int i = 0; i < 4; ++i) scale(2);
    runtime_->download(host, x_, 64 * 4);
    for (int i = 0; i < 4; ++i) scale(3);
    runtime_->wait();
    EXPECT_EQ(reinterpret_cast<const float*>(host)[3], 16);
    EXPECT_EQ(x_[3], 16 * 81);
  }
  EXPECT_EQ(below_.n_replays, 4);
  runtime_->release(host);
}

TEST_F(CudaReplays, FewLaunchesStaySingle) {
  for (int turn = 0; turn < 4; ++turn) {
    scale(2);
    runtime_->wait();
  }
  EXPECT_EQ(below_.n_launches, 4);
  EXPECT_EQ(n_graphs(), 0);
}

TEST_F(CudaReplays, WhereNothingCanBeRecordedLaunchesStaySingle) {
  below_.refuses_to_record = true;
  for (int turn = 0; turn < 4; ++turn) EXPECT_EQ(step(2), 16);
  below_.refuses_to_record = false;
  EXPECT_EQ(step(2), 16);  // nobody asks after three times
  EXPECT_EQ(below_.n_launches, 20);
  EXPECT_EQ(below_.n_replays, 0);
}

TEST_F(CudaReplays, AGraphIsMadeAnewWhereAStepFailed) {
  step(2);
  step(2);
  EXPECT_EQ(n_graphs(), 1);
  below_.failing_replay = 2;
  EXPECT_EQ(step(2), 1);
  const Status failed = runtime_->take_error();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "cuGraphLaunch: not today");
  EXPECT_TRUE(runtime_->take_error());
  EXPECT_EQ(n_graphs(), 0);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(step(2), 16);
    EXPECT_TRUE(runtime_->take_error());
  }
  EXPECT_EQ(n_graphs(), 1);
}

TEST_F(CudaReplays, AfterThreeFailuresLaunchesStaySingle) {
  for (int i = 1; i <= 3; ++i) {
    step(2);
    EXPECT_TRUE(runtime_->take_error());
    below_.failing_replay = below_.n_replays + 1;
    step(2);
    EXPECT_FALSE(runtime_->take_error());
  }
  for (int turn = 0; turn < 3; ++turn) EXPECT_EQ(step(2), 16);
  EXPECT_EQ(below_.n_replays, 3);
  EXPECT_EQ(n_graphs(), 0);
}

TEST_F(CudaReplays, TheLongestUnusedIsForgottenAndAllInTheEnd) {
  for (int i = 0; i < 400; ++i) {
    step(static_cast<float>(i));
    if (i % 4 == 0) step(static_cast<float>(i));
    step(-1);
    EXPECT_LE(n_graphs(), 64);
  }
  EXPECT_EQ(n_graphs(), 64);
  const int n = below_.n_launches;
  step(-1);
  EXPECT_EQ(below_.n_launches, n);  // used all the time
  step(4);
  EXPECT_EQ(below_.n_launches, n + 4);  // forgotten
  TearDown();
  runtime_.reset();
  EXPECT_EQ(n_graphs(), 0);
}

}  // namespace
}  // namespace quire::cuda
