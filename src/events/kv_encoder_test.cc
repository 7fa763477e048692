// KV events byte by byte, against the MessagePack specification and vLLM's structs.
#include "events/kv_encoder.h"

#include <gtest/gtest.h>

#include "events/msgpack_writer.h"

namespace quire {
namespace {

template <class Write>
std::string written(Write write) {
  MsgpackWriter out;
  write(out);
  return out.take();
}

std::string bytes(std::initializer_list<int> values) {
  std::string out;
  for (const int value : values) out += static_cast<char>(value);
  return out;
}

TEST(MsgpackWriter, IntegersTakeTheShortestForm) {
  const struct {
    int64_t value;
    std::string form;
  } cases[] = {
      {0, bytes({0})},
      {127, bytes({0x7f})},
      {128, bytes({0xcc, 0x80})},
      {255, bytes({0xcc, 0xff})},
      {256, bytes({0xcd, 1, 0})},
      {65535, bytes({0xcd, 0xff, 0xff})},
      {65536, bytes({0xce, 0, 1, 0, 0})},
      {0xffff'ffff, bytes({0xce, 0xff, 0xff, 0xff, 0xff})},
      {0x1'0000'0000, bytes({0xcf, 0, 0, 0, 1, 0, 0, 0, 0})},
      {-1, bytes({0xff})},
      {-32, bytes({0xe0})},
      {-33, bytes({0xd0, 0xdf})},
      {-128, bytes({0xd0, 0x80})},
      {-129, bytes({0xd1, 0xff, 0x7f})},
      {-32769, bytes({0xd2, 0xff, 0xff, 0x7f, 0xff})},
      {INT64_MIN, bytes({0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0})},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(written([&](MsgpackWriter& out) { out.integer(c.value); }), c.form) << c.value;
  }
  EXPECT_EQ(written([](MsgpackWriter& out) { out.count(UINT64_MAX); }),
            bytes({0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}));
}

TEST(MsgpackWriter, OtherValues) {
  EXPECT_EQ(written([](MsgpackWriter& out) { out.nil(); }), bytes({0xc0}));
  EXPECT_EQ(written([](MsgpackWriter& out) { out.real(1.5); }), bytes({0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(written([](MsgpackWriter& out) { out.text("ab"); }), bytes({0xa2}) + "ab");
  for (const size_t n : {31, 32, 255, 256, 65536}) {
    const std::string text(n, 'x');
    const std::string head = n < 32      ? bytes({0xa0 | static_cast<int>(n)})
                             : n < 256   ? bytes({0xd9, static_cast<int>(n)})
                             : n < 65536 ? bytes({0xda, 1, 0})
                                         : bytes({0xdb, 0, 1, 0, 0});
    EXPECT_EQ(written([&](MsgpackWriter& out) { out.text(text); }), head + text) << n;
  }
  EXPECT_EQ(written([](MsgpackWriter& out) { out.array(15); }), bytes({0x9f}));
  EXPECT_EQ(written([](MsgpackWriter& out) { out.array(16); }), bytes({0xdc, 0, 16}));
  EXPECT_EQ(written([](MsgpackWriter& out) { out.array(65536); }), bytes({0xdd, 0, 1, 0, 0}));
  EXPECT_EQ(written([](MsgpackWriter& out) { out.map(15); }), bytes({0x8f}));
  EXPECT_EQ(written([](MsgpackWriter& out) { out.map(16); }), bytes({0xde, 0, 16}));
}

const KvEncoder::Secret kSecret = {1, 2, 3, 4};

Hash128 name(uint64_t i) { return {i, 77}; }

// `parent` 0: none.
KvNews::Block stored(uint64_t i, uint64_t parent, uint64_t salt = 0, uint64_t adapter = 0) {
  return {name(i), parent == 0 ? Hash128() : name(parent), adapter, salt, true};
}
KvNews::Block removed(uint64_t i) { return {name(i), {}, 0, 0, false}; }

TEST(KvEncoder, APathIsOneEventWithItsParent) {
  const KvEncoder encoder(2, kSecret);
  KvNews news;
  news.blocks = {stored(1, 0), stored(2, 1)};
  news.tokens = {10, 11, 12, 300};
  const std::string expected = written([&](MsgpackWriter& out) {
    out.array(3);
    out.real(1.5);
    out.array(1);
    out.map(8);
    out.text("type");
    out.text("BlockStored");
    out.text("block_hashes");
    out.array(2);
    out.count(encoder.hash_of(name(1)));
    out.count(encoder.hash_of(name(2)));
    out.text("medium");
    out.text("GPU");
    out.text("parent_block_hash");
    out.nil();
    out.text("token_ids");
    out.array(4);
    for (const int token : {10, 11, 12, 300}) out.integer(token);
    out.text("block_size");
    out.integer(2);
    out.text("lora_id");
    out.nil();
    out.text("lora_name");
    out.nil();
    out.integer(0);
  });
  EXPECT_EQ(encoder.encode(news, 1.5), expected);
}

TEST(KvEncoder, WhatDoesNotGoOnIsAnEventOfItsOwn) {
  const KvEncoder encoder(1, kSecret);
  KvNews news;
  news.all_cleared = true;
  news.blocks = {stored(1, 0), stored(2, 0), removed(1), removed(2), stored(3, 2, 0, 5), stored(4, 3)};
  news.tokens = {1, 2, 3, 4};
  const std::string text = encoder.encode(news, 0);
  EXPECT_EQ(text[10], '\x96');  // behind the array and the time: cleared, stored twice, removed, stored twice
  size_t n_stored = 0;
  for (size_t at = text.find("BlockStored"); at != text.npos; at = text.find("BlockStored", at + 1)) ++n_stored;
  EXPECT_EQ(n_stored, 4U);
  EXPECT_NE(text.find("lora_name\xb0"
                      "0000000000000005"),
            text.npos);
  const size_t at = text.find("BlockRemoved");
  ASSERT_NE(at, text.npos);
  EXPECT_EQ(text.find("BlockRemoved", at + 1), text.npos);
}

// Neither what blocks are called elsewhere nor what separates keys is seen.
TEST(KvEncoder, NamesAndSaltsAreHashedWithASecret) {
  const KvEncoder encoder(1, kSecret), other(1, {1, 2, 3, 5});
  EXPECT_NE(encoder.hash_of(name(1)), other.hash_of(name(1)));
  EXPECT_NE(encoder.hash_of(name(1)), name(1).lo);
  EXPECT_EQ(encoder.hash_of(name(1)), KvEncoder(16, kSecret).hash_of(name(1)));
  KvNews news;
  news.blocks = {stored(1, 0), stored(2, 1, 0xabcdef0123456789)};
  news.tokens = {1, 2};
  const std::string text = encoder.encode(news, 0);
  const size_t at = text.find("extra_keys");
  ASSERT_NE(at, text.npos);
  // Two entries: nil, and an array of a text of 16 digits.
  EXPECT_EQ(text.substr(at + 10, 4), bytes({0x92, 0xc0, 0x91, 0xb0}));
  EXPECT_EQ(text.find("abcdef0123456789"), text.npos);
  EXPECT_EQ(text, KvEncoder(1, kSecret).encode(news, 0));
  EXPECT_NE(text, other.encode(news, 0));
}

TEST(KvEncoder, NumbersAreEightBytesTheHighestFirst) {
  EXPECT_EQ(sequence_bytes(0x0102030405060708), bytes({1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(sequence_bytes(UINT64_MAX), std::string(8, '\xff'));
}

}  // namespace
}  // namespace quire
