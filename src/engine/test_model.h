// A scripted model for the engine's tests: the next token is a function of every token before it and of the adapters
// that these have, and of nothing else. layers() writes each row's token, position and a hash of its past into the KV
// bytes at its slot; head() reads the whole context back through the block table. A block that is wrong, stale, shared
// by mistake or overwritten changes the answer. With a window a second group has the same for the last tokens: every
// row must find there what the first group has, as far as the window reaches. alone() computes the same answer from
// plain values, without engine, blocks or batch: the truth of all tests. Test code only.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "engine/engine.h"
#include "engine/invocation.h"
#include "model/model.h"
#include "ops/no_ops.h"
#include "ops/sample_row.h"
#include "sample/rules.h"

namespace quire {

inline constexpr int kTestVocab = 40;
inline constexpr Token kPoison = kTestVocab - 1;  // logits are NaN wherever it stands in the context

// The past of token p is a hash of tokens 0 … p: what a key depends on. The state reads all pasts in order: attention.
inline uint64_t next_past(uint64_t past, Token id, uint64_t adapter = 0) {
  return mix64(past ^ static_cast<uint64_t>(id) ^ adapter << 8);
}
inline uint64_t next_state(uint64_t state, uint64_t past) { return mix64(state + past); }

inline void test_logits(uint64_t state, bool poisoned, float* out) {
  for (int i = 0; i < kTestVocab; ++i) {
    const double u = random_unit(state, static_cast<uint64_t>(i));
    out[i] = poisoned ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(8 * u);
  }
  if (!poisoned) out[kPoison] = -1e4F;  // only a prompt brings it in
}

inline void test_sample(float* logits, const SampleParams& params, SampleScratch& scratch, Sampled& out) {
  static const SampleKernels kKernels = plain_sample_kernels();
  sample_row({logits, kTestVocab}, params, kKernels, scratch, out);
}

// Tokens 0 … kTestVocab − 2 from a seed.
inline std::vector<Token> random_tokens(uint64_t seed, int n) {
  Rng rng(seed);
  std::vector<Token> out;
  out.reserve(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) out.push_back(static_cast<Token>(rng.between(0, kPoison - 1)));
  return out;
}

// What the virtual tokens of that content stand for: a model that was learned for has the same past behind them.
inline std::vector<Token> learned_tokens(uint64_t content, int n) { return random_tokens(mix64(content), n); }

// Only memory and sampling; the scripted model asks for nothing else.
class TestOps : public NoOps {
 public:
  std::string describe() const override { return "test"; }
  Result<Buffer> allocate(int64_t bytes) override {
    if (bytes > max_allocation) return fail(Code::exhausted, "cannot allocate " + std::to_string(bytes) + " bytes");
    return Buffer::allocate(bytes);
  }
  void sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) override {
    for (size_t i = 0; i < out.size(); ++i) {
      test_sample(logits.row<float>(static_cast<int64_t>(i)), params[i], scratch_, out[i]);
    }
  }
  // As a backend with two threads: one has the last task first.
  void each(int64_t n, const std::function<void(int64_t)>& task) override {
    const int64_t half = n / 2;
    std::thread other;
    if (half > 0) {
      other = std::thread([&] {
        for (int64_t i = n - 1; i >= n - half; --i) task(i);
      });
    }
    for (int64_t i = 0; i < n - half; ++i) task(i);
    if (other.joinable()) other.join();
  }
  int64_t max_allocation = std::numeric_limits<int64_t>::max();

 private:
  SampleScratch scratch_;
};

class TestModel final : public Model {
 public:
  // What lies in the cache for one token.
  struct Cell {
    int32_t token_plus_1, pos;  // 0: never written
    uint64_t past;
  };

  // strip_tokens: blocks may have any multiple of it. window 0: none.
  explicit TestModel(int n_ctx, int strip_tokens = kStripTokens, int window = 0, int n_kept = 0)
      : window_(window), n_kept_(n_kept) {
    info_.strip_tokens = strip_tokens;
    info_.arch = info_.name = "test";
    info_.n_layers = 1;
    info_.n_vocab = kTestVocab;
    info_.n_embd = 2;
    info_.has_taps = true;
    info_.n_ctx = n_ctx;
    info_.kv_layout.claim(KvGroup{}, sizeof(Cell));
    if (window > 0) info_.kv_layout.claim({KvGroup::Kind::window, window, n_kept}, sizeof(Cell));
  }
  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override {
    return (n_tokens + n_out * kTestVocab) * 4 + 4 * Arena::kAlign;
  }
  Tensor embed(const Pass& pass) const override { return pass.arena->alloc(DType::f32, {pass.batch->ids.dim(0), 1}); }
  Tensor layers(Tensor x, LayerRange, const Pass& pass) const override {
    if (on_pass) on_pass(*pass.batch);
    check_slots(*pass.batch);
    for_each_row(*pass.batch, [&](int64_t s, int64_t row) {
      const auto pos = pass.batch->pos.ptr<int32_t>()[row];
      const Token id = pass.batch->ids.ptr<int32_t>()[row];
      Cell& cell = cell_at(pass, s, pos);
      QR_CHECK(&cell == slot(pass, pass.batch->slots[0].ptr<int32_t>()[row]), "slot and block table disagree");
      QR_CHECK(pass.batch->attn.end_key.ptr<int32_t>()[row] == pos + 1 &&
               pass.batch->attn.first_key.ptr<int32_t>()[row] == 0);
      cell = {id + 1, pos, next_past(pos == 0 ? 0 : read(pass, s, pos - 1).past, id, adapter_of(*pass.batch, row))};
      if (window_ > 0) *slot(pass, pass.batch->slots[1].ptr<int32_t>()[row], 1) = cell;
      write_again(pass, row, cell);
    });
    for_each_row(*pass.batch, [&](int64_t s, int64_t row) { check_window(pass, s, row); });
    return x;
  }
  Tensor head(Tensor x, const Pass& pass) const override {
    const Batch& batch = *pass.batch;
    if (!pass.taps.empty()) hidden(x, pass);
    const int64_t n_out = batch.out_rows.dim(0);
    const Tensor logits = pass.arena->alloc(DType::f32, {n_out, kTestVocab});
    int64_t out = 0;
    for_each_row(batch, [&](int64_t s, int64_t row) {
      if (out == n_out || batch.out_rows.ptr<int32_t>()[out] != row) return;
      uint64_t state = 0;
      bool poisoned = false;
      for (int p = 0; p <= batch.pos.ptr<int32_t>()[row]; ++p) {
        const Cell& cell = read(pass, s, p);
        state = next_state(state, cell.past);
        poisoned |= cell.token_plus_1 - 1 == kPoison;
      }
      test_logits(state, poisoned, logits.row<float>(out++));
    });
    QR_CHECK(out == n_out, "rows that want output must ascend");
    return logits;
  }

  // Two numbers of each row's past: hash and position.
  Tensor hidden(Tensor, const Pass& pass) const override {
    const Batch& batch = *pass.batch;
    Tensor out = tapped(pass, Tap::At::last_norm);
    if (out.empty()) out = pass.arena->alloc(DType::f32, {batch.out_rows.dim(0), 2});
    int64_t n = 0;
    for_each_row(batch, [&](int64_t s, int64_t row) {
      if (n == out.dim(0) || batch.out_rows.ptr<int32_t>()[n] != row) return;
      const auto pos = batch.pos.ptr<int32_t>()[row];
      out.row<float>(n)[0] = static_cast<float>(read(pass, s, pos).past % 1000);
      out.row<float>(n++)[1] = static_cast<float>(pos);
    });
    return out;
  }

  // n virtual tokens that spell what learned_tokens(content, n) does.
  VirtualTokens learned(uint64_t content, int n) const {
    std::vector<Cell> cells;
    uint64_t past = 0;
    for (const Token id : learned_tokens(content, n)) {
      past = next_past(past, id);
      cells.push_back({id + 1, static_cast<int32_t>(cells.size()), past});
    }
    return {content, n, [cells, n_groups = window_ > 0 ? 2 : 1](const Pass& pass, int begin) {
              const auto n_rows = static_cast<size_t>(pass.batch->ids.dim(0));
              for (size_t i = 0; i < n_rows; ++i) {
                for (size_t g = 0; g < static_cast<size_t>(n_groups); ++g) {
                  *slot(pass, pass.batch->slots[g].ptr<int32_t>()[i], g) = cells[static_cast<size_t>(begin) + i];
                }
              }
            }};
  }

  std::function<void(const Batch&)> on_pass;  // sees every batch before it is computed

 private:
  template <class F>
  static void for_each_row(const Batch& batch, const F& f) {
    const auto* cu_q = batch.attn.cu_q.ptr<int32_t>();
    QR_CHECK(cu_q[0] == 0 && cu_q[batch.attn.cu_q.dim(0) - 1] == batch.ids.dim(0));
    for (int64_t s = 0; s + 1 < batch.attn.cu_q.dim(0); ++s) {
      QR_CHECK(cu_q[s] < cu_q[s + 1], "a sequence without rows");
      for (int64_t row = cu_q[s]; row < cu_q[s + 1]; ++row) f(s, row);
    }
  }
  static uint64_t adapter_of(const Batch& batch, int64_t row) {
    for (const AdapterRows& some : batch.adapters) {
      if (row >= some.begin && row < some.end) return some.adapter->content;
    }
    return 0;
  }
  static void check_slots(const Batch& batch) {
    for (size_t g = 0; g < batch.slots.size(); ++g) {
      if (batch.slots[g].empty()) continue;
      std::vector<int32_t> slots;
      for (const Tensor& some : {batch.slots[g], batch.again_slots[g]}) {
        if (!some.empty()) slots.insert(slots.end(), some.ptr<int32_t>(), some.ptr<int32_t>() + some.dim(0));
      }
      QR_CHECK(std::set<int32_t>(slots.begin(), slots.end()).size() == slots.size(), "two rows write to one slot");
    }
  }
  // Where branches go on behind the row.
  void write_again(const Pass& pass, int64_t row, const Cell& cell) const {
    const Batch& batch = *pass.batch;
    for (int64_t i = 0; !batch.again.empty() && i < batch.again.dim(0); ++i) {
      if (batch.again.ptr<int32_t>()[i] != row) continue;
      for (size_t g = 0; g < (window_ > 0 ? 2U : 1U); ++g)
        *slot(pass, batch.again_slots[g].ptr<int32_t>()[i], g) = cell;
    }
  }
  static Cell* slot(const Pass& pass, int32_t slot, size_t group = 0) {
    const KvGroupView& kv = pass.kv.groups[group];
    return reinterpret_cast<Cell*>(kv.base + slot / kv.block_tokens * kv.block_bytes) + slot % kv.block_tokens;
  }
  static Cell& cell_at(const Pass& pass, int64_t s, int pos, size_t group = 0) {
    const int block_tokens = pass.kv.groups[group].block_tokens;
    const int32_t block = pass.batch->attn.blocks[group].row<int32_t>(s)[pos / block_tokens];
    return *slot(pass, block * block_tokens + pos % block_tokens, group);
  }
  void check_window(const Pass& pass, int64_t s, int64_t row) const {
    const int pos = pass.batch->pos.ptr<int32_t>()[row];
    for (int p = 0; window_ > 0 && p <= pos; ++p) {
      if (p >= n_kept_ && p <= pos - window_) continue;
      const Cell& cell = cell_at(pass, s, p, 1);
      QR_CHECK(cell.pos == p && cell.past == read(pass, s, p).past,
               "position " + std::to_string(p) + " of the window holds another's past");
    }
  }
  static const Cell& read(const Pass& pass, int64_t s, int pos) {
    const Cell& cell = cell_at(pass, s, pos);
    QR_CHECK(cell.token_plus_1 > 0 && cell.pos == pos, "position " + std::to_string(pos) + " holds another's past");
    return cell;
  }

  int window_, n_kept_;
};

// What a request's sink heard, or what it should hear.
struct ExpectedAnswer {
  std::vector<Token> tokens;
  std::vector<float> logprobs;
  Finish finish = Finish::length;
  bool operator==(const ExpectedAnswer&) const = default;
};

// The answer to `request` by the definition. Uses up its rules.
inline ExpectedAnswer alone(const Request& request, int n_ctx) {
  ExpectedAnswer out;
  uint64_t past = 0;
  uint64_t state = 0;
  bool poisoned = false;
  const int n_base = request.adapter ? tokens_before_invocation(request.prompt, request.adapter->invocation) : 0;
  int n_taken = 0;
  const auto take = [&](Token id) {
    const bool is_adapted = request.adapter && n_taken >= n_base;
    past = next_past(past, id, is_adapted ? request.adapter->content : 0);
    ++n_taken;
    state = next_state(state, past);
    poisoned |= id == kPoison;
  };
  for (const Token id : request.prompt) take(id);
  const auto own = make_rules({request.sampling, request.prompt, request.stop_ids, kTestVocab});
  std::vector<LogitsRule*> rules;
  rules.reserve(own.size() + request.rules.size());
  for (const auto& rule : own) rules.push_back(rule.get());
  for (const auto& rule : request.rules) rules.push_back(rule.get());
  SampleScratch scratch;
  std::vector<float> logits(kTestVocab);
  for (size_t n = request.prompt.size();; ++n) {
    test_logits(state, poisoned, logits.data());
    LogitEdits edits{{}, {request.sampling.logit_bias.begin(), request.sampling.logit_bias.end()}};
    for (const LogitsRule* rule : rules) rule->edits(edits);
    Sampled sampled;
    SampleParams params = sample_params(request.sampling, static_cast<int64_t>(n), &edits);
    for (const LogitsRule* rule : rules) rule->shape(params);
    test_sample(logits.data(), params, scratch, sampled);
    if (!sampled.ok) out.finish = Finish::error;
    if (!sampled.ok) return out;
    const auto& stops = request.stop_ids;
    if (std::find(stops.begin(), stops.end(), sampled.token) != stops.end()) out.finish = Finish::stop;
    if (out.finish == Finish::stop) return out;
    out.tokens.push_back(sampled.token);
    out.logprobs.push_back(sampled.logprob);
    for (LogitsRule* rule : rules) {
      rule->observe(sampled);
      rule->accept(sampled.token);
    }
    if (request.end != nullptr && request.end->accept(sampled.token)) out.finish = Finish::stop;
    const bool full = static_cast<int>(n) + 1 >= n_ctx || static_cast<int>(out.tokens.size()) >= request.max_tokens;
    if (out.finish == Finish::stop || full) return out;
    take(sampled.token);
  }
}

// Written by the engine thread; read it between steps or after stop().
class Heard final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent& event) override {
    QR_CHECK(n_finish == 0, "a token after the end");
    answer.tokens.push_back(event.id);
    answer.logprobs.push_back(event.logprob);
    n_top = event.top.size();
    n_accepted += event.accepted ? 1 : 0;
  }
  void on_finish(SeqId id, Finish finish, const Usage& used, const std::string& message) override {
    ++n_finish;
    seq = id;
    answer.finish = finish;
    usage = used;
    error = message;
  }
  bool done() const { return n_finish > 0; }

  ExpectedAnswer answer;
  Usage usage;
  std::string error;
  SeqId seq = 0;
  int n_finish = 0, n_accepted = 0;
  size_t n_top = 0;
};

// Every reading is later than the last.
class TickClock final : public Clock {
 public:
  int64_t now_ns() override { return now_ns_ += 1'000'003; }

 private:
  int64_t now_ns_ = 0;
};

struct TestSetup {
  int n_blocks = 0;  // 0: plenty
  InputRecorder* recorder = nullptr;
  int window = 0;  // with one wanted.n_window_blocks says how many blocks its group has
  std::shared_ptr<Proposer> proposer = nullptr;
  std::vector<std::pair<uint64_t, int>> prefixes = {};  // content and length
  int n_kept = 0;                                       // beside the window
  const Tokenizer* tokenizer = nullptr;
};

// An engine over the scripted model, stepped by hand under a clock moved by hand.
struct TestEngine {
  static constexpr int kBlockTokens = 16;

  explicit TestEngine(const EngineOptions& wanted,
                      int n_blocks = 0,
                      InputRecorder* recorder = nullptr,
                      int window = 0,
                      std::shared_ptr<Proposer> proposer = nullptr)
      : TestEngine(wanted, TestSetup{n_blocks, recorder, window, std::move(proposer)}) {}
  TestEngine(EngineOptions wanted, const TestSetup& setup)
      : model(wanted.n_ctx, kStripTokens, setup.window, setup.n_kept) {
    wanted.block_tokens = wanted.block_tokens == 0 ? kBlockTokens : wanted.block_tokens;
    const int64_t n_all =
        int64_t{setup.n_blocks == 0 ? 4096 : setup.n_blocks} + (setup.window > 0 ? wanted.n_window_blocks : 0);
    wanted.kv_bytes = n_all * wanted.block_tokens * int64_t{sizeof(TestModel::Cell)};
    EngineEnv env;
    env.clock = &clock;
    env.recorder = setup.recorder;
    env.proposer = setup.proposer;
    env.tokenizer = setup.tokenizer;
    for (const auto& [content, n] : setup.prefixes) env.prefixes.push_back(model.learned(content, n));
    env.stage_clock = &ticks;
    env.on_step_end = [this] { ++n_wakes; };
    auto made = make_engine(model, ops, wanted, env);
    QR_CHECK(made.has_value(), made ? "" : made.error().message);
    engine = std::move(*made);
  }

  std::shared_ptr<Heard> submit(Request request) {
    auto sink = std::make_shared<Heard>();
    const auto id = engine->submit(std::move(request), sink);
    QR_CHECK(id.has_value(), id ? "" : id.error().message);
    sink->seq = *id;
    return sink;
  }
  // One step; the snapshot's error, empty when all is well.
  std::string step() {
    busy = engine->step();
    return engine->snapshot().check();
  }
  // Until there is nothing to do, at most `limit` steps.
  std::string run(int limit = 100000) {
    for (int i = 0; i < limit; ++i) {
      std::string error = step();
      if (!error.empty()) return error;
      if (!busy) return "";
    }
    return "still busy after " + std::to_string(limit) + " steps";
  }

  TickClock ticks;
  ManualClock clock;
  TestOps ops;
  TestModel model;
  std::unique_ptr<Engine> engine;
  bool busy = false;
  int n_wakes = 0;
};

}  // namespace quire
