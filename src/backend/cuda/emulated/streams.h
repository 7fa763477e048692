// Streams of a device that does nothing before somebody waits. A wait makes happen what it asks for, what that comes
// behind on other streams, and of those as much more as the seed says: streams go on in any order that they may.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "backend/cuda/runtime.h"
#include "base/rng.h"

namespace quire::cuda {

// A copy, a launch, or nothing: an entry that only comes behind others.
struct Work {
  enum class Kind : uint8_t { copy, launch, nothing } kind = Kind::nothing;
  std::byte* to = nullptr;
  const void* from = nullptr;
  int64_t bytes = 0;
  Launch launch{};
};

class Streams {
 public:
  static constexpr int kStreams = 1 + kCopyStreams;  // the first, and those of copies

  // The first n of what was ever asked of a stream.
  struct Point {
    int stream = 0;
    size_t n = 0;
  };

  explicit Streams(uint64_t seed) : rng_(seed) {}

  void add(int stream, const Work& work) { all_.at(static_cast<size_t>(stream)).waiting.push_back({work, {}}); }
  // What is added to the stream from now on comes behind that point.
  void put_behind(int stream, Point point) {
    all_.at(static_cast<size_t>(stream)).waiting.push_back({Work{}, {point}});
  }
  Point end(int stream) const {
    const Stream& of = all_.at(static_cast<size_t>(stream));
    return {stream, of.n_done + of.waiting.size()};
  }
  bool is_idle(int stream) const { return all_.at(static_cast<size_t>(stream)).waiting.empty(); }
  bool has_happened(Point point) const { return all_.at(static_cast<size_t>(point.stream)).n_done >= point.n; }
  bool one_in(int64_t n) { return rng_.between(1, n) == 1; }

  // What happens where that point is waited for, in order; it counts as done then.
  std::vector<Work> take(Point point);
  // Of what waits.
  template <class F>
  void for_each(const F& f) const {
    for (const Stream& stream : all_) {
      for (const Entry& entry : stream.waiting) f(entry.work);
    }
  }

 private:
  struct Entry {
    Work work;
    std::vector<Point> behind;
  };
  struct Stream {
    std::deque<Entry> waiting;
    size_t n_done = 0;  // that were in it before
  };
  using Ends = std::array<size_t, kStreams>;
  bool is_within(const Entry& entry, const Ends& ends) const;
  void add_what_comes_before(Ends& ends) const;

  std::array<Stream, kStreams> all_;
  Rng rng_;
};

}  // namespace quire::cuda
