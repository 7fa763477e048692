#include "model/base_rows.h"

#include <algorithm>
#include <charconv>

#include "base/bounded_reader.h"
#include "model/weight_loader.h"
#include "quant/convert.h"

namespace quire {
namespace {

constexpr int64_t kRowsAtOnce = 64;

void decode_row(const WeightFormat& format, const std::byte* from, std::span<float> out) {
  for (size_t i = 0; i < out.size(); i += static_cast<size_t>(format.block)) {
    format.decode(from + static_cast<int64_t>(i) / format.block * format.bytes, out.data() + i);
  }
}

// Where a file has a tensor of a model's: by itself, or from row `first` of one that has all experts' of a layer.
struct Stored {
  std::string name;
  int64_t first = 0;
  int64_t n_rows = 0;  // of an expert there; 0: it is by itself
};

// "blk.3.ffn_up.5.weight" is matrix 5 of "blk.3.ffn_up_exps.weight", or the second half of that of
// "blk.3.ffn_gate_up_exps.weight". The head of a model with tied weights is its embedding.
Stored stored_at(const ModelFile& file, const std::string& tensor, int64_t n_out) {
  if (tensor == "output.weight" && file.find(tensor) == nullptr) return {"token_embd.weight"};
  const size_t end = tensor.rfind('.'), number = end == std::string::npos ? end : tensor.rfind('.', end - 1);
  int64_t expert = -1;
  if (number != std::string::npos) {
    const auto [at, error] = std::from_chars(tensor.data() + number + 1, tensor.data() + end, expert);
    if (error != std::errc() || at != tensor.data() + end) expert = -1;
  }
  if (expert < 0 || file.find(tensor) != nullptr) return {tensor};
  const std::string front = tensor.substr(0, number), stacked = "_exps" + tensor.substr(end);
  if (file.find(front + stacked) != nullptr) return {front + stacked, expert * n_out, n_out};
  const bool is_up = front.ends_with("_up");
  if (!is_up && !front.ends_with("_gate")) return {tensor};
  const int64_t part = is_up ? 1 : 0;
  return {front.substr(0, front.rfind('_')) + "_gate_up" + stacked, (2 * expert + part) * n_out, 2 * n_out};
}

// Rows [first, first + n) of a matrix.
HostWeight rows_of(const HostWeight& matrix, int64_t first, int64_t n) {
  HostWeight out = matrix;
  out.shape[0] = n;
  const int64_t bytes = matrix.row_bytes();
  if (matrix.made == nullptr)
    out.data = matrix.data.subspan(static_cast<size_t>(first * bytes), static_cast<size_t>(n * bytes));
  out.first_made += first;
  return out;
}

// What `at` says, [n_out, n_in], where one row may be stored as a vector; of biases, [n_out, 1].
Result<HostWeight> matrix_at(const ModelFile& file, const Stored& at, int64_t n_out, int64_t n_in) {
  const HostWeight* const found = file.find(at.name);
  std::vector<int64_t> shape = {n_out};
  if (at.n_rows > 0) {
    const int64_t n_wanted = at.first / at.n_rows + 1;
    shape = {found == nullptr || found->shape.empty() ? n_wanted : std::max(found->shape[0], n_wanted), at.n_rows};
  }
  const bool is_vector = n_out == 1 && found != nullptr && found->shape.size() == 1;
  if (is_vector) shape = {n_in};
  if (!is_vector && !at.name.ends_with(".bias")) shape.push_back(n_in);
  QR_TRY(const HostWeight* const whole, file.get(at.name, shape));
  HostWeight out = *whole;
  out.shape = {whole->n_rows() * whole->n_cols() / n_in, n_in};
  return rows_of(out, at.first, n_out);
}

void put_in_order(std::span<const int32_t> order, std::span<float> row, std::vector<float>& room) {
  if (order.empty()) return;
  room.assign(row.begin(), row.end());
  for (size_t j = 0; j < room.size(); ++j) row[static_cast<size_t>(order[j])] = room[j];
}

}  // namespace

Result<const ModelFile*> BaseRows::file() {
  if (!file_) {
    QR_TRY(const ModelFile stored, open_model(of_.path));
    QR_TRY(file_, neutral_form(stored));
  }
  return &*file_;
}

Status BaseRows::each_row(const std::string& tensor,
                          int64_t n_out,
                          int64_t n_in,
                          const std::function<void(int64_t r, std::span<const float> row)>& fn) {
  QR_TRY(const ModelFile* const its, file());
  QR_TRY(const HostWeight weight, matrix_at(*its, stored_at(*its, tensor, n_out), n_out, n_in));
  const bool is_row = its->find(weight.name)->shape.size() == 1;  // which is loaded as it is
  const WeightFormat& format = is_row ? *weight.format : loaded_format(weight, {.weights = of_.weights});
  const bool is_converted = &format != weight.format;  // whose columns are in order then
  std::vector<float> row(static_cast<size_t>(n_in)), room;
  std::vector<std::byte> made, converted;
  for (int64_t first = 0; first < n_out; first += kRowsAtOnce) {
    const int64_t n = std::min(kRowsAtOnce, n_out - first);
    HostWeight some = weight;
    const bool is_made_there = is_converted && weight.made != nullptr;  // by the conversion
    const std::byte* from = is_made_there ? nullptr : weight.rows(first, n, made);
    if (is_converted) {
      some.shape[0] = n;
      if (!is_made_there) some.data = {from, static_cast<size_t>(n * weight.row_bytes())};
      if (is_made_there) some.first_made += first;
      converted.resize(static_cast<size_t>(n * format.row_bytes(n_in)));
      auto lost = convert_weight(some, format, {.n_threads = 1, .quick = true}, converted.data());
      if (!lost) return error_within(its->path, std::move(lost).error());
      from = converted.data();
    }
    for (int64_t r = 0; r < n; ++r) {
      decode_row(format, from + r * format.row_bytes(n_in), row);
      if (!is_converted) put_in_order(weight.order(), row, room);
      fn(first + r, row);
    }
  }
  its->release(weight);
  return its->check_unchanged();
}

Result<bool> BaseRows::has_floats(const std::string& tensor, int64_t n_out, int64_t n_in) {
  QR_TRY(const ModelFile* const its, file());
  QR_TRY(const HostWeight found, matrix_at(*its, stored_at(*its, tensor, n_out), n_out, n_in));
  const std::string_view name = loaded_format(found, {.weights = of_.weights}).name;
  return found.made == nullptr && (name == "f32" || name == "f16" || name == "bf16");
}

Result<std::vector<float>> BaseRows::bias_of(const std::string& tensor, int64_t n_out) {
  QR_TRY(const ModelFile* const its, file());
  std::vector<float> out(static_cast<size_t>(n_out));
  constexpr std::string_view kEnd = "weight";
  if (!tensor.ends_with(kEnd)) return out;
  const Stored at = stored_at(*its, tensor.substr(0, tensor.size() - kEnd.size()) + "bias", n_out);
  if (its->find(at.name) == nullptr) return out;
  QR_TRY(const HostWeight found, matrix_at(*its, at, n_out, 1));
  std::vector<std::byte> room;
  decode_row(*found.format, found.rows(0, n_out, room), out);
  return out;
}

}  // namespace quire
