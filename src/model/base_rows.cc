#include "model/base_rows.h"

#include <algorithm>

#include "base/bounded_reader.h"
#include "model/weight_loader.h"
#include "quant/convert.h"

namespace quire {
namespace {

constexpr int64_t kRowsAtOnce = 64;

// A matrix as rows, whatever its dimensions.
HostWeight as_matrix(const HostWeight& weight) {
  HostWeight out = weight;
  out.shape = {weight.n_rows(), weight.n_cols()};
  return out;
}

void decode_row(const WeightFormat& format, const std::byte* from, std::span<float> out) {
  for (size_t i = 0; i < out.size(); i += static_cast<size_t>(format.block)) {
    format.decode(from + static_cast<int64_t>(i) / format.block * format.bytes, out.data() + i);
  }
}

// Where the file has a tensor's rows: the head of a model with tied weights is its embedding.
std::string stored_name(const ModelFile& file, const std::string& tensor) {
  return tensor == "output.weight" && file.find(tensor) == nullptr ? "token_embd.weight" : tensor;
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
  const std::string name = stored_name(*its, tensor);
  const HostWeight* const stored = its->find(name);
  const bool is_row = n_out == 1 && stored != nullptr && stored->shape.size() == 1;  // which is loaded as it is
  const std::vector<int64_t> shape = is_row ? std::vector{n_in} : std::vector{n_out, n_in};
  QR_TRY(const HostWeight* const found, its->get(name, shape));
  const HostWeight weight = as_matrix(*found);
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
  its->release(*found);
  return its->check_unchanged();
}

Result<bool> BaseRows::has_floats(const std::string& tensor, int64_t n_out, int64_t n_in) {
  QR_TRY(const ModelFile* const its, file());
  QR_TRY(const HostWeight* const found, its->get(stored_name(*its, tensor), {n_out, n_in}));
  const std::string_view name = loaded_format(as_matrix(*found), {.weights = of_.weights}).name;
  return found->made == nullptr && (name == "f32" || name == "f16" || name == "bf16");
}

Result<std::vector<float>> BaseRows::bias_of(const std::string& tensor, int64_t n_out) {
  QR_TRY(const ModelFile* const its, file());
  std::vector<float> out(static_cast<size_t>(n_out));
  constexpr std::string_view kEnd = "weight";
  const std::string name = tensor.substr(0, tensor.size() - kEnd.size()) + "bias";
  if (!tensor.ends_with(kEnd) || its->find(name) == nullptr) return out;
  QR_TRY(const HostWeight* const found, its->get(name, {n_out}));
  std::vector<std::byte> room;
  decode_row(*found->format, found->rows(0, 1, room), out);
  return out;
}

}  // namespace quire
