// Rows of two sequences over blocks of 16, in three groups of layers: full, behind a window, and states.
#include "model/batch_rows.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

std::vector<int32_t> ints(const Tensor& t) { return {t.ptr<int32_t>(), t.ptr<int32_t>() + t.n_elements()}; }

KvLayout three_groups() {
  KvLayout out;
  out.claim(KvGroup{}, 4);
  out.claim(KvGroup{KvGroup::Kind::window, 16}, 4);
  out.claim_state(64);
  return out;
}

void fill(std::span<int32_t> table, std::initializer_list<int32_t> blocks) {
  std::copy(blocks.begin(), blocks.end(), table.begin());
}

//  rows   0  1  2 | 3          the first computes positions 15, 16 and a guess at 17, the second its position 3
TEST(BatchRows, LaysSequencesOneBehindTheOther) {
  const KvLayout layout = three_groups();
  const BatchRows::Size size{.n_rows = 4, .n_out = 3, .n_seqs = 2, .n_blocks = 2};
  Arena arena(std::move(*Buffer::allocate(BatchRows::bytes(size, 3))));
  BatchRows rows(size, layout, 16, arena);
  EXPECT_TRUE(rows.has_table(0) && rows.has_table(1));
  EXPECT_FALSE(rows.has_table(2));
  const std::vector<Token> tokens = {7, 8}, guesses = {9}, other = {5};
  fill(rows.table(0), {4, 6});
  fill(rows.table(1), {1, 2});
  rows.add({15, tokens, guesses, 2});
  fill(rows.table(0), {3});
  fill(rows.table(1), {0});
  rows.add({3, other, {}, 1});
  const Batch batch = rows.batch();
  EXPECT_EQ(ints(batch.ids), (std::vector<int32_t>{7, 8, 9, 5}));
  EXPECT_EQ(ints(batch.pos), (std::vector<int32_t>{15, 16, 17, 3}));
  EXPECT_EQ(ints(batch.out_rows), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(ints(batch.attn.cu_q), (std::vector<int32_t>{0, 3, 4}));
  EXPECT_EQ(ints(batch.attn.first_key), (std::vector<int32_t>{0, 0, 0, 0}));
  EXPECT_EQ(ints(batch.attn.end_key), (std::vector<int32_t>{16, 17, 18, 4}));
  EXPECT_EQ(ints(batch.attn.blocks[0]), (std::vector<int32_t>{4, 6, 3, 0})) << "filled up with 0";
  EXPECT_EQ(ints(batch.slots[0]), (std::vector<int32_t>{4 * 16 + 15, 6 * 16, 6 * 16 + 1, 3 * 16 + 3}));
  EXPECT_EQ(ints(batch.slots[1]), (std::vector<int32_t>{16 + 15, 2 * 16, 2 * 16 + 1, 3}));
  EXPECT_EQ(batch.attn.blocks[2].dim(1), 1);
  EXPECT_EQ(batch.slots[2].dim(0), 4);
  EXPECT_LE(arena.peak_bytes(), BatchRows::bytes(size, 3));
}

//  rows   0  1 | 2          the first computes positions 5 and 6; the second goes on with another 7 behind both of them
TEST(BatchRows, ASequenceGoesOnBehindRowsOfAnother) {
  const KvLayout layout = three_groups();
  const BatchRows::Size size{.n_rows = 3, .n_out = 3, .n_seqs = 2, .n_blocks = 1, .n_again = 2};
  Arena arena(std::move(*Buffer::allocate(BatchRows::bytes(size, 3))));
  BatchRows rows(size, layout, 16, arena);
  const std::vector<Token> tokens = {7}, guesses = {8}, other = {9};
  fill(rows.table(0), {4});
  fill(rows.table(1), {1});
  rows.add({5, tokens, guesses, 2});
  fill(rows.table(0), {3});
  fill(rows.table(1), {2});
  rows.add({.begin = 7, .tokens = other, .n_out = 1, .first_again = 0, .n_again = 2});
  const Batch batch = rows.batch();
  EXPECT_EQ(ints(batch.slots[0]), (std::vector<int32_t>{4 * 16 + 5, 4 * 16 + 6, 3 * 16 + 7}));
  EXPECT_EQ(ints(batch.again), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(ints(batch.again_slots[0]), (std::vector<int32_t>{3 * 16 + 5, 3 * 16 + 6}));
  EXPECT_EQ(ints(batch.again_slots[1]), (std::vector<int32_t>{2 * 16 + 5, 2 * 16 + 6}));
  EXPECT_TRUE(batch.again_slots[2].empty());
  EXPECT_LE(arena.peak_bytes(), BatchRows::bytes(size, 3));
}

TEST(BatchRowsDeath, RowsAreMissing) {
  const KvLayout layout = three_groups();
  const BatchRows::Size size{.n_rows = 2, .n_out = 1, .n_seqs = 1, .n_blocks = 1};
  Arena arena(std::move(*Buffer::allocate(BatchRows::bytes(size, 3))));
  BatchRows rows(size, layout, 16, arena);
  const std::vector<Token> one = {7};
  rows.add({0, one, {}, 1});
  EXPECT_DEATH(rows.batch(), "n_rows_");
}

//  row    0           position 70, its table without the blocks of 32 tokens before it
TEST(BatchRows, ATableWithoutDroppedBlocksClosesUp) {
  KvLayout layout;
  layout.claim(KvGroup{}, 4);
  const BatchRows::Size size{.n_rows = 1, .n_out = 1, .n_seqs = 1, .n_blocks = 3};
  Arena arena(std::move(*Buffer::allocate(BatchRows::bytes(size, 1))));
  BatchRows rows(size, layout, 16, arena);
  const std::vector<Token> tokens = {7};
  fill(rows.table(0), {4, 9, 2});
  rows.add({.begin = 70, .tokens = tokens, .n_out = 1, .n_dropped = 32});
  const Batch batch = rows.batch();
  EXPECT_EQ(ints(batch.pos), (std::vector<int32_t>{70})) << "it stands where it stood";
  EXPECT_EQ(ints(batch.attn.end_key), (std::vector<int32_t>{39}));
  EXPECT_EQ(ints(batch.slots[0]), (std::vector<int32_t>{2 * 16 + 6}));
}

}  // namespace
}  // namespace quire
