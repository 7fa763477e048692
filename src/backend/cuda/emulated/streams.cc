#include "backend/cuda/emulated/streams.h"

#include <algorithm>
#include <utility>

namespace quire::cuda {

bool Streams::is_within(const Entry& entry, const Ends& ends) const {
  return std::ranges::all_of(entry.behind,
                             [&](Point point) { return ends[static_cast<size_t>(point.stream)] >= point.n; });
}

void Streams::add_what_comes_before(Ends& ends) const {
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t s = 0; s < all_.size(); ++s) {
      for (size_t i = all_[s].n_done; i < ends[s]; ++i) {
        for (const Point& point : all_[s].waiting[i - all_[s].n_done].behind) {
          size_t& end = ends[static_cast<size_t>(point.stream)];
          grows = grows || end < point.n;
          end = std::max(end, point.n);
        }
      }
    }
  }
}

std::vector<Work> Streams::take(Point point) {
  Ends ends{};
  for (size_t s = 0; s < all_.size(); ++s) ends[s] = all_[s].n_done;
  const auto waited_for = static_cast<size_t>(point.stream);
  ends[waited_for] = std::max(ends[waited_for], point.n);
  add_what_comes_before(ends);
  for (size_t s = 0; s < all_.size(); ++s) {
    const Stream& of = all_[s];
    const auto may_go_on = [&] {
      const size_t next = ends[s] - of.n_done;
      return next < of.waiting.size() && is_within(of.waiting[next], ends);
    };
    while (s != waited_for && may_go_on() && !one_in(4)) ++ends[s];
  }
  std::vector<Work> out;
  while (true) {
    std::vector<size_t> ready;
    Ends done{};
    for (size_t s = 0; s < all_.size(); ++s) done[s] = all_[s].n_done;
    for (size_t s = 0; s < all_.size(); ++s) {
      if (done[s] < ends[s] && is_within(all_[s].waiting.front(), done)) ready.push_back(s);
    }
    if (ready.empty()) return out;
    Stream& next = all_[ready[static_cast<size_t>(rng_.between(0, std::ssize(ready) - 1))]];
    if (next.waiting.front().work.kind != Work::Kind::nothing) out.push_back(next.waiting.front().work);
    next.waiting.pop_front();
    ++next.n_done;
  }
}

}  // namespace quire::cuda
