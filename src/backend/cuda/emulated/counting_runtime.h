// A fake runtime that counts what is asked of it, and on request has no memory, refuses to record or lets a replay
// fail. For tests.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "backend/cuda/emulated/runtime_fake.h"

namespace quire::cuda {

struct RuntimeCalls {
  int failing_allocation = 0;  // by number, from 1 on; 0: none
  int failing_replay = 0;      // likewise
  bool refuses_to_record = false;
  int n_alive = 0;  // allocations and graphs
  int n_allocations = 0, n_uploads = 0, n_downloads = 0, n_copies = 0, n_launches = 0, n_recorded = 0, n_forgotten = 0,
      n_replays = 0, n_waits = 0, n_beside = 0;
};

class CountingRuntime : public Runtime {
 public:
  explicit CountingRuntime(RuntimeCalls& calls) : n_(calls) {}
  std::string describe() const override { return runtime_->describe(); }
  DeviceSize size() const override { return runtime_->size(); }
  Result<std::byte*> allocate(int64_t bytes, Place place) override {
    if (++n_.n_allocations == n_.failing_allocation) return fail(Code::exhausted, "the device's memory has ended");
    ++n_.n_alive;
    return runtime_->allocate(bytes, place);
  }
  void release(std::byte* data) override {
    --n_.n_alive;
    runtime_->release(data);
  }
  Result<std::byte*> load(std::span<const std::byte> bytes) override {
    if (++n_.n_allocations == n_.failing_allocation) return fail(Code::exhausted, "the device's memory has ended");
    ++n_.n_alive;
    return runtime_->load(bytes);
  }
  void upload(std::byte* to, const void* from, int64_t bytes) override {
    ++n_.n_uploads;
    runtime_->upload(to, from, bytes);
  }
  void download(std::byte* to, const void* from, int64_t bytes) override {
    ++n_.n_downloads;
    runtime_->download(to, from, bytes);
  }
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    ++n_.n_copies;
    runtime_->copy(to, from, bytes);
  }
  int64_t free_bytes() override { return runtime_->free_bytes(); }
  void launch(const Launch& launch) override {
    ++n_.n_launches;
    runtime_->launch(launch);
  }
  Result<Graph> record(std::span<const Launch> launches) override {
    if (n_.refuses_to_record) return fail(Code::internal, "cuStreamBeginCapture_v2: not today");
    ++n_.n_recorded;
    ++n_.n_alive;
    return runtime_->record(launches);
  }
  void replay(Graph graph) override {
    if (++n_.n_replays == n_.failing_replay) {
      has_failed_ = true;
      return;
    }
    runtime_->replay(graph);
  }
  void forget(Graph graph) override {
    ++n_.n_forgotten;
    --n_.n_alive;
    runtime_->forget(graph);
  }
  void wait() override {
    ++n_.n_waits;
    runtime_->wait();
  }
  void set_mark(int mark) override { runtime_->set_mark(mark); }
  void wait_for(int mark) override {
    ++n_.n_waits;
    runtime_->wait_for(mark);
  }
  Status copy_beside(CopyStream stream, std::byte* to, const std::byte* from, int64_t bytes, int mark) override {
    ++n_.n_beside;
    return runtime_->copy_beside(stream, to, from, bytes, mark);
  }
  Status put_behind(CopyStream stream) override { return runtime_->put_behind(stream); }
  Status wait_on_device(CopyStream stream, int mark) override { return runtime_->wait_on_device(stream, mark); }
  Result<bool> has_happened(CopyStream stream, int mark) override { return runtime_->has_happened(stream, mark); }
  Status wait_beside(CopyStream stream, int mark) override { return runtime_->wait_beside(stream, mark); }
  Status wait_beside(CopyStream stream) override { return runtime_->wait_beside(stream); }
  bool is_well() const override { return !has_failed_; }
  Status take_error() override {
    if (!std::exchange(has_failed_, false)) return {};
    return fail(Code::internal, "cuGraphLaunch: not today");
  }

 private:
  RuntimeCalls& n_;
  bool has_failed_ = false;
  std::shared_ptr<Runtime> runtime_ = make_fake_runtime({});
};

}  // namespace quire::cuda
