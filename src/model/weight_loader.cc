#include "model/weight_loader.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace quire {
namespace {

constexpr int64_t kRowsPerTask = 16;

// Rows [begin, end) of `from` in the format of `to`.
void convert_rows(const HostWeight& from, const WeightFormat& to, int64_t begin, int64_t end, std::byte* out) {
  const int64_t n = from.n_cols();
  std::vector<float> row(static_cast<size_t>(n));
  const int64_t in_bytes = from.format->row_bytes(n);
  const int64_t out_bytes = to.row_bytes(n);
  for (int64_t r = begin; r < end; ++r) {
    const std::byte* stored = from.data.data() + r * in_bytes;
    for (int64_t i = 0; i < n; i += from.format->block) {
      from.format->decode(stored + i / from.format->block * from.format->bytes, row.data() + i);
    }
    for (int64_t i = 0; i < n; i += to.block) {
      to.encode(row.data() + i, out + r * out_bytes + i / to.block * to.bytes);
    }
  }
}

// A row depends on that row alone, so the number of threads changes nothing.
void convert(const HostWeight& from, const WeightFormat& to, int n_threads, std::byte* out) {
  std::atomic<int64_t> next{0};
  const int64_t n_rows = from.n_rows();
  const auto work = [&] {
    for (int64_t at = next.fetch_add(kRowsPerTask); at < n_rows; at = next.fetch_add(kRowsPerTask)) {
      convert_rows(from, to, at, std::min(n_rows, at + kRowsPerTask), out);
    }
  };
  const int64_t n_tasks = (n_rows + kRowsPerTask - 1) / kRowsPerTask;
  std::vector<std::thread> threads;
  for (int64_t t = 1; t < std::min<int64_t>(n_threads, n_tasks); ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

const WeightFormat& loaded_format(const HostWeight& weight, const LoadOptions& options) {
  const bool fits = options.weights != nullptr && weight.shape.size() == 2 &&
                    weight.n_cols() % options.weights->block == 0;
  return fits ? *options.weights : *weight.format;
}

WeightLoader::WeightLoader(const ModelFile& file, Ops& ops, const LoadOptions& options)
    : file_(file), ops_(ops), options_(options) {
  for (const HostWeight& weight : file.tensors) total_bytes_ += static_cast<int64_t>(weight.data.size());
}

const HostWeight* WeightLoader::get(const std::string& name, const std::vector<int64_t>& shape) {
  if (!status_) return nullptr;
  const Result<const HostWeight*> found = file_.get(prefix_ + name, shape);
  if (!found) status_ = tl::make_unexpected(found.error());
  return found ? *found : nullptr;
}

void WeightLoader::took(const HostWeight& weight) {
  done_bytes_ += static_cast<int64_t>(weight.data.size());
  if (options_.on_progress) options_.on_progress(done_bytes_, total_bytes_);
}

void WeightLoader::vector(Tensor& out, const std::string& name, int64_t n) {
  const HostWeight* weight = get(name, {n});
  if (weight == nullptr) return;
  take(out, ops_.load_vector(*weight));
  took(*weight);
}

Result<Linear> WeightLoader::load(const HostWeight& weight, const HostWeight* bias) {
  const WeightFormat& format = loaded_format(weight, options_);
  if (&format == weight.format) return ops_.load_linear(weight, bias, Shard{});
  QR_TRY(const Buffer buffer, Buffer::allocate(weight.n_rows() * format.row_bytes(weight.n_cols())));
  convert(weight, format, options_.n_threads, buffer.data());
  HostWeight converted = weight;
  converted.format = &format;
  converted.data = {buffer.data(), static_cast<size_t>(weight.n_rows() * format.row_bytes(weight.n_cols()))};
  return ops_.load_linear(converted, bias, Shard{});
}

void WeightLoader::linear(std::vector<Linear>& out, const std::string& name, int64_t n_out, int64_t n_in) {
  const HostWeight* weight = get(name + ".weight", {n_out, n_in});
  const HostWeight* bias = has(name + ".bias") ? get(name + ".bias", {n_out}) : nullptr;
  if (!status_) return;
  take(out.emplace_back(), load(*weight, bias));
  took(*weight);
}

void WeightLoader::biased_linear(std::vector<Linear>& out, const std::string& name, int64_t n_out, int64_t n_in) {
  get(name + ".bias", {n_out});
  linear(out, name, n_out, n_in);
}

}  // namespace quire
