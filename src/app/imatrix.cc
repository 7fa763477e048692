#include "app/imatrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "app/forward.h"
#include "app/progress.h"
#include "io/gguf_writer.h"
#include "ops/forwarding_ops.h"
#include "ops/route.h"

namespace quire {
namespace {

constexpr std::string_view kSquares = ".in_sum2", kCounts = ".counts";

class WatchingOps final : public WrappedOps {
 public:
  using WrappedOps::WrappedOps;
  std::map<std::string, Imatrix::Sums, std::less<>> take() { return std::exchange(sums_, {}); }

  Result<Linear> load_linear(const HostWeight& weight, const HostWeight* bias, Shard shard) override {
    QR_TRY(Linear out, WrappedOps::load_linear(weight, bias, shard));
    names_[out.w.data] = weight.name;
    return out;
  }
  void linear(Tensor y, Tensor x, std::span<const Linear> parts) override {
    watch(x, parts);
    WrappedOps::linear(y, x, parts);
  }
  void moe(Tensor y, const MoeInput& in, const Experts& experts) override {
    moe_by_expert(*this, y, in, experts);  // whose products come by linear()
  }

 private:
  void watch(Tensor x, std::span<const Linear> parts) {
    const int64_t n_rows = x.dim(0);
    const auto n = static_cast<size_t>(x.dim(1));
    finish();
    squares_.assign(n, 0);
    for (int64_t r = 0; r < n_rows; ++r) {
      const float* row = x.row<float>(r);
      for (size_t i = 0; i < n; ++i) squares_[i] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
    }
    for (const Linear& part : parts) {
      Imatrix::Sums& sums = sums_[names_.at(part.w.data)];
      sums.squares.resize(n);
      for (size_t i = 0; i < n; ++i) sums.squares[i] += squares_[i];
      sums.n_rows += static_cast<double>(n_rows);
    }
  }

  std::map<const std::byte*, std::string> names_;  // of the backend's weights
  std::map<std::string, Imatrix::Sums, std::less<>> sums_;
  std::vector<double> squares_;
};

Result<std::vector<float>> numbers_of(const HostWeight& tensor) {
  if (tensor.format->name != "f32") return fail(Code::corrupt, "tensor \"" + tensor.name + "\": must be F32");
  std::vector<float> out(tensor.data.size() / sizeof(float));
  std::memcpy(out.data(), tensor.data.data(), out.size() * sizeof(float));
  for (const float v : out) {
    if (v >= 0 && std::isfinite(v)) continue;
    return fail(Code::corrupt,
                "tensor \"" + tensor.name + "\": holds " + std::to_string(v) + ", must be finite and not negative");
  }
  return out;
}

// A weight's sums; of several matrices (experts) together.
Result<Imatrix::Sums> read_sums(const ModelFile& file, const HostWeight& squares, const std::string& name) {
  const HostWeight* counts = file.find(name + std::string(kCounts));
  if (counts == nullptr) return fail(Code::corrupt, "tensor \"" + name + std::string(kCounts) + "\": is missing");
  QR_TRY(const std::vector<float> values, numbers_of(squares));
  QR_TRY(const std::vector<float> rows, numbers_of(*counts));
  const auto n_rows = static_cast<size_t>(squares.n_rows());
  if (rows.size() != n_rows) {
    return fail(Code::corrupt, "tensor \"" + counts->name + "\": has " + std::to_string(rows.size()) +
                                   " numbers, the sums have " + std::to_string(n_rows) + " rows");
  }
  Imatrix::Sums out;
  const auto n = static_cast<size_t>(squares.n_cols());
  out.squares.resize(n);
  for (size_t i = 0; i < values.size(); ++i) out.squares[i % n] += static_cast<double>(values[i]);
  for (const float v : rows) out.n_rows += static_cast<double>(v);
  return out;
}

Result<Imatrix> read(const ModelFile& file) {
  QR_TRY(const std::string type, file.meta.get_string_or("general.type", ""));
  if (type != "imatrix") return fail(Code::invalid, "is no importance matrix: general.type is \"" + type + "\"");
  Imatrix out;
  constexpr int64_t kMost = int64_t{1} << 40;
  QR_TRY(out.n_chunks, file.meta.get_int_or("imatrix.chunk_count", 0, kMost, 0));
  QR_TRY(out.chunk_tokens, file.meta.get_int_or("imatrix.chunk_size", 0, kMost, 0));
  if (const MetaValue* names = file.meta.find("imatrix.datasets")) {
    if (const auto* list = std::get_if<std::vector<std::string>>(names)) out.datasets = *list;
  }
  for (const HostWeight& tensor : file.tensors) {
    if (!tensor.name.ends_with(kSquares)) continue;
    const std::string name = tensor.name.substr(0, tensor.name.size() - kSquares.size());
    QR_TRY(out.weights[name], read_sums(file, tensor, name));
  }
  if (out.weights.empty()) return fail(Code::corrupt, "holds no sums");
  return out;
}

}  // namespace

std::vector<float> Imatrix::Sums::means() const {
  std::vector<float> out;
  out.reserve(squares.size());
  for (const double v : squares) out.push_back(n_rows > 0 ? static_cast<float>(v / n_rows) : 0.0F);
  return out;
}

Result<Imatrix> Imatrix::open(const std::string& path) {
  QR_TRY(const ModelFile file, open_model(path));
  Result<Imatrix> out = read(file);
  if (!out) return fail(out.error().code, path + ": " + out.error().message);
  QR_TRY_VOID(file.check_unchanged());
  return out;
}

Status Imatrix::write(const std::string& path) const {
  GgufWriter writer(path);
  writer.add_string("general.type", "imatrix");
  writer.add_strings("imatrix.datasets", datasets);
  writer.add_u32("imatrix.chunk_count", static_cast<uint32_t>(n_chunks));
  writer.add_u32("imatrix.chunk_size", static_cast<uint32_t>(chunk_tokens));
  constexpr uint32_t kF32 = 0;
  for (const auto& [name, sums] : weights) {
    const auto n = static_cast<int64_t>(sums.squares.size());
    QR_TRY_VOID(writer.add_tensor(name + std::string(kSquares), kF32, {n}));
    QR_TRY_VOID(writer.add_tensor(name + std::string(kCounts), kF32, {1}));
  }
  for (const auto& [name, sums] : weights) {
    const std::vector<float> values(sums.squares.begin(), sums.squares.end());
    for (const float v : values) {
      if (!std::isfinite(v)) return fail(Code::corrupt, "the inputs of \"" + name + "\" are not finite");
    }
    const auto rows = static_cast<float>(sums.n_rows);
    QR_TRY_VOID(writer.write(std::as_bytes(std::span(values))));
    QR_TRY_VOID(writer.write(std::as_bytes(std::span(&rows, 1))));
  }
  return writer.finish();
}

Status Imatrix::add(const Imatrix& other) {
  for (const auto& [name, sums] : other.weights) {
    Sums& own = weights[name];
    if (own.squares.empty()) own.squares.resize(sums.squares.size());
    if (own.squares.size() != sums.squares.size()) {
      return fail(Code::invalid, "\"" + name + "\" has " + std::to_string(sums.squares.size()) + " inputs in one and " +
                                     std::to_string(own.squares.size()) + " in the other: not the same model");
    }
    for (size_t i = 0; i < sums.squares.size(); ++i) own.squares[i] += sums.squares[i];
    own.n_rows += sums.n_rows;
  }
  n_chunks += other.n_chunks;
  chunk_tokens = std::max(chunk_tokens, other.chunk_tokens);
  for (const std::string& name : other.datasets) {
    if (std::find(datasets.begin(), datasets.end(), name) == datasets.end()) datasets.push_back(name);
  }
  return {};
}

Status add_text(const LoadedModel& loaded, std::span<const Token> tokens, int n_ctx, Imatrix& out) {
  auto* ops = dynamic_cast<WatchingOps*>(loaded.ops.get());
  QR_CHECK(ops != nullptr);
  QR_TRY(Forward forward, Forward::make(*loaded.model, *loaded.ops, n_ctx, n_ctx));
  const auto window = static_cast<size_t>(n_ctx);
  Imatrix seen;
  Progress progress("tokens", static_cast<int64_t>(tokens.size()));
  for (size_t at = 0; at < tokens.size(); at += window) {
    forward.rewind(0);
    QR_TRY_VOID(forward.run(tokens.subspan(at, std::min(window, tokens.size() - at))));
    ++seen.n_chunks;
    progress.update(static_cast<int64_t>(at + window));
  }
  seen.chunk_tokens = n_ctx;
  seen.weights = ops->take();
  return out.add(seen);
}

std::unique_ptr<Ops> watch_inputs(std::unique_ptr<Ops> ops) { return std::make_unique<WatchingOps>(std::move(ops)); }

}  // namespace quire
