// What single ops of the CUDA backend cost on the device that there is: microseconds of one op among many, and for products
// the rate at which weights are read and multiplied.
#include <chrono>
#include <cstdio>
#include <functional>

#include "tests/parity/cuda_corpus.h"

namespace quire {
namespace {

double micros_of(const std::function<void()>& op) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 3; ++i) op();
  double best = 1e30;
  for (int round = 0; round < 5; ++round) {
    constexpr int kTimes = 20;
    const auto begin = Clock::now();
    for (int i = 0; i < kTimes; ++i) op();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / kTimes);
  }
  return best;
}

constexpr int64_t kDifferent = 61;  // rows of weights that differ

Linear big_matrix(Ops& ops, const WeightFormat& format, int64_t n_out, int64_t n_in) {
  const Stored some = stored_weight(format, kDifferent, n_in, 1);
  const auto row = static_cast<size_t>(format.row_bytes(n_in));
  std::vector<std::byte> bytes(row * static_cast<size_t>(n_out));
  for (int64_t r = 0; r < n_out; ++r) {
    std::copy_n(some.bytes.begin() + static_cast<std::ptrdiff_t>(r % kDifferent * static_cast<int64_t>(row)), row,
                bytes.begin() + static_cast<std::ptrdiff_t>(r * static_cast<int64_t>(row)));
  }
  return *ops.load_linear(HostWeight{"w", &format, {n_out, n_in}, bytes}, nullptr, Shard{});
}

void products(Bench& bench) {
  std::printf("%-8s %6s %6s %5s %10s %10s %10s\n", "format", "n_in", "n_out", "rows", "us", "GB/s", "TOPS");
  struct Shape {
    int64_t n_in, n_out;
  };
  for (const char* name : {"q8_0", "q4_k", "f16"}) {
    const WeightFormat& format = *find_weight_format(name);
    for (const auto& [n_in, n_out] : {Shape{4096, 28672}, Shape{4096, 4096}, Shape{14336, 4096}}) {
      if (name != std::string("q8_0") && n_out != 28672) continue;
      const Linear w = big_matrix(bench.ops(), format, n_out, n_in);
      for (const int64_t n : {1, 8, 16, 64, 512}) {
        const Tensor x = bench.floats(Matrix(n, n_in, 2)), y = bench.floats(Matrix(n, n_out));
        const double us = micros_of([&] { bench.ops().linear(y, x, {&w, 1}); });
        const auto weights = static_cast<double>(n_out * format.row_bytes(n_in));
        std::printf("%-8s %6d %6d %5d %10.1f %10.0f %10.2f\n", name, static_cast<int>(n_in), static_cast<int>(n_out),
                    static_cast<int>(n), us, weights / us / 1e3,
                    2.0 * static_cast<double>(n * n_in * n_out) / us / 1e6);
        std::fflush(stdout);
      }
    }
  }
}

void rows(Bench& bench) {
  std::printf("\n%-12s %5s %10s\n", "op", "rows", "us");
  for (const int64_t n : {1, 16, 512}) {
    const Tensor x = bench.floats(Matrix(n, 4096, 1)), y = bench.floats(Matrix(n, 4096)), w = bench.vector(4096, 3);
    const Tensor gate = bench.floats(Matrix(n, 14336, 1)), up = bench.floats(Matrix(n, 14336, 2));
    const auto tell = [&](const char* name, const std::function<void()>& op) {
      std::printf("%-12s %5d %10.1f\n", name, static_cast<int>(n), micros_of(op));
    };
    tell("add", [&] { bench.ops().add(y, x); });
    tell("rms_norm", [&] { bench.ops().rms_norm(y, x, w, 1e-5F); });
    tell("gated", [&] { bench.ops().gated(gate, gate, up, Activation::silu); });
  }
  std::fflush(stdout);
}

// Of a model with 32 heads of 128 and 8 KV heads.
void attention(Bench& bench, std::string_view codec_name) {
  std::printf("\n%-8s %6s %6s %10s %10s\n", "cache", "keys", "rows", "us", "GB/s");
  constexpr int kTokens = 32, kHeads = 32, kKvHeads = 8, kDim = 128;
  const KvCodec& codec = *find_kv_codec(codec_name);
  const int64_t token_bytes = kKvHeads * (codec.k_row_bytes(kDim) + codec.v_row_bytes(kDim));
  for (const auto& [n_keys, n_seqs, n_fresh] :
       {std::array{256, 1, 1}, std::array{8192, 1, 1}, std::array{8192, 16, 1}, std::array{512, 1, 512}}) {
    const int n_blocks = n_keys / kTokens;
    KvView view;
    view.n_groups = 1;
    view.groups[0] = {bench.bytes(int64_t{n_seqs} * n_blocks * kTokens * token_bytes, 0x11), kTokens * token_bytes, kTokens};
    AttnParams params{.kv_offset = 0, .k_codec = &codec, .v_codec = &codec};
    params.n_heads = kHeads;
    params.n_kv_heads = kKvHeads;
    params.k_dim = params.v_dim = kDim;
    params.scale = 0.09F;
    std::vector<int32_t> blocks(static_cast<size_t>(n_seqs * n_blocks)), cu_q = {0}, first, end;
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int32_t>(blocks.size() - 1 - i);
    for (int s = 0; s < n_seqs; ++s) {
      for (int i = 0; i < n_fresh; ++i) end.push_back(n_keys - n_fresh + i + 1);
      cu_q.push_back(static_cast<int32_t>(end.size()));
    }
    first.assign(end.size(), 0);
    const auto n = static_cast<int64_t>(end.size());
    Tensor table = bench.ints(blocks);
    table = Tensor::dense(table.data, DType::i32, {n_seqs, n_blocks});
    const AttnMeta meta{bench.ints(cu_q), {table}, bench.ints(first), bench.ints(end)};
    const Tensor q = bench.floats(Matrix(n, kHeads * kDim, 3)), out = bench.floats(Matrix(n, kHeads * kDim));
    const double us = micros_of([&] { bench.ops().attend(out, q, view, meta, params); });
    std::printf("%-8s %6d %6d %10.1f %10.0f\n", std::string(codec_name).c_str(), n_keys, static_cast<int>(n), us,
                static_cast<double>(int64_t{n_keys} * n_seqs * token_bytes) / us / 1e3);
    std::fflush(stdout);
  }
}

int bench() {
  const auto runtime = cuda::open_runtime();
  if (!runtime) {
    std::fprintf(stderr, "%s\n", runtime.error().message.c_str());
    return 1;
  }
  const auto ops = cuda::CudaOps::make(*runtime);
  Bench bench(**ops);
  std::printf("%s\n", bench.ops().describe().c_str());
  products(bench);
  rows(bench);
  for (const char* codec : {"f16", "q8"}) attention(bench, codec);
  return 0;
}

}  // namespace
}  // namespace quire

int main() { return quire::bench(); }
