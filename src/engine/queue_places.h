// Places in an engine's queue that a request of many sequences has before any of them is made (Engine::reserve). What
// no submit took goes back with it. One thread at a time; does not outlive its engine.
#pragma once
#include <functional>
#include <utility>

#include "base/check.h"

namespace quire {

class QueuePlaces {
 public:
  // `give_back` hears how many are left, where there are any.
  QueuePlaces(int n, std::function<void(int)> give_back) : n_(n), give_back_(std::move(give_back)) {}
  QueuePlaces(const QueuePlaces&) = delete;
  QueuePlaces& operator=(const QueuePlaces&) = delete;
  ~QueuePlaces() {
    if (n_ > 0) give_back_(n_);
  }
  int n() const { return n_; }
  // One of them is a sequence's now. REQUIRES one is left.
  void take() {
    QR_CHECK(n_ > 0, "a place that nobody reserved");
    --n_;
  }

 private:
  int n_;
  const std::function<void(int)> give_back_;
};

}  // namespace quire
