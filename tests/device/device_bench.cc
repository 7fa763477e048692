// What single ops of the CUDA backend cost on the device that there is: microseconds of one op among many, and for
// products the rate at which weights are read and multiplied; those in tensor arithmetic beside NVIDIA's library, where
// it is.
#include <chrono>
#include <cstdio>
#include <functional>

#include "backend/cuda/kernels/list.cuh"
#include "backend/cuda/tensor_launches.h"
#include "tests/device/library_gemm.h"
#include "tests/parity/cuda_corpus.h"

namespace quire {
namespace {

double micros_of(const std::function<void()>& op, const std::function<void()>& finish) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 3; ++i) op();
  finish();
  double best = 1e30;
  for (int round = 0; round < 5; ++round) {
    constexpr int kTimes = 20;
    const auto begin = Clock::now();
    for (int i = 0; i < kTimes; ++i) op();
    finish();
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

double micros_of(Bench& bench, const std::function<void()>& op) {
  return micros_of(op, [&] { bench.ops().finish(); });
}

void reads(cuda::Runtime& runtime) {
  constexpr int64_t kBytes = int64_t{4} << 30;
  std::byte* data = *runtime.allocate(kBytes, cuda::Place::device);
  const std::vector<uint64_t> numbers = [] {
    std::vector<uint64_t> out(1 << 20);
    Rng rng(1);
    for (uint64_t& n : out) n = rng.bits();
    return out;
  }();
  for (int64_t at = 0; at < kBytes; at += std::ssize(numbers) * 8) {
    runtime.upload(data + at, numbers.data(), std::ssize(numbers) * 8);
  }
  runtime.wait();
  double best = 0;
  for (const int n_blocks : {264, 528, 1056, 2112}) {
    const cuda::ReadAll kernel{reinterpret_cast<const cuda::Fragment*>(data), reinterpret_cast<uint32_t*>(data),
                               kBytes / 16, n_blocks};
    const double us = micros_of([&] { runtime.launch(cuda::launch_of(kernel, {n_blocks})); }, [&] { runtime.wait(); });
    best = std::max(best, static_cast<double>(kBytes) / us / 1e3);
  }
  std::printf("reading memory: %.0f GB/s\n\n", best);
  runtime.release(data);
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
      std::vector<Linear> w;  // more than the cache holds
      for (int64_t left = int64_t{256} << 20; left > 0; left -= n_out * format.row_bytes(n_in)) {
        w.push_back(big_matrix(bench.ops(), format, n_out, n_in));
      }
      for (const int64_t n : {1, 8, 16, 64, 512}) {
        const Tensor x = bench.floats(Matrix(n, n_in, 2)), y = bench.floats(Matrix(n, n_out));
        size_t turn = 0;
        const double us = micros_of(bench, [&] { bench.ops().linear(y, x, {&w[turn++ % w.size()], 1}); });
        const auto weights = static_cast<double>(n_out * format.row_bytes(n_in));
        std::printf("%-8s %6d %6d %5d %10.1f %10.0f %10.2f\n", name, static_cast<int>(n_in), static_cast<int>(n_out),
                    static_cast<int>(n), us, weights / us / 1e3,
                    2.0 * static_cast<double>(n * n_in * n_out) / us / 1e6);
        std::fflush(stdout);
      }
    }
  }
}

// So many bytes of BF16 numbers from a bell, without an end to their repeating.
std::byte* bell(cuda::Runtime& runtime, int64_t bytes) {
  std::vector<uint16_t> numbers(1 << 20);
  Rng rng(1);
  for (uint16_t& x : numbers) x = f32_to_bf16(rng.normal());
  std::byte* out = *runtime.allocate(bytes, cuda::Place::device);
  const int64_t n = std::ssize(numbers) * 2;
  for (int64_t at = 0; at < bytes; at += n) runtime.upload(out + at, numbers.data(), std::min(n, bytes - at));
  runtime.wait();
  return out;
}

// Products in tensor arithmetic, of rows that are rounded: by each of our tiles, and by NVIDIA's library.
void tensor_products(cuda::Runtime& runtime) {
  constexpr int64_t kMostRows = 8192, kWorkspace = int64_t{64} << 20;
  const bool has_wgmma = runtime.size().major == cuda::LinearWgmmaMany::kMajor;
  const auto library = LibraryGemm::open();
  std::printf("\n%-16s %6s %6s %5s %10s %10s\n", "tensor", "n_in", "n_out", "rows", "us", "TFLOPS");
  if (!has_wgmma) std::printf("wgmma: skipped, the device has none of compute capability 9.0\n");
  if (!library) std::printf("library: skipped, %s\n", library.error().message.c_str());
  for (const auto& [n_in, n_out] : {std::array{4096, 28672}, std::array{4096, 4096}, std::array{14336, 4096}}) {
    std::byte* w = bell(runtime, int64_t{n_out} * n_in * 2);
    std::byte* x = bell(runtime, kMostRows * n_in * 2);
    std::byte* y = *runtime.allocate(kMostRows * n_out * 4, cuda::Place::device);
    std::byte* workspace = *runtime.allocate(kWorkspace, cuda::Place::device);
    for (const int n : {65, 128, 256, 512, 2048, 8192}) {
      const cuda::TensorProduct product{.w = reinterpret_cast<const uint16_t*>(w),
                                        .bias = nullptr,
                                        .x = reinterpret_cast<const uint16_t*>(x),
                                        .y = {reinterpret_cast<float*>(y), n_out},
                                        .n = n,
                                        .n_out = n_out,
                                        .n_blocks = n_in / cuda::TensorPanels::kDepth,
                                        .batch = 0};
      const auto tell = [&](const char* name, double us) {
        std::printf("%-16s %6d %6d %5d %10.1f %10.1f\n", name, n_in, n_out, n, us, 2e-6 * n * n_in * n_out / us);
        std::fflush(stdout);
      };
      const auto ours = [&]<class Kernel>() {
        return micros_of([&] { cuda::launch_tensor<Kernel>(runtime, product); }, [&] { runtime.wait(); });
      };
      tell("mma 128", ours.operator()<cuda::LinearTensorMany>());
      if (has_wgmma) tell("wgmma 128", ours.operator()<cuda::LinearWgmmaSome>());
      if (has_wgmma) tell("wgmma 256", ours.operator()<cuda::LinearWgmmaMany>());
      if (!library) continue;
      Status done;
      const auto note = [&](Status status) { done = done ? std::move(status) : std::move(done); };
      const double us = micros_of(
          [&] { note((*library)->multiply({w, x, y, n, n_in, n_out, workspace, static_cast<size_t>(kWorkspace)})); },
          [&] { note((*library)->wait()); });
      if (done) tell("library", us);
      if (!done) std::printf("library: skipped, %s\n", done.error().message.c_str());
    }
    for (std::byte* each : {w, x, y, workspace}) runtime.release(each);
  }
}

void rows(Bench& bench) {
  std::printf("\n%-12s %5s %10s\n", "op", "rows", "us");
  for (const int64_t n : {1, 16, 512}) {
    const Tensor x = bench.floats(Matrix(n, 4096, 1)), y = bench.floats(Matrix(n, 4096)), w = bench.vector(4096, 3);
    const Tensor gate = bench.floats(Matrix(n, 14336, 1)), up = bench.floats(Matrix(n, 14336, 2));
    const auto tell = [&](const char* name, const std::function<void()>& op) {
      std::printf("%-12s %5d %10.1f\n", name, static_cast<int>(n), micros_of(bench, op));
    };
    tell("add", [&] { bench.ops().add(y, x); });
    tell("rms_norm", [&] { bench.ops().rms_norm(y, x, w, 1e-5F); });
    tell("gated", [&] { bench.ops().gated(gate, gate, up, Activation::silu); });
  }
  std::fflush(stdout);
}

// Steps over a paged cache of a model with 32 heads of 128 and 8 KV heads: n_fresh rows behind so many keys of each
// sequence. It stays where it is: `meta` and `view` are pointed at.
struct Paged {
  static constexpr int kTokens = 32, kHeads = 32, kKvHeads = 8, kDim = 128;
  Paged(Bench& bench, const KvCodec& codec, int n_keys, int n_seqs, int n_fresh)
      : token_bytes(kKvHeads * (codec.k_row_bytes(kDim) + codec.v_row_bytes(kDim))) {
    const int n_blocks = n_keys / kTokens;
    view.n_groups = 1;
    view.groups[0] = {bench.bytes(int64_t{n_seqs} * n_blocks * kTokens * token_bytes, 0x11), kTokens * token_bytes,
                      kTokens};
    params = {.kv_offset = 0, .k_codec = &codec, .v_codec = &codec};
    params.n_heads = kHeads;
    params.n_kv_heads = kKvHeads;
    params.k_dim = params.v_dim = kDim;
    params.scale = 0.09F;
    std::vector<int32_t> blocks(static_cast<size_t>(n_seqs * n_blocks)), cu_q = {0}, end, to;
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int32_t>(blocks.size() - 1 - i);
    for (int s = 0; s < n_seqs; ++s) {
      for (int at = n_keys - n_fresh; at < n_keys; ++at) {
        end.push_back(at + 1);
        to.push_back(blocks[static_cast<size_t>(s * n_blocks + at / kTokens)] * kTokens + at % kTokens);
      }
      cu_q.push_back(static_cast<int32_t>(end.size()));
    }
    n = std::ssize(end);
    slots = bench.ints(to);
    const Tensor table = Tensor::dense(bench.ints(blocks).data, DType::i32, {n_seqs, n_blocks});
    meta = {bench.ints(cu_q), {table}, bench.ints(std::vector<int32_t>(end.size())), bench.ints(end)};
  }
  Paged(const Paged&) = delete;
  Paged& operator=(const Paged&) = delete;

  int64_t token_bytes, n = 0;  // rows
  KvView view;
  AttnParams params;
  AttnMeta meta;
  Tensor slots;
};

void attention(Bench& bench, std::string_view codec) {
  std::printf("\n%-8s %6s %6s %10s %10s\n", "cache", "keys", "rows", "us", "GB/s");
  for (const auto& [n_keys, n_seqs, n_fresh] :
       {std::array{256, 1, 1}, std::array{8192, 1, 1}, std::array{8192, 16, 1}, std::array{512, 1, 512}}) {
    const Paged at(bench, *find_kv_codec(codec), n_keys, n_seqs, n_fresh);
    const Tensor q = bench.floats(Matrix(at.n, Paged::kHeads * Paged::kDim, 3));
    const Tensor out = bench.floats(Matrix(at.n, Paged::kHeads * Paged::kDim));
    const double us = micros_of(bench, [&] { bench.ops().attend(out, q, at.view, at.meta, at.params); });
    std::printf("%-8s %6d %6d %10.1f %10.0f\n", std::string(codec).c_str(), n_keys, static_cast<int>(at.n), us,
                static_cast<double>(int64_t{n_keys} * n_seqs * at.token_bytes) / us / 1e3);
    std::fflush(stdout);
  }
}

// A layer with 4096 columns and units of 14336, its two parts.
void layer(Bench& bench) {
  std::printf("\n%-8s %6s %5s %12s %12s %12s\n", "layer", "keys", "rows", "attention us", "unit us", "GB/s");
  constexpr int64_t kWide = 4096, kHidden = 14336, kQ = Paged::kHeads * Paged::kDim,
                    kKv = Paged::kKvHeads * Paged::kDim;
  const WeightFormat& format = *find_weight_format("q8_0");
  Ops& ops = bench.ops();
  const auto matrix = [&](int64_t n_out, int64_t n_in) { return big_matrix(ops, format, n_out, n_in); };
  const Linear qkv[] = {matrix(kQ, kWide), matrix(kKv, kWide), matrix(kKv, kWide)}, out[] = {matrix(kWide, kQ)};
  const Linear gate_up[] = {matrix(kHidden, kWide), matrix(kHidden, kWide)}, down[] = {matrix(kWide, kHidden)};
  for (const auto& [n_keys, n_seqs, n_fresh] : {std::array{64, 1, 1}, std::array{1024, 1, 1}, std::array{1024, 8, 1},
                                                std::array{1024, 16, 1}, std::array{512, 1, 512}}) {
    const Paged at(bench, *find_kv_codec("f16"), n_keys, n_seqs, n_fresh);
    NormedRows in;
    in.x = bench.floats(Matrix(at.n, kWide, 1));
    in.delta = bench.floats(Matrix(at.n, kWide));
    in.w = bench.vector(kWide, 3);
    in.eps = 1e-5F;
    in.normed = bench.floats(Matrix(at.n, kWide));
    AttentionPart part;
    part.qkv = qkv;
    const Tensor turns = bench.floats(Matrix(at.n, Paged::kDim));
    part.rotation = Tensor::dense(turns.data, DType::f32, {at.n, Paged::kDim / 2, 2});
    part.slots = at.slots;
    part.kv = &at.view;
    part.meta = &at.meta;
    part.params = &at.params;
    part.out = out;
    part.scratch = bench.floats(Matrix(at.n, 2 * (kQ + kKv)));
    FeedForwardPart unit;
    unit.gate_up = gate_up;
    unit.down = down;
    unit.scratch = bench.floats(Matrix(at.n, 2 * kHidden));
    const double attention_us = micros_of(bench, [&] { ops.attention(in.delta, in, part); });
    const double unit_us = micros_of(bench, [&] { ops.feed_forward(in.delta, in, unit); });
    const auto bytes = static_cast<double>(format.row_bytes(kWide) * (kWide + kQ + 2 * kKv + 3 * kHidden));
    std::printf("%-8s %6d %5d %12.1f %12.1f %12.0f\n", "q8_0", n_keys, static_cast<int>(at.n), attention_us, unit_us,
                bytes / (attention_us + unit_us) / 1e3);
    std::fflush(stdout);
  }
}

int bench() {
  const auto runtime = cuda::open_runtime();
  if (!runtime) {
    std::fprintf(stderr, "%s\n", runtime.error().message.c_str());
    return 1;
  }
  const auto ops = cuda::CudaOps::make(*runtime, cpu_sample_kernels());
  Bench bench(**ops);
  std::printf("%s\n", bench.ops().describe().c_str());
  reads(**runtime);
  products(bench);
  tensor_products(**runtime);
  rows(bench);
  layer(bench);
  for (const char* codec : {"f16", "q8"}) attention(bench, codec);
  return 0;
}

}  // namespace
}  // namespace quire

int main() { return quire::bench(); }
