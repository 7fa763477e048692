#include "kv/use_heap.h"

namespace quire {

void UseHeap::put(size_t place, int32_t node) {
  heap_[place] = node;
  nodes_[node].place = static_cast<int32_t>(place);
}

// Restores the order around `place`.
void UseHeap::sift(size_t place) {
  const auto exchange = [this](size_t a, size_t b) {
    const int32_t node = heap_[a];
    put(a, heap_[b]);
    put(b, node);
  };
  while (place > 0 && older(place, (place - 1) / 2)) {
    exchange(place, (place - 1) / 2);
    place = (place - 1) / 2;
  }
  while (true) {
    size_t least = place;
    for (const size_t child : {2 * place + 1, 2 * place + 2}) {
      if (child < heap_.size() && older(child, least)) least = child;
    }
    if (least == place) return;
    exchange(place, least);
    place = least;
  }
}

void UseHeap::push(int32_t node) {
  heap_.push_back(node);
  nodes_[node].place = static_cast<int32_t>(heap_.size()) - 1;
  sift(heap_.size() - 1);
}

void UseHeap::drop(int32_t node) {
  QR_DCHECK(lists(node));
  const auto place = static_cast<size_t>(nodes_[node].place);
  nodes_[node].place = NodeTable::kNone;
  const int32_t last = heap_.back();
  heap_.pop_back();
  if (last == node) return;
  put(place, last);
  sift(place);
}

void UseHeap::was_used(int32_t node) { sift(static_cast<size_t>(nodes_[node].place)); }

bool UseHeap::lists(int32_t node) const {
  const int32_t place = nodes_[node].place;
  return place >= 0 && static_cast<size_t>(place) < heap_.size() && heap_[static_cast<size_t>(place)] == node;
}

std::string UseHeap::check() const {
  for (size_t place = 1; place < heap_.size(); ++place) {
    if (older(place, (place - 1) / 2)) return "the leaves are out of order";
  }
  return "";
}

}  // namespace quire
