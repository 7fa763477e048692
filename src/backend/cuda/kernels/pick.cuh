// Ids of tokens that the host does not know yet: what is picked of each row of logits, and the ids of the next step's
// rows. Picks are those of ops/sample_filters.h, sum for sum.
//
// A row's logits have an order: falling, equal ones by rising id. What min-p, top-k and top-p keep is where it begins,
// so what is left of a row is one place in it, found by its digits of eight bits from the highest on: of those that
// have the digits so far, the weights (ones, or shares as whole numbers, whose sums know no order) are added up by the
// next one. Few have to be looked at: what is reached by each thread's largest alone is reached by all of them, so the
// cut lies there or above, and what does goes into a list in shared memory. A row with too many for it is read again.
#pragma once
#include "backend/cuda/kernels/math.cuh"

namespace quire::cuda {

// The place of a logit in that order, a number: the first has the largest. A NaN is before all, zeros of both signs are
// equal.
constexpr int kIdBits = 24;
constexpr uint64_t kLastId = (uint64_t{1} << kIdBits) - 1;
QR_DEVICE uint32_t key_of(float x) {
  const uint32_t bits = dev::as_bits(x);
  if (x != x) return ~0U;
  if (bits << 1 == 0) return 0x80000000U;
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}
QR_DEVICE float logit_of(uint32_t key) { return dev::as_float(key >> 31 != 0 ? key ^ 0x80000000U : ~key); }
QR_DEVICE uint64_t place_of(float x, uint64_t id) { return uint64_t{key_of(x)} << kIdBits | (kLastId - id); }
QR_DEVICE uint64_t last_with(uint32_t key) { return uint64_t{key} << kIdBits; }
QR_DEVICE int id_at(uint64_t place) { return static_cast<int>(kLastId - (place & kLastId)); }

QR_DEVICE uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

// The least whole number, from 1 on, that is not below x.
QR_DEVICE uint64_t rounded_up(double x) {
  const uint64_t below = dev::truncated(x), up = dev::widened(below) < x ? below + 1 : below;
  return up > 0 ? up : 1;
}

// Whole numbers below 2^64 in shared memory, which threads add to: n low halves, then n high ones.
struct WholeSums {
  dev::Shared<uint32_t> low, high;
  QR_DEVICE WholeSums(int at, int n) : low(at), high(at + 4 * n) {}
  QR_DEVICE uint64_t of(int i) const {
    const uint32_t below = low[i], above = high[i];
    return uint64_t{above} << 32 | below;
  }
  QR_DEVICE void set(int i, uint64_t x) const {
    low[i] = static_cast<uint32_t>(x);
    high[i] = static_cast<uint32_t>(x >> 32);
  }
  QR_DEVICE void add(int i, uint64_t x) const {
    const auto below = static_cast<uint32_t>(x);
    const uint32_t carry = dev::add_to(low, i, below) + below < below ? 1 : 0;
    const uint32_t above = static_cast<uint32_t>(x >> 32) + carry;
    if (above > 0) dev::add_to(high, i, above);
  }
};

// picked[row] = the token that sample_row gives by the row's numbers; of a row with a NaN or +inf, or without a number,
// some id of it. Grid: rows.
struct PickTokens {
  static constexpr int kThreads = 512, kWarps = kThreads / 32, kLanes = 16;  // lanes: of a sum
  static constexpr int kChunk = 1024, kMostChunks = 1024;
  static constexpr int kMost = kChunk * kMostChunks;  // logits of a row
  static constexpr int kNumbers = 9;                  // of a row, as ops/pick.h puts them
  static constexpr int kMostListed = 2048;
  static constexpr int kDigits = 256, kGroups = 32, kOfGroup = kDigits / kGroups;  // of digits: added up together
  static constexpr int kLargestAt = 0, kListAt = kLargestAt + kThreads * 8;
  static constexpr int kDigitsAt = kListAt + kMostListed * 8, kGroupsAt = kDigitsAt + kDigits * 8;
  static constexpr int kBestAt = kGroupsAt + kGroups * 8, kToldAt = kBestAt + kWarps * 8;
  static constexpr int kSumsAt = kToldAt + 16;
  static constexpr int kSharedBytes = kSumsAt + (kMostChunks > kChunk ? kMostChunks : kChunk) * 4;
  int32_t* picked;
  Rows<const float> logits;
  const int32_t* numbers;
  int n;  // logits of a row, 1 to kMost

  // Logits with their ids in shared memory: n logits, then n ids.
  struct Listed {
    dev::Shared<float> logits;
    dev::Shared<uint32_t> ids;
    int n;
    QR_DEVICE Listed(int at, int room, int n_there) : logits(at), ids(at + 4 * room), n(n_there) {}
  };
  QR_DEVICE Listed largest_of_threads() const { return {kLargestAt, kThreads, kThreads}; }
  QR_DEVICE Listed list(int n_listed) const { return {kListAt, kMostListed, n_listed}; }

  // What is left of a row; the same in every thread.
  struct Left {
    const float* row;
    float max, factor;
    uint64_t last;  // place of the last
    bool is_whole;  // nothing was cut
    int n_listed;   // the list has all that are left, and maybe more; −1: there is none
  };

  // do(x, id) for the logits of a row, in some order.
  template <class Do>
  QR_DEVICE void each(const float* row, Do what) const {
    constexpr int kAtOnce = 8;
    for (int first = dev::thread(); first < n; first += kAtOnce * kThreads) {
      float x[kAtOnce];
      QR_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = first + j * kThreads;
        x[j] = i < n ? dev::load(row + i) : -kInfinity;
      }
      QR_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = first + j * kThreads;
        if (i < n) what(x[j], static_cast<uint32_t>(i));
      }
    }
  }
  template <class Do>
  QR_DEVICE void each(const Listed& of, Do what) const {
    for (int i = dev::thread(); i < of.n; i += kThreads) what(of.logits[i], of.ids[i]);
  }

  // The first place, for every thread; each thread's own goes into largest_of_threads().
  QR_DEVICE uint64_t first_place(const float* row) const {
    const int thread = dev::thread();
    const WholeSums bests(kBestAt, kWarps);
    const Listed own = largest_of_threads();
    uint64_t best = place_of(-kInfinity, kLastId);
    each(row, [&](float x, uint32_t id) {
      const uint64_t place = place_of(x, id);
      best = place > best ? place : best;
    });
    own.logits[thread] = logit_of(static_cast<uint32_t>(best >> kIdBits));
    own.ids[thread] = static_cast<uint32_t>(id_at(best));
    for (int step = 16; step > 0; step /= 2) {
      const uint32_t low = dev::shuffle_xor(static_cast<uint32_t>(best), step);
      const uint32_t high = dev::shuffle_xor(static_cast<uint32_t>(best >> 32), step);
      const uint64_t other = uint64_t{high} << 32 | low;
      best = other > best ? other : best;
    }
    if (thread % 32 == 0) bests.set(thread / 32, best);
    dev::sync();
    for (int i = 0; i < kWarps; ++i) best = bests.of(i) > best ? bests.of(i) : best;
    return best;
  }

  QR_DEVICE float share(const Left& left, float x) const {
    return exp_of(dev::mul(dev::sub(x, left.max), left.factor));
  }
  QR_DEVICE uint64_t mass(const Left& left, float x) const {
    return dev::truncated(dev::widened(dev::mul(share(left, x), 0x1p40F)));
  }

  // What weights have to reach: a number, a share of all of them together, or what is drawn of that.
  struct Goal {
    enum class Kind : uint8_t { number, share, draw };
    Kind kind;
    uint64_t number;
    double share;
    QR_DEVICE uint64_t of(uint64_t total) const {
      if (kind == Kind::number) return number;
      const double wanted = dev::mul(share, dev::widened(total));
      if (kind == Kind::share) return rounded_up(wanted);
      const uint64_t drawn = dev::truncated(wanted);
      return drawn < total ? drawn + 1 : total;
    }
  };

  // For a place by its digits, from the highest on; `goal` and `left_over` are thread 0's alone.
  struct Search {
    bool by_id;    // in the order of ids, or in that of logits
    bool by_mass;  // what weighs a logit: its mass, or 1
    Goal goal;
    int n_digits;            // that are looked for
    int n_found = 0;         // of these
    uint64_t found = 0;      // they
    uint64_t left_over = 0;  // to be reached by those that have them
    QR_DEVICE int shift() const { return (by_id ? kIdBits : kIdBits + 32) - 8 * n_found; }  // of what was found
    QR_DEVICE uint64_t place() const { return found << shift(); }
  };
  static constexpr int kDigitsOfKey = 4, kDigitsOfPlace = 7, kDigitsOfId = 3;
  // Told in place of a digit: all together weigh too little; beside one: all equals of that logit are within the goal.
  static constexpr uint32_t kNowhere = kDigits, kAllOfThem = 2 * kDigits;

  // Of those that are left and have the digits so far, adds up the weights by their next digit.
  QR_DEVICE void sum_digits(const Left& left, const Listed& from, const Search& search) const {
    const WholeSums digits(kDigitsAt, kDigits);
    for (int d = dev::thread(); d < kDigits; d += kThreads) digits.set(d, 0);
    dev::sync();
    const int shift = search.shift();
    const auto add = [&](float x, uint32_t id) {
      const uint64_t in_row = place_of(x, id), place = search.by_id ? in_row & kLastId : in_row;
      if (in_row < left.last || place >> shift != search.found) return;
      const uint64_t weight = search.by_mass ? mass(left, x) : 1;
      if (weight > 0) digits.add(static_cast<int>(place >> (shift - 8) & (kDigits - 1)), weight);
    };
    if (from.n >= 0) each(from, add);
    if (from.n < 0) each(left.row, add);
    dev::sync();
  }

  // The digit at which these sums reach what is left over; takes from that what lies before it. Thread 0.
  QR_DEVICE uint32_t next_digit(const Left& left, Search& search) const {
    const WholeSums digits(kDigitsAt, kDigits), groups(kGroupsAt, kGroups);
    if (search.n_found == 0) {
      uint64_t total = 0;
      for (int g = 0; g < kGroups; ++g) total += groups.of(g);
      search.left_over = search.goal.of(total);
      if (total < search.left_over) return kNowhere;
    }
    int group = kGroups - 1;
    for (; groups.of(group) < search.left_over; --group) search.left_over -= groups.of(group);
    int at = (group + 1) * kOfGroup - 1;
    for (; digits.of(at) < search.left_over; --at) search.left_over -= digits.of(at);
    const auto digit = static_cast<uint32_t>(at);
    if (search.by_id || search.n_found + 1 != kDigitsOfKey) return digit;
    // A logit is known: mostly there is one of it, or all of them are within, and ids need not be looked for.
    const float x = logit_of(static_cast<uint32_t>(search.found << 8 | digit));
    const uint64_t one = search.by_mass ? mass(left, x) : 1;
    return search.left_over + one > digits.of(at) ? digit | kAllOfThem : digit;
  }

  // The place at which the weights reach the goal, or the last one with its digits that were looked for; 0: nowhere.
  QR_DEVICE uint64_t reach(const Left& left, const Listed& from, Search search) const {
    const dev::Shared<uint32_t> told(kToldAt);
    while (search.n_found < search.n_digits) {
      sum_digits(left, from, search);
      if (dev::thread() < kGroups) {
        const WholeSums digits(kDigitsAt, kDigits);
        uint64_t sum = 0;
        for (int d = 0; d < kOfGroup; ++d) sum += digits.of(dev::thread() * kOfGroup + d);
        WholeSums(kGroupsAt, kGroups).set(dev::thread(), sum);
        dev::sync_warp();
      }
      if (dev::thread() == 0) told[0] = next_digit(left, search);
      dev::sync();
      const uint32_t digit = told[0];
      if (digit == kNowhere) return 0;
      search.found = search.found << 8 | (digit & (kDigits - 1));
      ++search.n_found;
      if ((digit & kAllOfThem) != 0) break;
    }
    return search.place();
  }

  // Makes a list of what has that place or comes before it, if there is room for it.
  QR_DEVICE void make_list(Left& left, uint64_t last) const {
    const dev::Shared<uint32_t> n_found(kToldAt + 4);
    const Listed to = list(kMostListed);
    if (dev::thread() == 0) n_found[0] = 0;
    dev::sync();
    each(left.row, [&](float x, uint32_t id) {
      if (place_of(x, id) < last) return;
      const auto at = static_cast<int>(dev::add_to(n_found, 0, 1));
      if (at >= kMostListed) return;
      to.logits[at] = x;
      to.ids[at] = id;
    });
    dev::sync();
    const uint32_t found = n_found[0];
    if (found <= kMostListed) left.n_listed = static_cast<int>(found);
  }

  // Keeps what comes until the weights reach the goal; all where they do not.
  QR_DEVICE void keep(Left& left, bool by_mass, Goal goal) const {
    left.is_whole = false;
    if (left.n_listed < 0) {
      const bool is_number = goal.kind == Goal::Kind::number;  // a share of all is not one of a few
      const uint64_t bound = is_number ? reach(left, largest_of_threads(), {false, by_mass, goal, kDigitsOfKey}) : 0;
      make_list(left, larger(left.last, bound));
    }
    left.last = larger(left.last, reach(left, list(left.n_listed), {false, by_mass, goal, kDigitsOfPlace}));
  }

  // Of the shares of each chunk of 1024, in 16 lanes.
  QR_DEVICE void sum_chunks(const Left& left) const {
    const dev::Shared<float> sums(kSumsAt);
    const int lane = dev::thread() % kLanes, group = dev::thread() / kLanes;
    for (int first = 0; first < n_chunks(); first += kThreads / kLanes) {
      const int chunk = first + group, end = (chunk + 1) * kChunk < n ? (chunk + 1) * kChunk : n;
      float sum = 0.0F;
      for (int i = chunk * kChunk + lane; i < end; i += kLanes)
        sum = dev::add(sum, share(left, dev::load(left.row + i)));
      sum = folded(sum);
      if (lane == 0 && chunk < n_chunks()) sums[chunk] = sum;
    }
    dev::sync();
  }
  QR_DEVICE int n_chunks() const { return (n + kChunk - 1) / kChunk; }
  QR_DEVICE double sum_of_chunks() const {
    const dev::Shared<float> sums(kSumsAt);
    double total = 0.0;
    for (int c = 0; c < n_chunks(); ++c) total = dev::add(total, dev::widened(sums[c]));
    return total;
  }

  struct Chosen {
    int chunk;  // the first that ends behind the draw, or where rounding leaves none the last with a share
    double reached, wanted;
  };
  QR_DEVICE Chosen choose(double draw) const {
    const dev::Shared<float> sums(kSumsAt);
    Chosen out{0, 0.0, dev::mul(draw, sum_of_chunks())};
    for (int c = 0; c < n_chunks(); ++c) {
      const double sum = dev::widened(sums[c]);
      if (!(sum > 0.0)) continue;
      out.chunk = c;
      const double next = dev::add(out.reached, sum);
      if (next > out.wanted) break;
      out.reached = next;
    }
    return out;
  }

  // Of a whole row; thread 0's alone.
  QR_DEVICE int drawn_of_all(const Left& left, double draw) const {
    const int thread = dev::thread();
    const dev::Shared<uint32_t> told(kToldAt);
    const dev::Shared<float> shares(kSumsAt);
    sum_chunks(left);
    Chosen of{};
    if (thread == 0) {
      of = choose(draw);
      told[0] = static_cast<uint32_t>(of.chunk);
    }
    dev::sync();
    const int begin = static_cast<int>(told[0]) * kChunk, size = n - begin < kChunk ? n - begin : kChunk;
    for (int i = thread; i < size; i += kThreads) shares[i] = share(left, dev::load(left.row + begin + i));
    dev::sync();
    if (thread > 0) return 0;
    int at = 0;
    for (int i = 0; i < size; ++i) {
      const float value = shares[i];
      if (!(value > 0.0F)) continue;
      at = i;
      of.reached = dev::add(of.reached, dev::widened(value));
      if (of.reached > of.wanted) break;
    }
    return begin + at;
  }

  QR_DEVICE uint32_t number(int i) const {
    return static_cast<uint32_t>(dev::load(numbers + int64_t{dev::block_x()} * kNumbers + i));
  }
  enum : uint32_t { kTemperature = 1, kMinP, kTopK, kTopP };  // filters, four bits each, the first one lowest

  QR_DEVICE void filter(uint32_t which, Left& left) const {
    if (which == kTemperature) left.factor = dev::div(1.0F, dev::as_float(number(0)));
    if (which == kMinP) {
      const float least = dev::narrowed(dev::add(dev::widened(left.max), dev::as_double(number(6), number(7))));
      left.last = larger(left.last, last_with(key_of(least)));
      left.is_whole = false;
    }
    Goal goal{Goal::Kind::number, number(4), 0.0};
    if (which == kTopP) {
      goal.share = dev::widened(dev::as_float(number(5)));
      if (left.is_whole) {
        sum_chunks(left);
        if (dev::thread() == 0) goal.number = rounded_up(dev::mul(dev::mul(goal.share, sum_of_chunks()), 0x1p40));
      } else {
        goal.kind = Goal::Kind::share;
      }
    }
    const bool is_cut = which == kTopK && (!left.is_whole || goal.number < static_cast<uint64_t>(n));
    if (is_cut || which == kTopP) keep(left, which == kTopP, goal);
  }

  // What is drawn of a row whose largest is a number; thread 0's alone.
  QR_DEVICE int drawn(const float* row, float max) const {
    const double draw = dev::as_double(number(1), number(2));
    Left left{row, max, 1.0F, last_with(key_of(-kInfinity) + 1), true, -1};
    for (uint32_t filters = number(3); filters != 0; filters >>= 4) filter(filters & 15U, left);
    if (left.is_whole) return drawn_of_all(left, draw);
    if (left.n_listed < 0) make_list(left, left.last);
    return id_at(reach(left, list(left.n_listed), {true, true, {Goal::Kind::draw, 0, draw}, kDigitsOfId}));
  }

  QR_DEVICE void operator()() const {
    const float* row = logits.row(dev::block_x());
    const uint64_t first = first_place(row);
    const float max = logit_of(static_cast<uint32_t>(first >> kIdBits));
    int id = id_at(first);
    if (dev::as_float(number(0)) > 0.0F && max > -kInfinity && max < kInfinity) id = drawn(row, max);
    if (dev::thread() == 0) dev::store(picked + dev::block_x(), id);
  }
};

struct TakePicked {  // out[i] = picked[from[i]], ids[i] where from[i] is −1; of one row
  int32_t* out;
  const int32_t *ids, *picked, *from;
  QR_DEVICE void of(int64_t, int i) const {
    const int32_t at = dev::load(from + i);
    dev::store(out + i, at < 0 ? dev::load(ids + i) : dev::load(picked + at));
  }
};

}  // namespace quire::cuda
