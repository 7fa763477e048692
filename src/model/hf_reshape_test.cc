// Tensors of a folder that become others: element by element against what they are said to be.
#include "model/hf_reshape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "model/hf_names.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// 0, 1, 2, … as F32.
struct Counted {
  explicit Counted(std::vector<int64_t> shape) {
    size_t n = 1;
    for (const int64_t dim : shape) n *= static_cast<size_t>(dim);
    values.resize(n);
    std::iota(values.begin(), values.end(), 0.0F);
    weight = {"theirs", find_weight_format("f32"), std::move(shape), std::as_bytes(std::span(values))};
  }
  std::vector<float> values;
  HostWeight weight;
};

struct Made {
  std::vector<int64_t> shape;
  std::vector<float> values;
  std::string error;
};

Made make(Reshape reshape, const Counted& from) {
  ModelFile file;
  HostWeight ours = from.weight;
  const Status done = reshape(from.weight, {}, ours, file);
  if (!done) return {{}, {}, done.error().message};
  Made out{ours.shape, std::vector<float>(ours.data.size() / sizeof(float)), ""};
  std::memcpy(out.values.data(), ours.data.data(), ours.data.size());
  return out;
}

TEST(HfReshape, CutsRowsOfEveryExpert) {
  const Counted from({2, 4, 3});
  const Made first = make(first_rows, from);
  EXPECT_THAT(first.shape, ElementsAre(2, 2, 3));
  EXPECT_THAT(first.values, ElementsAre(0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17));
  EXPECT_THAT(make(last_rows, from).values, ElementsAre(6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23));
}

TEST(HfReshape, CutsColumnsOfEveryExpert) {
  const Counted from({2, 2, 4});
  const Made first = make(first_columns, from);
  EXPECT_THAT(first.shape, ElementsAre(2, 2, 2));
  EXPECT_THAT(first.values, ElementsAre(0, 4, 1, 5, 8, 12, 9, 13));
  EXPECT_THAT(make(last_columns, from).values, ElementsAre(2, 6, 3, 7, 10, 14, 11, 15));
  EXPECT_THAT(make(last_columns, Counted({2, 2, 3})).error, HasSubstr("dimension 2 must be even, is 3"));
}

TEST(HfReshape, CutsRowsOfOneMatrix) {
  const Counted from({4, 3});
  EXPECT_THAT(make(first_rows, from).shape, ElementsAre(2, 3));
  EXPECT_THAT(make(first_rows, from).values, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(make(last_rows, from).values, ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(make(last_rows, Counted({3, 4})).error, HasSubstr("dimension 0 must be even, is 3"));
}

TEST(HfReshape, NumbersOfAScanAreColumns) {
  EXPECT_THAT(make(as_column, Counted({3})).shape, ElementsAre(3, 1));
  const Made decays = make(minus_exp, Counted({3}));
  EXPECT_THAT(decays.shape, ElementsAre(3, 1));
  EXPECT_THAT(decays.values, ElementsAre(-1.0F, -2.7182818F, -7.3890561F));
  EXPECT_THAT(make(minus_exp, Counted({1, 1, 3})).error, HasSubstr("must have 1 dimensions, has 3"));
  const Made matrix = make(minus_exp, Counted({1, 2}));
  EXPECT_THAT(matrix.shape, ElementsAre(1, 2));
  EXPECT_THAT(matrix.values, ElementsAre(-1.0F, -2.7182818F));
}

TEST(HfReshape, TapsLoseTheirMiddle) {
  const Made taps = make(without_middle, Counted({2, 1, 3}));
  EXPECT_THAT(taps.shape, ElementsAre(2, 3));
  EXPECT_THAT(taps.values, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(make(without_middle, Counted({2, 2, 3})).error, HasSubstr("dimension 1 must be 1, is 2"));
}

TEST(HfReshape, TakesEveryOtherColumnAsARow) {
  const Counted from({2, 3, 4});
  const Made even = make(even_columns, from);
  EXPECT_THAT(even.shape, ElementsAre(2, 2, 3));
  EXPECT_THAT(even.values, ElementsAre(0, 4, 8, 2, 6, 10, 12, 16, 20, 14, 18, 22));
  EXPECT_THAT(make(odd_columns, from).values, ElementsAre(1, 5, 9, 3, 7, 11, 13, 17, 21, 15, 19, 23));
  EXPECT_THAT(make(even_numbers, Counted({2, 4})).values, ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(make(odd_numbers, Counted({2, 4})).shape, ElementsAre(2, 2));
}

TEST(HfReshape, TakesEveryOtherRowWhereItIsWanted) {
  const Counted from({2, 4, 3});
  ModelFile file;
  HostWeight even = from.weight, odd = from.weight;
  ASSERT_TRUE(even_rows(from.weight, {}, even, file));
  ASSERT_TRUE(odd_rows(from.weight, {}, odd, file));
  EXPECT_THAT(even.shape, ElementsAre(2, 2, 3));
  const auto numbers = [](const HostWeight& weight, int64_t first, int64_t n) {
    std::vector<std::byte> room;
    std::vector<float> out(static_cast<size_t>(3 * n));
    std::memcpy(out.data(), weight.rows(first, n, room), out.size() * sizeof(float));
    return out;
  };
  EXPECT_THAT(numbers(even, 0, 4), ElementsAre(0, 1, 2, 6, 7, 8, 12, 13, 14, 18, 19, 20));
  EXPECT_THAT(numbers(odd, 1, 2), ElementsAre(9, 10, 11, 15, 16, 17));
  EXPECT_EQ(even.stored_bytes() + odd.stored_bytes(), from.weight.stored_bytes());
  EXPECT_EQ(even.stored()[0].data() + even.stored_bytes(), odd.stored()[0].data());
  EXPECT_NE(even.made->kind(), odd.made->kind());
  HostWeight again = even;  // of rows that are made
  ASSERT_TRUE(odd_rows(even, {}, again, file));
  EXPECT_THAT(numbers(again, 0, 2), ElementsAre(6, 7, 8, 18, 19, 20));
  EXPECT_THAT(make(even_rows, Counted({2, 3, 3})).error, HasSubstr("dimension 1 must be even, is 3"));
}

TEST(HfReshape, TurnsEveryMatrixOver) {
  const Made made = make(transposed, Counted({2, 2, 3}));
  EXPECT_THAT(made.shape, ElementsAre(2, 3, 2));
  EXPECT_THAT(made.values, ElementsAre(0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11));
}

TEST(HfReshape, PutsHeadsApart) {
  Metadata facts;
  facts.values["hf.num_attention_heads"] = int64_t{2};
  ModelFile file;
  const Counted from({6, 2});
  HostWeight ours = from.weight;
  ASSERT_TRUE(heads_apart(from.weight, facts, ours, file));
  std::vector<float> values(12);
  std::memcpy(values.data(), ours.data.data(), ours.data.size());
  EXPECT_THAT(values, ElementsAre(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11));
  facts.values["hf.num_attention_heads"] = int64_t{4};
  const Status done = heads_apart(from.weight, facts, ours, file);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("rows of 4 heads of queries and 4 of keys and of values, has 6 rows"));
  EXPECT_THAT(make(flattened, Counted({1, 3})).shape, ElementsAre(3));
}

// Two heads of queries, a key and a value, twice.
TEST(HfReshape, PutsApartHeadsThatShareKeys) {
  ModelFile file;
  const Counted from({8});
  HostWeight ours = from.weight;
  ASSERT_TRUE(kv_heads_apart(from.weight, 4, 2, ours, file));
  std::vector<float> values(8);
  std::memcpy(values.data(), ours.data.data(), ours.data.size());
  EXPECT_THAT(values, ElementsAre(0, 1, 4, 5, 2, 6, 3, 7));
  EXPECT_FALSE(kv_heads_apart(from.weight, 4, 3, ours, file));
}

// Of two heads, each with two rows of keys and one of values: a query of two numbers is multiplied with [3, 2].
TEST(HfReshape, CutsWhatMakesKeysAndValuesOfALatent) {
  Metadata facts;
  facts.values["hf.num_attention_heads"] = facts.values["hf.qk_nope_head_dim"] = int64_t{2};
  facts.values["hf.v_head_dim"] = int64_t{1};
  ModelFile file;
  const Counted from({6, 3});
  const auto made = [&](Reshape reshape, std::vector<int64_t> shape) {
    HostWeight ours = from.weight;
    EXPECT_TRUE(reshape(from.weight, facts, ours, file));
    EXPECT_EQ(ours.shape, shape);
    std::vector<float> values(ours.data.size() / sizeof(float));
    std::memcpy(values.data(), ours.data.data(), ours.data.size());
    return values;
  };
  EXPECT_THAT(made(latent_to_queries, {2, 3, 2}), ElementsAre(0, 3, 1, 4, 2, 5, 9, 12, 10, 13, 11, 14));
  EXPECT_THAT(made(latent_to_values, {2, 1, 3}), ElementsAre(6, 7, 8, 15, 16, 17));
  facts.values["hf.v_head_dim"] = int64_t{3};
  HostWeight ours = from.weight;
  const Status done = latent_to_values(from.weight, facts, ours, file);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("\"theirs\": must have 5 rows of each of 2 heads, has 6 rows"));
}

TEST(HfReshape, RefusesOtherShapes) {
  EXPECT_THAT(make(first_rows, Counted({4})).error, HasSubstr("\"theirs\": must have 3 dimensions, has 1"));
  EXPECT_THAT(make(even_columns, Counted({2, 2, 3})).error, HasSubstr("dimension 2 must be even, is 3"));
  EXPECT_THAT(make(odd_numbers, Counted({2, 2, 3})).error, HasSubstr("must have 2 dimensions, has 3"));
  EXPECT_THAT(make(transposed, Counted({2})).error, HasSubstr("must have 3 dimensions, has 1"));
  Counted packed({2, 2, 32});
  packed.weight.format = find_weight_format("q8_0");
  EXPECT_THAT(make(transposed, packed).error, HasSubstr("its type is not supported here"));
}

}  // namespace
}  // namespace quire
