#include "model/hf_reshape.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/in_quotes.h"

namespace quire {
namespace {

// Element i of ours is element from(i) of theirs.
template <class From>
Status copy(const HostWeight& theirs, std::vector<int64_t> shape, HostWeight& ours, ModelFile& file, From from) {
  if (theirs.format->block != 1) {
    return fail(Code::unsupported, "tensor " + in_quotes(theirs.name) + ": its type is not supported here");
  }
  int64_t n = 1;
  for (const int64_t dim : shape) n *= dim;
  const auto size = static_cast<size_t>(theirs.format->bytes);
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(n) * size);
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(bytes->data() + static_cast<size_t>(i) * size, theirs.data.data() + static_cast<size_t>(from(i)) * size,
                size);
  }
  ours.shape = std::move(shape);
  ours.data = *bytes;
  file.owned.push_back(std::move(bytes));
  return {};
}

// `halved`: the dimension that two kinds share.
Status check(const HostWeight& weight, size_t rank, size_t halved) {
  if (weight.shape.size() != rank) {
    return fail(Code::corrupt, "tensor " + in_quotes(weight.name) + ": must have " + std::to_string(rank) +
                                   " dimensions, has " + std::to_string(weight.shape.size()));
  }
  if (halved < rank && weight.shape[halved] % 2 != 0) {
    return fail(Code::corrupt, "tensor " + in_quotes(weight.name) + ": dimension " + std::to_string(halved) +
                                   " must be even, is " + std::to_string(weight.shape[halved]));
  }
  return {};
}

Status half_of_rows(const HostWeight& theirs, int64_t half, HostWeight& ours, ModelFile& file) {
  const size_t rank = theirs.shape.size() == 2 ? 2 : 3;
  QR_TRY_VOID(check(theirs, rank, rank - 2));
  std::vector<int64_t> shape = theirs.shape;
  shape[rank - 2] /= 2;
  const int64_t run = shape[rank - 2] * shape[rank - 1];
  return copy(theirs, std::move(shape), ours, file, [=](int64_t i) { return (2 * (i / run) + half) * run + i % run; });
}

// Column first + step · i of every matrix as its row i.
Status some_columns(const HostWeight& theirs, int64_t first, int64_t step, HostWeight& ours, ModelFile& file) {
  QR_TRY_VOID(check(theirs, 3, 2));
  const int64_t d = theirs.shape[1];
  const int64_t f = theirs.shape[2] / 2;
  return copy(theirs, {theirs.shape[0], f, d}, ours, file, [=](int64_t i) {
    const int64_t matrix = i / (f * d);
    const int64_t row = i / d % f;
    return (matrix * d + i % d) * 2 * f + step * row + first;
  });
}

class EveryOtherRow final : public MadeRows {
 public:
  EveryOtherRow(HostWeight theirs, int64_t first) : theirs_(std::move(theirs)), first_(first) {}

  std::string kind() const override {
    return (theirs_.made != nullptr ? theirs_.made->kind() : std::string()) +
           (first_ == 0 ? ", even rows" : ", odd rows");
  }
  // The two that are made of the same rows answer for half of the bytes each: together they count what the file holds.
  std::vector<std::span<const std::byte>> stored() const override {
    std::vector<std::span<const std::byte>> out = theirs_.stored();
    for (std::span<const std::byte>& part : out) {
      const size_t half = part.size() / 2;
      part = first_ == 0 ? part.first(half) : part.subspan(half);
    }
    return out;
  }
  std::span<const int32_t> order() const override { return theirs_.order(); }
  void make(int64_t first, int64_t n, std::byte* out) const override {
    std::vector<std::byte> room;
    const auto size = static_cast<size_t>(theirs_.row_bytes());
    for (int64_t i = first; i < first + n; ++i, out += size) {
      std::memcpy(out, theirs_.rows(2 * i + first_, 1, room), size);
    }
  }

 private:
  HostWeight theirs_;
  int64_t first_;
};

Status every_other_row(const HostWeight& theirs, int64_t first, HostWeight& ours) {
  QR_TRY_VOID(check(theirs, 3, 1));
  ours.shape[1] /= 2;
  ours.data = {};
  ours.first_made = 0;
  ours.made = std::make_shared<EveryOtherRow>(theirs, first);
  return {};
}

Status every_other_number(const HostWeight& theirs, int64_t first, HostWeight& ours, ModelFile& file) {
  QR_TRY_VOID(check(theirs, 2, 1));
  return copy(theirs, {theirs.shape[0], theirs.shape[1] / 2}, ours, file, [=](int64_t i) { return 2 * i + first; });
}

}  // namespace

Status first_rows(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile& file) {
  return half_of_rows(theirs, 0, ours, file);
}
Status last_rows(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile& file) {
  return half_of_rows(theirs, 1, ours, file);
}
Status even_columns(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile& file) {
  return some_columns(theirs, 0, 2, ours, file);
}
Status odd_columns(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile& file) {
  return some_columns(theirs, 1, 2, ours, file);
}
Status first_columns(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile& file) {
  return some_columns(theirs, 0, 1, ours, file);
}
Status last_columns(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile& file) {
  const int64_t n_columns = theirs.shape.size() == 3 ? theirs.shape[2] : 0;
  return some_columns(theirs, n_columns / 2, 1, ours, file);
}
Status even_rows(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile&) {
  return every_other_row(theirs, 0, ours);
}
Status odd_rows(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile&) {
  return every_other_row(theirs, 1, ours);
}
Status even_numbers(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile& file) {
  return every_other_number(theirs, 0, ours, file);
}
Status odd_numbers(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile& file) {
  return every_other_number(theirs, 1, ours, file);
}

Status rows_in_order(const HostWeight& theirs, const std::vector<RowRun>& runs, HostWeight& ours, ModelFile& file) {
  std::vector<int64_t> rows;
  for (const auto& [begin, n] : runs) {
    for (int64_t i = 0; i < n; ++i) rows.push_back(begin + i);
  }
  std::vector<int64_t> shape = theirs.shape;
  shape[0] = static_cast<int64_t>(rows.size());
  const int64_t d = theirs.shape.size() == 2 ? theirs.shape[1] : 1;
  return copy(theirs, std::move(shape), ours, file,
              [&](int64_t i) { return rows[static_cast<size_t>(i / d)] * d + i % d; });
}

Status flattened(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile&) {
  QR_TRY_VOID(check(theirs, 2, 2));
  ours.shape = {theirs.shape[0] * theirs.shape[1]};
  return {};
}

Status as_column(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile&) {
  QR_TRY_VOID(check(theirs, 1, 1));
  ours.shape = {theirs.shape[0], 1};
  return {};
}

Status without_middle(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile&) {
  QR_TRY_VOID(check(theirs, 3, 3));
  if (theirs.shape[1] != 1) {
    return fail(Code::corrupt,
                "tensor " + in_quotes(theirs.name) + ": dimension 1 must be 1, is " + std::to_string(theirs.shape[1]));
  }
  ours.shape = {theirs.shape[0], theirs.shape[2]};
  return {};
}

Status minus_exp(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file) {
  if (theirs.shape.size() != 2) QR_TRY_VOID(as_column(theirs, facts, ours, file));
  if (theirs.format->block != 1) {
    return fail(Code::unsupported, "tensor " + in_quotes(theirs.name) + ": its type is not supported here");
  }
  const auto n = static_cast<size_t>(theirs.n_rows() * theirs.n_cols());
  auto bytes = std::make_shared<std::vector<std::byte>>(n * sizeof(float));
  for (size_t i = 0; i < n; ++i) {
    float x = 0;
    theirs.format->decode(theirs.data.data() + i * static_cast<size_t>(theirs.format->bytes), &x);
    x = static_cast<float>(-std::exp(static_cast<double>(x)));
    std::memcpy(bytes->data() + i * sizeof(float), &x, sizeof(float));
  }
  ours.format = find_weight_format(std::string_view("f32"));
  ours.data = *bytes;
  file.owned.push_back(std::move(bytes));
  return {};
}

Status kv_heads_apart(
    const HostWeight& theirs, int64_t n_heads, int64_t n_kv_heads, HostWeight& ours, ModelFile& file) {
  const int64_t n_rows = theirs.shape.empty() ? 0 : theirs.shape[0];
  if (theirs.shape.size() > 2 || n_heads % n_kv_heads != 0 || n_rows % (n_heads + 2 * n_kv_heads) != 0) {
    return fail(Code::corrupt, "tensor " + in_quotes(theirs.name) + ": must have rows of " + std::to_string(n_heads) +
                                   " heads of queries and " + std::to_string(n_kv_heads) +
                                   " of keys and of values, has " + std::to_string(n_rows) + " rows");
  }
  const int64_t d = theirs.shape.size() == 2 ? theirs.shape[1] : 1;
  const int64_t dim = n_rows / (n_heads + 2 * n_kv_heads);
  const int64_t n_shared = n_heads / n_kv_heads;
  return copy(theirs, theirs.shape, ours, file, [=](int64_t i) {
    const int64_t row = i / d;
    const int64_t head = row / dim;
    const bool is_q = head < n_heads;
    const int64_t kv_head = is_q ? head / n_shared : (head - n_heads) % n_kv_heads;
    const int64_t at = is_q ? head % n_shared : n_shared + (head - n_heads) / n_kv_heads;
    return ((kv_head * (n_shared + 2) + at) * dim + row % dim) * d + i % d;
  });
}

Status heads_apart(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file) {
  QR_TRY(const int64_t n_heads, facts.get_int("hf.num_attention_heads", 1, 4096));
  return kv_heads_apart(theirs, n_heads, n_heads, ours, file);
}

namespace {

struct LatentShape {
  int64_t heads, k, v, n;
};

Result<LatentShape> latent_shape(const HostWeight& theirs, const Metadata& facts) {
  QR_TRY_VOID(check(theirs, 2, 2));
  QR_TRY(const int64_t heads, facts.get_int("hf.num_attention_heads", 1, 4096));
  QR_TRY(const int64_t k, facts.get_int("hf.qk_nope_head_dim", 1, 1 << 16));
  QR_TRY(const int64_t v, facts.get_int("hf.v_head_dim", 1, 1 << 16));
  if (theirs.shape[0] == heads * (k + v)) return LatentShape{heads, k, v, theirs.shape[1]};
  return fail(Code::corrupt, "tensor " + in_quotes(theirs.name) + ": must have " + std::to_string(k + v) +
                                 " rows of each of " + std::to_string(heads) + " heads, has " +
                                 std::to_string(theirs.shape[0]) + " rows");
}

}  // namespace

Status latent_to_queries(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file) {
  QR_TRY(const LatentShape s, latent_shape(theirs, facts));
  return copy(theirs, {s.heads, s.n, s.k}, ours, file, [=](int64_t i) {
    const int64_t head = i / (s.n * s.k);
    return (head * (s.k + s.v) + i % s.k) * s.n + i / s.k % s.n;
  });
}

Status latent_to_values(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file) {
  QR_TRY(const LatentShape s, latent_shape(theirs, facts));
  return copy(theirs, {s.heads, s.v, s.n}, ours, file, [=](int64_t i) {
    const int64_t head = i / (s.v * s.n);
    return (head * (s.k + s.v) + s.k) * s.n + i % (s.v * s.n);
  });
}

Status transposed(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile& file) {
  const size_t rank = theirs.shape.size() == 2 ? 2 : 3;
  QR_TRY_VOID(check(theirs, rank, rank));
  const int64_t f = theirs.shape[rank - 2];
  const int64_t d = theirs.shape[rank - 1];
  std::vector<int64_t> shape = theirs.shape;
  std::swap(shape[rank - 2], shape[rank - 1]);
  return copy(theirs, std::move(shape), ours, file, [=](int64_t i) {
    const int64_t matrix = i / (f * d);
    return (matrix * f + i % f) * d + i / f % d;
  });
}

bool makes_rows_of_columns(Reshape reshape) {
  constexpr Reshape kTheirs[] = {even_columns, odd_columns, first_columns, last_columns, transposed};
  return std::ranges::find(kTheirs, reshape) != std::end(kTheirs);
}

}  // namespace quire
