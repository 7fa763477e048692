// Batches of events as ours and others' publishers write them, and as nobody should.
#include "events/kv_batch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "events/kv_encoder.h"
#include "events/msgpack_reader.h"
#include "events/msgpack_writer.h"

namespace quire {
namespace {

const KvEncoder::Secret kSecret{1, 2, 3, 4};

KvNews news() {
  KvNews out;
  out.blocks.push_back({{1, 1}, {}, 0, 0, true});
  out.blocks.push_back({{2, 1}, {1, 1}, 0, 7, true});
  out.blocks.push_back({{9, 9}, {}, 0, 0, false});
  out.blocks.push_back({{3, 1}, {2, 1}, 5, 7, true});
  out.tokens = {1, 2, 300, 70'000, 5, 6};
  return out;
}

struct Read {
  Status status;
  std::vector<KvEvent> events;
};
Read read(std::string_view payload) {
  Read out;
  out.status = read_kv_batch(payload, [&](const KvEvent& e) { out.events.push_back(e); });
  return out;
}

TEST(KvBatch, WhatOurPublisherWritesIsReadBack) {
  const KvEncoder encoder(2, kSecret);
  KvNews all = news();
  all.all_cleared = true;
  const Read got = read(encoder.encode(all, 1.5));
  ASSERT_TRUE(got.status) << got.status.error().message;
  ASSERT_EQ(got.events.size(), 4U);
  EXPECT_EQ(got.events[0].kind, KvEvent::Kind::cleared);
  const KvEvent& first = got.events[1];
  EXPECT_EQ(first.kind, KvEvent::Kind::stored);
  EXPECT_TRUE(first.in_memory);
  EXPECT_FALSE(first.has_parent);
  EXPECT_EQ(first.hashes, (std::vector<uint64_t>{encoder.hash_of({1, 1}), encoder.hash_of({2, 1})}));
  EXPECT_EQ(first.block_tokens, 2);
  EXPECT_EQ(first.tokens, (std::vector<Token>{1, 2, 300, 70'000}));
  EXPECT_EQ(first.adapter, 0U);
  ASSERT_EQ(first.extras.size(), 2U);
  EXPECT_EQ(first.extras[0], 0U);
  EXPECT_NE(first.extras[1], 0U);
  EXPECT_EQ(got.events[2].kind, KvEvent::Kind::removed);
  EXPECT_EQ(got.events[2].hashes, (std::vector<uint64_t>{encoder.hash_of({9, 9})}));
  const KvEvent& last = got.events[3];
  EXPECT_TRUE(last.has_parent);
  EXPECT_EQ(last.parent, encoder.hash_of({2, 1}));
  EXPECT_NE(last.adapter, 0U);
  EXPECT_EQ(last.extras, (std::vector<uint64_t>{first.extras[1]}));
}

// As vLLM before 0.26 and SGLang write them: fields by their places, hashes as bytes or numbers, the end left out.
TEST(KvBatch, ArraysAreReadByTheirOrder) {
  MsgpackWriter out;
  out.array(3);
  out.real(1);
  out.array(4);
  out.array(6);
  out.text("BlockStored");
  out.array(1);
  out.count(UINT64_MAX);
  out.nil();
  out.array(2);
  out.integer(10);
  out.integer(11);
  out.integer(2);
  out.nil();
  out.array(9);
  out.text("BlockStored");
  out.array(1);
  out.text("a hash of many bytes");
  out.count(UINT64_MAX);
  out.array(2);
  out.integer(12);
  out.integer(13);
  out.integer(2);
  out.integer(4);
  out.text("CPU");
  out.text("an adapter");
  out.array(1);
  out.array(1);
  out.text("salt");
  out.array(2);
  out.text("BlockRemoved");
  out.array(1);
  out.text("a hash of many bytes");
  out.array(1);
  out.text("AllBlocksCleared");
  out.nil();
  const Read got = read(out.take());
  ASSERT_TRUE(got.status) << got.status.error().message;
  ASSERT_EQ(got.events.size(), 4U);
  EXPECT_EQ(got.events[0].hashes, (std::vector<uint64_t>{UINT64_MAX}));
  EXPECT_EQ(got.events[0].tokens, (std::vector<Token>{10, 11}));
  EXPECT_TRUE(got.events[0].in_memory);
  EXPECT_FALSE(got.events[0].has_parent);
  EXPECT_EQ(got.events[1].parent, UINT64_MAX);
  EXPECT_FALSE(got.events[1].in_memory);
  EXPECT_NE(got.events[1].adapter, 0U);
  EXPECT_EQ(got.events[1].extras, (std::vector<uint64_t>{kv_salt("salt")}));
  EXPECT_EQ(got.events[2].hashes, got.events[1].hashes);
  EXPECT_EQ(got.events[3].kind, KvEvent::Kind::cleared);
}

TEST(KvBatch, UnknownFieldsAndKindsArePassedOver) {
  MsgpackWriter out;
  out.array(2);
  out.real(1);
  out.array(2);
  out.map(2);
  out.text("type");
  out.text("BlockMoved");
  out.text("to");
  out.array(1);
  out.map(1);
  out.text("deep");
  out.real(2);
  out.map(3);
  out.text("block_hashes");
  out.array(1);
  out.integer(1);
  out.text("new");
  out.array(0);
  out.text("type");
  out.text("BlockRemoved");
  const Read got = read(out.take());
  ASSERT_TRUE(got.status) << got.status.error().message;
  ASSERT_EQ(got.events.size(), 1U);
  EXPECT_EQ(got.events[0].kind, KvEvent::Kind::removed);
}

std::string one_event(const std::function<void(MsgpackWriter&)>& event) {
  MsgpackWriter out;
  out.array(2);
  out.real(1);
  out.array(1);
  event(out);
  return out.take();
}

TEST(KvBatch, WhatIsWrongIsNamed) {
  const auto stored = [](int64_t block_size, int64_t token) {
    return one_event([=](MsgpackWriter& out) {
      out.array(5);
      out.text("BlockStored");
      out.array(1);
      out.integer(1);
      out.nil();
      out.array(2);
      out.integer(token);
      out.integer(1);
      out.integer(block_size);
    });
  };
  EXPECT_TRUE(read(stored(2, 1)).status);
  const auto text_of = [](std::string_view payload) { return read(payload).status.error().message; };
  EXPECT_NE(text_of(stored(3, 1)).find("2 tokens are not those of 1 blocks of 3"), std::string::npos);
  EXPECT_NE(text_of(stored(0, 1)).find("block_size is missing"), std::string::npos);
  EXPECT_NE(text_of(stored(70'000, 1)).find("block_size is no number of 0 to 65536"), std::string::npos);
  EXPECT_NE(text_of(stored(2, -1)).find("what is no token"), std::string::npos);
  EXPECT_NE(text_of(stored(2, int64_t{1} << 31)).find("what is no token"), std::string::npos);
  EXPECT_NE(text_of("").find("byte 0: an array of time and events is missing"), std::string::npos);
  EXPECT_NE(text_of(stored(2, 1) + "x").find("something behind it"), std::string::npos);
  EXPECT_NE(text_of(one_event([](MsgpackWriter& out) { out.nil(); })).find("neither a map nor an array"),
            std::string::npos);
}

// vLLM's offloading tells of blocks in another memory by their names alone, among those that count.
TEST(KvBatch, BlocksElsewhereMayBeToldOfWithoutTheirTokens) {
  const auto stored = [](MsgpackWriter& out, int64_t name, int64_t block_size, const std::string& medium) {
    out.map(6);
    out.text("type");
    out.text("BlockStored");
    out.text("block_hashes");
    out.array(1);
    out.integer(name);
    out.text("parent_block_hash");
    out.nil();
    out.text("token_ids");
    out.array(static_cast<uint32_t>(block_size));
    for (int64_t i = 0; i < block_size; ++i) out.integer(i);
    out.text("block_size");
    out.integer(block_size);
    out.text("medium");
    out.text(medium);
  };
  MsgpackWriter out;
  out.array(2);
  out.real(1);
  out.array(2);
  stored(out, 5, 0, "CPU");
  stored(out, 6, 2, "GPU");
  const Read got = read(out.take());
  ASSERT_TRUE(got.status) << got.status.error().message;
  ASSERT_EQ(got.events.size(), 2U);
  EXPECT_FALSE(got.events[0].in_memory);
  EXPECT_EQ(got.events[1].tokens, (std::vector<Token>{0, 1}));
  EXPECT_FALSE(read(one_event([&](MsgpackWriter& w) { stored(w, 5, 0, "GPU"); })).status);
}

TEST(KvBatch, FieldsOfUnknownKindsMeanWhatTheyLike) {
  const Read got = read(one_event([](MsgpackWriter& out) {
    out.map(3);
    out.text("block_hashes");
    out.text("none");
    out.text("block_size");
    out.integer(-1);
    out.text("type");
    out.text("BlockMoved");
  }));
  EXPECT_TRUE(got.status) << got.status.error().message;
  EXPECT_TRUE(got.events.empty());
}

// A count that is larger than what is there costs nothing; depth costs no stack.
TEST(KvBatch, CountsAndDepthThatAreNotThereCostNothing) {
  EXPECT_FALSE(read(std::string("\x92\x00\xdd\xff\xff\xff\xff", 7)).status);
  EXPECT_FALSE(read(std::string("\x92\x00\x91\xdf\xff\xff\xff\xff", 8)).status);
  std::string deep(1 << 20, '\x91');
  MsgpackReader reader(deep);
  EXPECT_FALSE(reader.skip());
  EXPECT_EQ(reader.at(), 0U);
  deep += '\xc0';
  MsgpackReader whole(deep);
  ASSERT_TRUE(whole.skip());
  EXPECT_TRUE(whole.is_at_end());
}

// Cut anywhere it is wrong; with any byte changed it is read or refused, and what is read keeps its promises.
TEST(KvBatch, CutAndChangedBytesHarmNothing) {
  const std::string good = KvEncoder(2, kSecret).encode(news(), 1.5);
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(read(std::string_view(good).substr(0, n)).status) << n;
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    std::string bad = good;
    for (uint64_t k = 0; k <= seed % 3; ++k)
      bad[random_bits(seed, 2 * k) % bad.size()] = static_cast<char>(random_bits(seed, 2 * k + 1));
    for (const KvEvent& e : read(bad).events) {
      if (e.kind != KvEvent::Kind::stored || !e.in_memory || e.group != 0) continue;
      ASSERT_EQ(e.tokens.size(), e.hashes.size() * static_cast<size_t>(e.block_tokens)) << seed;
      for (const Token token : e.tokens) ASSERT_GE(token, 0) << seed;
    }
  }
}

TEST(MsgpackReader, TakesEachFormOfEachKind) {
  using namespace std::string_literals;
  const auto integer = [](const std::string& bytes) { return MsgpackReader(bytes).take_integer(); };
  EXPECT_EQ(integer("\x7f"s)->bits, 127U);
  EXPECT_EQ(static_cast<int64_t>(integer("\xe0"s)->bits), -32);
  EXPECT_TRUE(integer("\xe0"s)->negative);
  EXPECT_EQ(integer("\xcc\xff"s)->bits, 255U);
  EXPECT_EQ(integer("\xcd\x01\x00"s)->bits, 256U);
  EXPECT_EQ(integer("\xce\x00\x01\x00\x00"s)->bits, 65'536U);
  EXPECT_EQ(integer("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"s)->bits, UINT64_MAX);
  EXPECT_FALSE(integer("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"s)->negative);
  EXPECT_EQ(static_cast<int64_t>(integer("\xd0\x80"s)->bits), -128);
  EXPECT_EQ(integer("\xd1\x01\x00"s)->bits, 256U);
  EXPECT_EQ(static_cast<int64_t>(integer("\xd2\xff\xff\xff\xfe"s)->bits), -2);
  EXPECT_EQ(static_cast<int64_t>(integer("\xd3\x80\x00\x00\x00\x00\x00\x00\x00"s)->bits), INT64_MIN);
  for (const std::string& cut : {"\xcc"s, "\xcd\x01"s, "\xd3\x80\x00"s, ""s, "\xc1"s, "\xc0"s, "\xa1x"s})
    EXPECT_FALSE(integer(cut)) << cut.size();
  const auto text = [](const std::string& bytes) {
    return std::string(MsgpackReader(bytes).take_text().value_or("-"));
  };
  EXPECT_EQ(text("\xa3"s + "abc"), "abc");
  EXPECT_EQ(text("\xd9\x01x"s), "x");
  EXPECT_EQ(text("\xda\x00\x01x"s), "x");
  EXPECT_EQ(text("\xdb\x00\x00\x00\x01x"s), "x");
  EXPECT_EQ(text("\xc4\x01x"s), "-");
  const std::string bin = "\xc6\x00\x00\x00\x01x"s;
  EXPECT_EQ(MsgpackReader(bin).take_bytes(), "x");
  // What nobody takes is skipped whole: booleans, reals, extensions, and what is in arrays and maps.
  for (const std::string& value :
       {"\xc2"s, "\xc3"s, "\xca"s + "1234", "\xcb"s + "12345678", "\xd4"s + "t1", "\xd8"s + "t1234567812345678",
        "\xc7\x02t12"s, "\xc8\x00\x01t1"s, "\xc9\x00\x00\x00\x01t1"s, "\x92\x91\x01\x81\x01\x02"s, "\xdc\x00\x01\x01"s,
        "\xde\x00\x01\x01\x02"s, "\xdd\x00\x00\x00\x00"s, "\xdf\x00\x00\x00\x00"s, "\xc5\x00\x01x"s}) {
    MsgpackReader reader(value);
    EXPECT_EQ(reader.skip(), value);
    EXPECT_TRUE(reader.is_at_end());
    for (size_t n = 0; n < value.size(); ++n) {
      const std::string cut = value.substr(0, n);
      EXPECT_FALSE(MsgpackReader(cut).skip()) << n;
    }
  }
}

}  // namespace
}  // namespace quire
