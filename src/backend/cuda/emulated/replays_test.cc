// Steps that are launched as one: what is recorded, what is not, and what becomes of what was recorded.
#include "backend/cuda/replays.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/emulated/runtime_fake.h"
#include "backend/cuda/kernels/list.cuh"

namespace quire::cuda {
namespace {

// Counts what is asked of the runtime below, which may refuse to record.
class Counting final : public Runtime {
 public:
  std::string describe() const override { return runtime_->describe(); }
  DeviceSize size() const override { return runtime_->size(); }
  Result<std::byte*> allocate(int64_t bytes, Place place) override { return runtime_->allocate(bytes, place); }
  void release(std::byte* data) override { runtime_->release(data); }
  void upload(std::byte* to, const void* from, int64_t bytes) override { runtime_->upload(to, from, bytes); }
  void download(std::byte* to, const void* from, int64_t bytes) override { runtime_->download(to, from, bytes); }
  void launch(const Launch& launch) override {
    ++n_launches;
    runtime_->launch(launch);
  }
  Result<Graph> record(std::span<const Launch> launches) override {
    if (refuses) return fail(Code::internal, "cuStreamBeginCapture_v2: not today");
    ++n_graphs;
    return runtime_->record(launches);
  }
  void replay(Graph graph) override {
    ++n_replays;
    runtime_->replay(graph);
  }
  void forget(Graph graph) override {
    --n_graphs;
    runtime_->forget(graph);
  }
  void wait() override { runtime_->wait(); }

  bool refuses = false;
  int n_launches = 0, n_replays = 0, n_graphs = 0;

 private:
  std::shared_ptr<Runtime> runtime_ = make_fake_runtime({});
};

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

  std::shared_ptr<Counting> below_ = std::make_shared<Counting>();
  std::shared_ptr<Runtime> runtime_ = with_replays(below_);
  float *x_ = nullptr, *factors_ = nullptr;
};

TEST_F(CudaReplays, AStepIsRecordedWhenItComesAgainAndReplayedFromThenOn) {
  EXPECT_EQ(step(2), 16);
  EXPECT_EQ(below_->n_launches, 4);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(step(2), 16);
    EXPECT_EQ(below_->n_launches, 4);
    EXPECT_EQ(below_->n_replays, i);
  }
  EXPECT_EQ(below_->n_graphs, 1);
}

TEST_F(CudaReplays, AnotherArgumentIsAnotherStep) {
  step(2);
  step(2);
  EXPECT_EQ(step(3), 81);
  EXPECT_EQ(below_->n_launches, 8);
  EXPECT_EQ(step(3), 81);
  EXPECT_EQ(step(2), 16);
  EXPECT_EQ(below_->n_launches, 8);
  EXPECT_EQ(below_->n_graphs, 2);
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
  EXPECT_EQ(below_->n_replays, 2);
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
  EXPECT_EQ(below_->n_replays, 4);
  runtime_->release(host);
}

TEST_F(CudaReplays, FewLaunchesStaySingle) {
  for (int turn = 0; turn < 4; ++turn) {
    scale(2);
    runtime_->wait();
  }
  EXPECT_EQ(below_->n_launches, 4);
  EXPECT_EQ(below_->n_graphs, 0);
}

TEST_F(CudaReplays, WhereNothingCanBeRecordedLaunchesStaySingle) {
  below_->refuses = true;
  for (int turn = 0; turn < 3; ++turn) EXPECT_EQ(step(2), 16);
  below_->refuses = false;
  EXPECT_EQ(step(2), 16);  // nobody asks again
  EXPECT_EQ(below_->n_launches, 16);
  EXPECT_EQ(below_->n_replays, 0);
}

TEST_F(CudaReplays, TheLongestUnusedIsForgottenAndAllInTheEnd) {
  for (int i = 0; i < 400; ++i) {
    step(static_cast<float>(i));
    if (i % 4 == 0) step(static_cast<float>(i));
    step(-1);
    EXPECT_LE(below_->n_graphs, 64);
  }
  EXPECT_EQ(below_->n_graphs, 64);
  const int n = below_->n_launches;
  step(-1);
  EXPECT_EQ(below_->n_launches, n);  // used all the time
  step(4);
  EXPECT_EQ(below_->n_launches, n + 4);  // forgotten
  TearDown();
  runtime_.reset();
  EXPECT_EQ(below_->n_graphs, 0);
}

}  // namespace
}  // namespace quire::cuda
