// A plan as index tensors. Blocks of 16; the table of sequence A is 2 0, that of B is 1.
#include "engine/batcher.h"

#include <gtest/gtest.h>

#include "engine/test_model.h"

namespace quire {
namespace {

std::vector<int32_t> ints(const Tensor& t) { return {t.ptr<int32_t>(), t.ptr<int32_t>() + t.n_elements()}; }

KvLayout layout_of(int n_groups) {
  KvLayout out;
  for (int g = 0; g < n_groups; ++g) out.claim(g == 0 ? KvGroup{} : KvGroup{KvGroup::Kind::window, 16 * g}, 4);
  return out;
}

// Blocks with the wanted ids, in order.
void hold(Sequence& seq, std::vector<BlockRef>& from, std::initializer_list<size_t> ids) {
  for (const size_t id : ids) seq.kv.table.emplace_back().push_back(from[id].share());
}

//  rows   0  1  2 | 3          A computes its positions 14, 15, 16 (of 18 pending), B its only one
//  A      … 14 15 16           slots 2·16+14, 2·16+15, 0·16+0
//  B      0                    slot 1·16
TEST(Batcher, LaysRowsOutInPlanOrder) {
  BlockPool pool(std::move(*Buffer::allocate(3 * 64)), 3, 64);
  std::vector<BlockRef> blocks;
  blocks.reserve(3);
  for (int i = 0; i < 3; ++i) blocks.push_back(pool.allocate());
  std::sort(blocks.begin(), blocks.end(), [](const BlockRef& x, const BlockRef& y) { return x.id() < y.id(); });
  Sequence a;
  a.tokens = random_tokens(1, 18);
  a.n_computed = 14;
  hold(a, blocks, {2, 0});
  Sequence b;
  b.tokens = {33};
  hold(b, blocks, {1});
  Plan plan;
  plan.grants = {{&a, 3, false}, {&b, 1, true}};
  plan.n_tokens = 4;
  plan.n_out = 1;

  Arena arena(std::move(*Buffer::allocate(batch_bytes({4, 2, 32, 16, 1}))));
  const Batch batch = build_batch(plan, layout_of(1), 16, arena);
  EXPECT_EQ(ints(batch.ids), (std::vector<int32_t>{a.tokens[14], a.tokens[15], a.tokens[16], 33}));
  EXPECT_EQ(ints(batch.pos), (std::vector<int32_t>{14, 15, 16, 0}));
  EXPECT_EQ(ints(batch.slots[0]), (std::vector<int32_t>{46, 47, 0, 16}));
  EXPECT_EQ(ints(batch.out_rows), (std::vector<int32_t>{3}));
  EXPECT_EQ(ints(batch.attn.cu_q), (std::vector<int32_t>{0, 3, 4}));
  EXPECT_EQ(ints(batch.attn.first_key), (std::vector<int32_t>{0, 0, 0, 0}));
  EXPECT_EQ(ints(batch.attn.end_key), (std::vector<int32_t>{15, 16, 17, 1}));
  ASSERT_EQ(batch.attn.blocks[0].dim(0), 2);
  ASSERT_EQ(batch.attn.blocks[0].dim(1), 8);
  EXPECT_EQ(ints(batch.attn.blocks[0]), (std::vector<int32_t>{2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}))
      << "rows are filled up with 0";
}

//  tokens   0 … 15 | 16 … 31 | 32 … 36      A has 20 tokens, computes 17 more; B begins
//  states        –   |      a  |  b           a is read, and takes the end of its block; b takes the last
TEST(Batcher, StatesAreReadAndLeft) {
  KvLayout layout;
  layout.claim(KvGroup{}, 4);
  layout.claim_state(64);
  BlockPool keys(std::move(*Buffer::allocate(4 * 64)), 4, 64);
  BlockPool states(std::move(*Buffer::allocate(3 * 64)), 3, 64);
  Sequence a, b;
  a.tokens = random_tokens(1, 37);
  a.n_computed = 20;
  for (int i = 0; i < 3; ++i) {
    GroupBlocks& blocks = a.kv.table.emplace_back();
    blocks.push_back(keys.allocate());
    blocks.push_back(i == 0 ? BlockRef() : states.allocate());
  }
  b.tokens = {33, 34};
  GroupBlocks& blocks = b.kv.table.emplace_back();
  blocks.push_back(keys.allocate());
  blocks.push_back(states.allocate());
  Plan plan;
  plan.grants = {{&a, 17, 1}, {&b, 2, 1}};
  plan.n_tokens = 19;
  plan.n_out = 2;
  Arena arena(std::move(*Buffer::allocate(batch_bytes({19, 2, 48, 16, 2}))));
  const Batch batch = build_batch(plan, layout, 16, arena);
  const int32_t middle = a.kv.table[1][1].id(), last = a.kv.table[2][1].id();
  EXPECT_EQ(ints(batch.attn.blocks[1]), (std::vector<int32_t>{middle, -1}));
  std::vector<int32_t> left(19, -1);
  left[11] = middle;  // token 31
  left[16] = last;
  left[18] = b.kv.table[0][1].id();
  EXPECT_EQ(ints(batch.slots[1]), left);
}

TEST(Batcher, ADraftFollowsTheTokens) {
  BlockPool pool(std::move(*Buffer::allocate(64)), 1, 64);
  Sequence a;
  a.tokens = {5, 6};
  a.draft = {7, 8};
  a.n_computed = 1;
  a.kv.table.emplace_back().push_back(pool.allocate());
  Plan plan;
  plan.grants = {{&a, 3, true}};
  plan.n_tokens = 3;
  plan.n_out = 1;
  Arena arena(std::move(*Buffer::allocate(batch_bytes({3, 1, 16, 16, 1}))));
  EXPECT_EQ(ints(build_batch(plan, layout_of(1), 16, arena).ids), (std::vector<int32_t>{6, 7, 8}));
}

TEST(Batcher, RowsOfAnAdapterLieSideBySide) {
  BlockPool pool(std::move(*Buffer::allocate(64)), 1, 64);
  const BlockRef block = pool.allocate();
  const auto first = std::make_shared<Adapter>(), second = std::make_shared<Adapter>();
  first->content = 9;
  second->content = 5;
  std::vector<Sequence> seqs(5);
  Plan plan;
  const std::shared_ptr<const Adapter> of[] = {first, nullptr, second, first, nullptr};
  for (size_t i = 0; i < seqs.size(); ++i) {
    seqs[i].id = 10 - i;
    seqs[i].request.adapter = of[i];
    seqs[i].tokens.assign(4, static_cast<Token>(i));
    seqs[i].kv.table.emplace_back().push_back(block.share());
    plan.add({&seqs[i], 1 + static_cast<int>(i % 2), 1});
  }
  plan.group_adapters();
  Arena arena(std::move(*Buffer::allocate(batch_bytes({7, 5, 16, 16, 1}))));
  const Batch batch = build_batch(plan, layout_of(1), 16, arena);
  EXPECT_EQ(ints(batch.ids), (std::vector<int32_t>{4, 1, 1, 2, 3, 3, 0}));
  ASSERT_EQ(batch.adapters.size(), 2U);
  EXPECT_EQ(batch.adapters[0].adapter, second.get());
  EXPECT_EQ(batch.adapters[0].begin, 3);
  EXPECT_EQ(batch.adapters[0].end, 4);
  EXPECT_EQ(batch.adapters[1].adapter, first.get());
  EXPECT_EQ(batch.adapters[1].begin, 4);
  EXPECT_EQ(batch.adapters[1].end, 7);
  EXPECT_EQ(plan.n_tokens, 7);
}

// Rows before an invocation have no adapter; those behind it stand in one run where sequences come one after another.
TEST(Batcher, AnActivatedAdapterHasTheRowsBehindItsInvocation) {
  const auto adapter = std::make_shared<Adapter>();
  BlockPool pool(std::move(*Buffer::allocate(64)), 1, 64);
  const BlockRef block = pool.allocate();
  struct {
    int n_base, n_computed, n_tokens;
  } cases[] = {{5, 2, 2}, {5, 2, 3}, {5, 2, 4}, {5, 5, 2}, {0, 0, 3}, {kNotInvoked, 3, 3}, {5, 6, 1}};
  std::vector<Sequence> seqs(std::size(cases));
  Plan plan;
  for (size_t i = 0; i < seqs.size(); ++i) {
    seqs[i].request.adapter = adapter;
    seqs[i].n_base = cases[i].n_base;
    seqs[i].n_computed = cases[i].n_computed;
    seqs[i].tokens.assign(10, 1);
    seqs[i].kv.table.emplace_back().push_back(block.share());
    plan.add({&seqs[i], cases[i].n_tokens, 1});
  }
  EXPECT_EQ(plan.grants[0].adapter(), nullptr);
  EXPECT_EQ(plan.grants[2].adapter(), adapter.get());
  Arena arena(std::move(*Buffer::allocate(batch_bytes({18, 7, 16, 16, 1}))));
  const Batch batch = build_batch(plan, layout_of(1), 16, arena);
  std::vector<std::pair<int64_t, int64_t>> found;
  for (const AdapterRows& some : batch.adapters) found.emplace_back(some.begin, some.end);
  EXPECT_EQ(found, (std::vector<std::pair<int64_t, int64_t>>{{8, 14}, {17, 18}}));
}

// The bound that the engine sizes its arena by holds for the widest plan, and leaves less than a cache line per tensor.
TEST(Batcher, BytesAreEnoughForTheWidestPlan) {
  for (const int n_seqs : {1, 3, 64}) {
    for (const int n_ctx : {2, 16, 17, 500}) {
      const int n_blocks = (n_ctx + 15) / 16;
      BlockPool pool(std::move(*Buffer::allocate(64)), 1, 64);
      const BlockRef block = pool.allocate();
      std::vector<Sequence> seqs(static_cast<size_t>(n_seqs));
      Plan plan;
      for (Sequence& seq : seqs) {
        seq.tokens.assign(static_cast<size_t>(n_ctx), 0);
        seq.request.adapter = std::make_shared<Adapter>();
        for (int b = 0; b < n_blocks; ++b) {
          GroupBlocks& blocks = seq.kv.table.emplace_back();
          for (int g = 0; g < 2; ++g) blocks.push_back(block.share());
        }
        plan.grants.push_back({&seq, 1, true});
      }
      plan.n_tokens = plan.n_out = n_seqs;
      const BatchSize size{n_seqs, n_seqs, n_ctx, 16, 2};
      Arena arena(std::move(*Buffer::allocate(batch_bytes(size))));
      build_batch(plan, layout_of(2), 16, arena);
      EXPECT_LE(arena.peak_bytes(), batch_bytes(size));
    }
  }
}

}  // namespace
}  // namespace quire
