// For tests only: a sink whose calls run while a Guard lives, one for each.
#pragma once
#include <memory>
#include <utility>

#include "engine/request.h"

namespace quire {

template <class Guard>
struct GuardedSink final : EventSink {
  explicit GuardedSink(std::shared_ptr<EventSink> to) : inner(std::move(to)) {}
  void on_token(SeqId id, const TokenEvent& event) override {
    const Guard guard;
    inner->on_token(id, event);
  }
  void on_pooled(SeqId id, std::span<const float> values) override {
    const Guard guard;
    inner->on_pooled(id, values);
  }
  void on_explained(SeqId id, const Explanation& explanation) override {
    const Guard guard;
    inner->on_explained(id, explanation);
  }
  void on_finish(SeqId id, Finish how, const Usage& usage, const std::string& error) override {
    const Guard guard;
    inner->on_finish(id, how, usage, error);
  }
  std::shared_ptr<EventSink> inner;
};

}  // namespace quire
