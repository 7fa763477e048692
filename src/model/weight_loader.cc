#include "model/weight_loader.h"

#include <cstring>

#include "base/bounded_reader.h"
#include "quant/convert.h"

namespace quire {

const WeightFormat& loaded_format(const HostWeight& weight, const LoadOptions& options) {
  const WeightFormat& format = options.weights != nullptr ? *fitting_format(weight, *options.weights) : *weight.format;
  return format.rounded && is_exact(weight.name) ? *find_weight_format("f32") : format;
}

namespace {

// That of n numbers: whatever the tensor has, if it has as many.
std::vector<int64_t> shape_of_numbers(const HostWeight* found, int64_t n) {
  return found != nullptr && found->n_rows() * found->n_cols() == n ? found->shape : std::vector<int64_t>{n};
}

// A product of a few columns is exact: rounding what it reads saves nothing, and no sum evens it out.
const WeightFormat& product_format(const HostWeight& weight, const WeightFormat& loaded) {
  constexpr int64_t kFew = 16;
  return loaded.rounded && weight.n_cols() < kFew ? *find_weight_format("f32") : loaded;
}

// Rows, or numbers of a vector, [begin, begin + n). REQUIRES whole blocks, of a vector.
HostWeight rows_of(const HostWeight& whole, int64_t begin, int64_t n) {
  const size_t bytes = whole.data.size(), n_rows = static_cast<size_t>(whole.shape[0]);
  HostWeight out = whole;
  out.shape[0] = n;
  out.data = whole.data.subspan(static_cast<size_t>(begin) * bytes / n_rows, static_cast<size_t>(n) * bytes / n_rows);
  out.first_made += begin;
  return out;
}

// One whose rows lie in memory: of one that makes its rows, all of them, in `room`.
HostWeight with_rows(const HostWeight& weight, std::vector<std::byte>& room) {
  if (weight.made == nullptr) return weight;
  HostWeight out = weight;
  out.data = {weight.rows(0, weight.n_rows(), room), static_cast<size_t>(weight.n_rows() * weight.row_bytes())};
  out.made = nullptr;
  out.first_made = 0;
  return out;
}

// [k, n] as [n, k], whose bytes go to `room`.
HostWeight transpose(const HostWeight& weight, std::vector<std::byte>& room) {
  const int64_t k = weight.shape[0], n = weight.shape[1];
  HostWeight out = weight;
  out.shape = {n, k};
  std::vector<float> decoded;
  const std::byte* from = weight.data.data();
  if (weight.format->block != 1) {
    out.format = find_weight_format("f32");
    decoded.resize(static_cast<size_t>(k * n));
    for (int64_t i = 0; i < k * n; i += weight.format->block) {
      weight.format->decode(from + i / weight.format->block * weight.format->bytes, decoded.data() + i);
    }
    from = reinterpret_cast<const std::byte*>(decoded.data());
  }
  const auto size = static_cast<size_t>(out.format->bytes);
  room.resize(static_cast<size_t>(k * n) * size);
  for (int64_t i = 0; i < k * n; ++i) {
    std::memcpy(room.data() + static_cast<size_t>(i % n * k + i / n) * size, from + static_cast<size_t>(i) * size,
                size);
  }
  out.data = room;
  return out;
}

}  // namespace

WeightLoader::WeightLoader(const ModelFile& file, Ops& ops, const LoadOptions& options)
    : file_(file), ops_(ops), options_(options), content_(file, options.hash_folder, options.n_threads) {
  for (const HostWeight& weight : file.tensors) total_bytes_ += weight.stored_bytes();
}

const HostWeight* WeightLoader::get(const std::string& name, const std::vector<int64_t>& shape) {
  if (!status_) return nullptr;
  const Result<const HostWeight*> found = file_.get(prefix_ + name, shape);
  if (!found) status_ = tl::make_unexpected(found.error());
  return found ? *found : nullptr;
}

const HostWeight* WeightLoader::get_stored(const std::string& name, const std::vector<int64_t>& shape) {
  const HostWeight* found = get(name, shape);
  if (found == nullptr || found->made == nullptr) return found;
  status_ = fail(Code::unsupported,
                 file_.path + ": tensor " + file_.shown(found->name) + ": is quantised, which is not supported here");
  return nullptr;
}

const HostWeight* WeightLoader::get_ordered(const std::string& name, const std::vector<int64_t>& shape) {
  const HostWeight* found = get(name, shape);
  if (found == nullptr || found->order().empty()) return found;
  status_ = fail(Code::unsupported, file_.path + ": tensor " + file_.shown(found->name) +
                                        ": its columns are reordered, which is not supported here");
  return nullptr;
}

const HostWeight* WeightLoader::get_plain(const std::string& name, const std::vector<int64_t>& shape) {
  const HostWeight* found = get_stored(name, shape);
  if (found == nullptr || found->format->block == 1) return found;
  status_ = fail(Code::unsupported, file_.path + ": tensor " + file_.shown(found->name) + ": its type " +
                                        std::string(found->format->name) + " is not supported here");
  return nullptr;
}

void WeightLoader::took(const HostWeight& weight) {
  content_.add(weight);  // while its bytes are at hand
  file_.release(weight);
  done_bytes_ += weight.stored_bytes();
  if (options_.on_progress) options_.on_progress(done_bytes_, total_bytes_);
}

void WeightLoader::vector(Tensor& out, const std::string& name, int64_t n) {
  const HostWeight* weight = get_stored(name, {n});
  if (weight == nullptr) return;
  take(out, ops_.load_vector(*weight));
  took(*weight);
}

void WeightLoader::given(Tensor& out, std::span<const float> values) {
  HostWeight made;
  made.name = "constant";
  made.format = find_weight_format(std::string_view("f32"));
  made.shape = {static_cast<int64_t>(values.size())};
  made.data = std::as_bytes(values);
  take(out, ops_.load_vector(made));
}

void WeightLoader::constant(Tensor& out, int64_t n, float value) {
  given(out, std::vector<float>(static_cast<size_t>(n), value));
}

void WeightLoader::numbers(Tensor& out, const std::string& name, int64_t n) {
  const HostWeight* weight = get_stored(name, shape_of_numbers(file_.find(prefix_ + name), n));
  if (weight == nullptr) return;
  take(out, ops_.load_vector(*weight));
  took(*weight);
}

std::vector<float> WeightLoader::host_numbers(const std::string& name, int64_t n) {
  const HostWeight* weight = get_stored(name, shape_of_numbers(file_.find(prefix_ + name), n));
  if (weight == nullptr) return {};
  const WeightFormat& format = *weight->format;
  std::vector<float> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i += format.block) {
    format.decode(weight->data.data() + i / format.block * format.bytes, out.data() + i);
  }
  took(*weight);
  return out;
}

void WeightLoader::load_transposed(Tensor& out, const std::string& name, int64_t n_out, int64_t n_in) {
  load_transposed(out, std::array{Part{name, n_out}}, n_in);
}

void WeightLoader::load_transposed(Tensor& out, std::span<const Part> parts, int64_t n_in) {
  int64_t n_all = 0, at = 0;
  for (const Part& part : parts) n_all += part.n_out;
  std::vector<float> numbers;
  for (const auto& [name, n_out] : parts) {
    const HostWeight* found = file_.find(prefix_ + name);
    const bool same = found != nullptr && found->n_cols() == n_in && found->n_rows() == n_out;
    const HostWeight* weight = get_plain(name, same ? found->shape : std::vector<int64_t>{n_out, n_in});
    if (weight == nullptr) return;
    numbers.resize(static_cast<size_t>(n_all * n_in));  // not before the file has something of this size
    for (int64_t i = 0; i < n_out * n_in; ++i) {
      weight->format->decode(weight->data.data() + i * weight->format->bytes,
                             numbers.data() + i % n_in * n_all + at + i / n_in);
    }
    at += n_out;
    took(*weight);
  }
  HostWeight transposed;
  transposed.name = prefix_ + parts.front().name;
  transposed.format = find_weight_format(std::string_view("f32"));
  transposed.shape = {n_in * n_all};
  transposed.data = std::as_bytes(std::span(numbers));
  take(out, ops_.load_vector(transposed));
  if (status_) out = Tensor::dense(out.data, DType::f32, {n_in, n_all});
}

Result<Linear> WeightLoader::load(const HostWeight& weight, const HostWeight* bias) {
  const WeightFormat& format = product_format(weight, loaded_format(weight, options_));
  if (&format == weight.format) return ops_.load_linear(weight, bias, Shard{});
  QR_TRY(const Buffer buffer, Buffer::allocate(weight.n_rows() * format.row_bytes(weight.n_cols())));
  auto lost = convert_weight(weight, format, {.n_threads = options_.n_threads, .quick = true}, buffer.data());
  if (!lost) return error_within(file_.path, std::move(lost).error());
  HostWeight converted = weight;
  converted.format = &format;
  converted.made = nullptr;
  converted.data = {buffer.data(), static_cast<size_t>(weight.n_rows() * format.row_bytes(weight.n_cols()))};
  return ops_.load_linear(converted, bias, Shard{});
}

void WeightLoader::append(std::vector<Linear>& out,
                          const std::string& name,
                          const std::vector<int64_t>& shape,
                          std::span<const Rows> parts) {
  const std::string bias_name = name + ".bias";
  const std::vector<int64_t> bias_shape(shape.begin(), shape.end() - 1);
  const HostWeight* all = get(name + ".weight", shape);
  const HostWeight* bias = nullptr;
  if (has(bias_name)) bias = parts.size() == 1 ? get(bias_name, bias_shape) : get_plain(bias_name, bias_shape);
  if (!status_) return;
  HostWeight matrix = *all, numbers = bias != nullptr ? *bias : HostWeight();
  matrix.shape = {all->n_rows(), all->n_cols()};
  numbers.shape = {all->n_rows()};
  for (const auto& [begin, n, other] : parts) {
    const HostWeight its_bias = bias != nullptr ? rows_of(numbers, begin, n) : HostWeight();
    std::vector<Linear>& list = other != nullptr ? *other : out;
    taken_.push_back({all->name, &list, list.size(), begin});
    take(list.emplace_back(), load(rows_of(matrix, begin, n), bias != nullptr ? &its_bias : nullptr));
    if (!status_) return;
  }
  took(*all);
}

void WeightLoader::linear(std::vector<Linear>& out, const std::string& name, int64_t n_out, int64_t n_in) {
  append(out, name, {n_out, n_in}, std::array{Rows{0, n_out}});
}

void WeightLoader::table(std::vector<Linear>& out, const std::string& name, int64_t n_in) {
  linear(out, name, extent(name + ".weight", 0), n_in);
}

int64_t WeightLoader::extent(const std::string& name, size_t dimension) const {
  const HostWeight* found = file_.find(prefix_ + name);
  return found != nullptr && dimension < found->shape.size() ? std::max<int64_t>(found->shape[dimension], 1) : 1;
}

void WeightLoader::again(std::vector<Linear>& out) {
  if (!status_) return;
  Taken same = taken_.back();
  same.index = out.size();
  taken_.push_back(std::move(same));
  out.push_back(Linear(out.back()));
}

void WeightLoader::gate(std::vector<Linear>& out, const std::string& name, int64_t n_in) {
  const HostWeight* found = file_.find(prefix_ + name + ".weight");
  if (found == nullptr || found->shape.size() != 1) return linear(out, name, 1, n_in);
  const HostWeight* weight = get(name + ".weight", {n_in});
  if (!status_) return;
  HostWeight row = *weight;
  row.shape = {1, n_in};
  taken_.push_back({weight->name, &out, out.size(), 0});
  take(out.emplace_back(), ops_.load_linear(row, nullptr, Shard{}));
  took(*weight);
}

void WeightLoader::biased_linear(std::vector<Linear>& out, const std::string& name, int64_t n_out, int64_t n_in) {
  get(name + ".bias", {n_out});
  linear(out, name, n_out, n_in);
}

void WeightLoader::experts(std::vector<Linear>& out, const std::string& name, const std::array<int64_t, 3>& shape) {
  const auto [n_experts, n_out, n_in] = shape;
  if (!has(name + "_exps.weight") && has(name + ".0.weight")) {
    for (int64_t e = 0; e < n_experts; ++e) linear(out, name + "." + std::to_string(e), n_out, n_in);
    return;
  }
  stacked(out, name + "_exps", shape);
}

void WeightLoader::paired_experts(std::vector<Linear>& first,
                                  std::vector<Linear>& last,
                                  const std::string& name,
                                  const std::array<int64_t, 3>& shape) {
  const auto [n, n_out, n_in] = shape;
  std::vector<Linear> all;
  std::vector<Rows> parts;
  parts.reserve(static_cast<size_t>(2 * n));
  for (int64_t i = 0; i < 2 * n; ++i) parts.push_back({i * n_out, n_out});
  append(all, name, {n, 2 * n_out, n_in}, parts);
  if (!status_) return;
  for (size_t i = 0; i < all.size(); ++i) (i % 2 == 0 ? first : last).push_back(all[i]);
}

void WeightLoader::halves(std::vector<Linear>& out, const std::string& name, int64_t n_out, int64_t n_in) {
  append(out, name, {2 * n_out, n_in}, std::array{Rows{0, n_out}, Rows{n_out, n_out}});
}

void WeightLoader::stacked(std::vector<Linear>& out, const std::string& name, const std::array<int64_t, 3>& shape) {
  const auto [n, n_out, n_in] = shape;
  std::vector<Rows> parts;
  parts.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) parts.push_back({i * n_out, n_out});
  append(out, name, {n, n_out, n_in}, parts);
}

void WeightLoader::last_rows_first(std::vector<Linear>& out,
                                   const std::string& name,
                                   const std::array<int64_t, 2>& n_out,
                                   int64_t n_in) {
  append(out, name, {n_out[0] + n_out[1], n_in}, std::array{Rows{n_out[0], n_out[1]}, Rows{0, n_out[0]}});
}

void WeightLoader::runs_apart(std::vector<Linear>& out, const std::string& name, const std::array<int64_t, 4>& shape) {
  const auto [n, a, b, n_in] = shape;
  const HostWeight* all = get_ordered(name + ".weight", {n * (a + b), n_in});
  if (all == nullptr) return;
  std::vector<std::byte> room;
  for (const auto& [begin, n_rows] : {std::pair<int64_t, int64_t>{0, a}, {a, b}}) {
    std::vector<std::byte> together;
    for (int64_t i = 0; i < n; ++i) {
      const std::byte* rows = all->rows(i * (a + b) + begin, n_rows, room);
      together.insert(together.end(), rows, rows + n_rows * all->row_bytes());
    }
    HostWeight part = *all;
    part.shape = {n * n_rows, n_in};
    part.made = nullptr;
    part.data = together;
    take(out.emplace_back(), load(part, nullptr));
    if (!status_) return;
  }
  took(*all);
}

void WeightLoader::heads_apart(std::vector<Linear>& first,
                               std::vector<Linear>& second,
                               const std::string& name,
                               const std::array<int64_t, 3>& shape) {
  const auto [n_heads, n_out, n_in] = shape;
  std::vector<Rows> parts;
  parts.reserve(static_cast<size_t>(2 * n_heads));
  for (int64_t h = 0; h < n_heads; ++h) {
    parts.push_back({2 * h * n_out, n_out});
    parts.push_back({(2 * h + 1) * n_out, n_out, &second});
  }
  append(first, name, {2 * n_heads * n_out, n_in}, parts);
}

void WeightLoader::cut_by_heads(std::vector<Linear>& transposed,
                                std::vector<Linear>& kept,
                                const std::string& name,
                                const std::array<int64_t, 4>& shape) {
  const auto [heads, k, v, n] = shape;
  const HostWeight* all = get_ordered(name + ".weight", {heads * (k + v), n});
  if (all == nullptr) return;
  std::vector<std::byte> whole, room;
  for (int64_t h = 0; h < heads && status_; ++h) {
    const HostWeight keys = with_rows(rows_of(*all, h * (k + v), k), whole);
    take(transposed.emplace_back(), load(transpose(keys, room), nullptr));
    if (status_) take(kept.emplace_back(), load(rows_of(*all, h * (k + v) + k, v), nullptr));
  }
  if (status_) took(*all);
}

}  // namespace quire
