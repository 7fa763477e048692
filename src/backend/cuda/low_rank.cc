#include "backend/cuda/low_rank.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/cuda/kernels/list.cuh"
#include "backend/cuda/launches.h"
#include "backend/cuda/tensor_rows.h"
#include "ops/held_numbers.h"
#include "ops/low_rank.h"

namespace quire::cuda {
namespace {

static_assert(std::has_unique_object_representations_v<LowRankPart>);

constexpr int64_t kAlign = 256;  // of a matrix

int64_t stride_of(int64_t rank) { return parts_of(rank, kRankPanel) * kRankPanel; }

// By how a matrix A is held; formats of adapters alone, told from others by where they are.
const WeightFormat& held_format(HeldAs held) {
  static const std::array<WeightFormat, kHeldAs> kFormats = [] {
    std::array<WeightFormat, kHeldAs> out = {*find_weight_format("f32"), *find_weight_format("f16"),
                                             *find_weight_format("bf16")};
    out.back().rounded = false;
    return out;
  }();
  return kFormats.at(static_cast<size_t>(held));
}

// Calls with(W) for the numbers of kernels/low_rank.cuh that are held so.
template <class With>
void with_held(HeldAs held, const With& with) {
  switch (held) {
    case HeldAs::f32: return with(FloatF32());
    case HeldAs::f16: return with(FloatF16());
    case HeldAs::bf16: return with(FloatBF16());
  }
}

void pack_a(const LowRankSource& from, HeldAs held, std::byte* to) {
  for (int64_t j = 0; j < from.rank; ++j) {
    for (int64_t k = 0; k < from.n_in; ++k) {
      const int64_t at = (j / kRankPanel * from.n_in + k) * kRankPanel + j % kRankPanel;
      hold(from.a[static_cast<size_t>(j * from.n_in + k)], held, to + at * held_bytes(held));
    }
  }
}

void pack_b(const LowRankSource& from, HeldAs held, std::byte* to) {
  const int64_t n_rows = numbers_per_output(from);
  for (int64_t j = 0; j < n_rows; ++j) {
    for (int64_t o = 0; o < from.n_out; ++o, to += held_bytes(held)) {
      hold(from.b[static_cast<size_t>(o * n_rows + j)], held, to);
    }
  }
}

// A matrix and rows that get it.
struct Entry {
  const LowRank* of;
  LowRankPart part;
};

// Launches entries a few at a time, each time such as are held alike. held(entry): how; n_blocks(part): its blocks of
// the grid's first axis; run(W, parts, blocks of that axis, rows).
template <class Held, class NumberOf, class Run>
void run_alike(std::span<const Entry> entries, const Held& held, const NumberOf& n_blocks, const Run& run) {
  for (int kind = 0; kind < kHeldAs; ++kind) {
    LowRankPart parts[kLowRankParts];
    int n_parts = 0;
    int64_t n_of_all = 0, n_rows = 0;
    const auto launch = [&] {
      if (n_parts == 0) return;
      for (; n_parts < kLowRankParts; ++n_parts) parts[n_parts] = {.first = std::numeric_limits<int>::max()};
      with_held(static_cast<HeldAs>(kind), [&](auto w) { run(w, parts, n_of_all, n_rows); });
      n_parts = 0;
      n_of_all = n_rows = 0;
    };
    for (const Entry& entry : entries) {
      if (held(entry) != static_cast<HeldAs>(kind)) continue;
      parts[n_parts] = entry.part;
      parts[n_parts++].first = static_cast<int>(n_of_all);
      n_of_all += n_blocks(entry.part);
      n_rows = std::max<int64_t>(n_rows, entry.part.n_rows);
      if (n_parts == kLowRankParts) launch();
    }
    launch();
  }
}

template <class Kernel>
Kernel kernel_of(const LowRankPart (&parts)[kLowRankParts]) {
  Kernel out{};
  std::ranges::copy(parts, out.parts);
  return out;
}

void add_entries(Runtime& runtime, const Tensor& y, const Tensor& x, std::span<const Entry> entries) {
  run_alike(
      entries, [](const Entry& entry) { return *held_as(entry.of->a); },
      [](const LowRankPart& part) { return parts_of(part.rank, kRankPanel); },
      [&]<class W>(W, const auto& parts, int64_t n_panels, int64_t n_rows) {
        auto kernel = kernel_of<LowRankDown<W>>(parts);
        kernel.x = read_rows(x);
        kernel.n_in = static_cast<int>(x.dim(1));
        quire::cuda::run(runtime, kernel, n_panels, parts_of(n_rows, kernel.kRows));
      });
  run_alike(
      entries, [](const Entry& entry) { return quire::held_as(entry.of->b.dtype); },
      [](const LowRankPart& part) { return parts_of(part.n_out, LowRankUp<FloatF32>::kThreads); },
      [&]<class W>(W, const auto& parts, int64_t n_runs, int64_t n_rows) {
        auto kernel = kernel_of<LowRankUp<W>>(parts);
        kernel.y = rows_of(y);
        quire::cuda::run(runtime, kernel, n_runs, parts_of(n_rows, kernel.kRows));
      });
}

}  // namespace

std::optional<HeldAs> held_as(const Linear& a) {
  for (const HeldAs held : {HeldAs::f32, HeldAs::f16, HeldAs::bf16}) {
    if (a.format == &held_format(held)) return held;
  }
  return {};
}

// Matrices lie in an image on the host until all of it is on the device.
Result<Buffer> load_low_rank_matrices(const std::shared_ptr<LoadedMemory>& memory,
                                      std::span<const LowRankSource> from,
                                      std::span<LowRank> to) {
  std::vector<int64_t> at;
  int64_t n = kAlign;  // a buffer has one byte at least
  const auto place = [&](int64_t bytes) { at.push_back(std::exchange(n, n + parts_of(bytes, kAlign) * kAlign)); };
  for (size_t i = 0; i < from.size(); ++i) {
    const LowRankSource& one = from[i];
    to[i].n_out = one.n_out;
    if (one.rank == 0) continue;
    const HeldAs a = narrowest(one.a), b = narrowest(one.b);
    to[i].a.format = &held_format(a);
    to[i].a.n_out = one.rank;
    to[i].a.n_in = one.n_in;
    to[i].a.w = Tensor::dense(nullptr, DType::u8, {stride_of(one.rank) * one.n_in * held_bytes(a)});
    to[i].b = Tensor::dense(nullptr, dtype_of(b), {numbers_per_output(one), one.n_out});
    place(to[i].a.w.dim(0));
    place(std::ssize(one.b) * held_bytes(b));
  }
  std::vector<std::byte> image(static_cast<size_t>(n));
  auto next = at.begin();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].rank == 0) continue;
    pack_a(from[i], *held_as(to[i].a), image.data() + *next++);
    pack_b(from[i], quire::held_as(to[i].b.dtype), image.data() + *next++);
  }
  QR_TRY(Buffer out, LoadedMemory::load(memory, image));
  next = at.begin();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].rank == 0) continue;
    to[i].a.w.data = out.data() + *next++;
    to[i].b.data = out.data() + *next++;
  }
  return out;
}

bool adds_low_rank(const AddedProducts& added) {
  return std::ranges::any_of(added.rows, [&](const AdapterRows& some) {
    return some.begin < some.end && !std::ranges::all_of(added.of(some), &LowRank::empty);
  });
}

void add_low_rank_rows(
    Runtime& runtime, std::span<std::byte> room, const Tensor& y, const Tensor& x, const AddedProducts& added) {
  std::vector<Entry> entries;
  int64_t used = 0;
  const auto put = [&](const LowRank& of, int64_t column, int64_t row, int64_t end) {
    const int64_t row_bytes = stride_of(of.a.n_out) * 4;
    QR_CHECK(row_bytes <= std::ssize(room));
    while (row < end) {
      const int64_t n = std::min({end - row, (std::ssize(room) - used) / row_bytes, kMostRows});
      if (n > 0) {
        auto* h = reinterpret_cast<float*>(room.data() + used);
        entries.push_back({&of,
                           {.a = of.a.w.ptr<uint8_t>(),
                            .b = reinterpret_cast<const uint8_t*>(of.b.data),
                            .h = h,
                            .first_row = static_cast<int>(row),
                            .n_rows = static_cast<int>(n),
                            .rank = static_cast<int>(of.a.n_out),
                            .n_out = static_cast<int>(of.n_out),
                            .column = static_cast<int>(column),
                            .scales = scales_product(of) ? 1 : 0}});
        used += n * row_bytes;
        row += n;
      } else {
        add_entries(runtime, y, x, entries);
        entries.clear();
        used = 0;
      }
    }
  };
  for (const AdapterRows& some : added.rows) {
    int64_t column = 0;
    for (const LowRank& part : added.of(some)) {
      if (!part.empty()) put(part, column, some.begin, some.end);
      column += part.n_out;
    }
  }
  add_entries(runtime, y, x, entries);
}

void embed_low_rank(Runtime& runtime, const Tensor& y, const int32_t* ids, const Linear& a) {
  with_held(*held_as(a), [&]<class W>(W) {
    run_each(runtime, EmbedLowRank<W>{rows_of(y), a.w.ptr<uint8_t>(), ids, static_cast<int>(a.n_in)}, y.dim(0),
             y.dim(1));
  });
}

}  // namespace quire::cuda
