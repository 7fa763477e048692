#include "serve/pieces.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/rng.h"

namespace quire {
namespace {

std::string all_of(Pieces pieces, size_t at_a_time) {
  std::string out;
  while (!pieces.done()) {
    std::string piece;
    pieces.write(at_a_time, piece);
    out += piece;
  }
  return out;
}

TEST(Pieces, SayTheSameInPiecesOfAnySize) {
  const auto make = [] {
    Pieces p;
    p.add("{\"a\":[").add_list(5, [](size_t i, std::string& out) { out += std::to_string(i * 100); }).add("],");
    p.add_list(0, [](size_t, std::string& out) { out += "none"; });
    p.add("\"b\":").add_json_string("x\"y", nullptr).add(",\"c\":").add_json_string("", nullptr).add("}");
    return p;
  };
  for (size_t n = 1; n < 80; ++n) EXPECT_EQ(all_of(make(), n), R"({"a":[0,100,200,300,400],"b":"x\"y","c":""})");
}

TEST(Pieces, CutStringsBetweenCodePoints) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::string text;
    const char* parts[] = {"a", "\u00e9", "\u4e2d", "\U0001F600", "\"", "\n", "\x80", "\xE4\xB8"};
    const uint64_t n_parts = seed < 20 ? 6 : 8;  // then also what is no UTF-8
    for (uint64_t i = 0; text.size() < 100'000; ++i) text += parts[random_bits(seed, i) % n_parts];
    Pieces p;
    std::string whole;
    append_json_string(whole, text);
    const std::string got = all_of(std::move(p.add_json_string(text, nullptr)), 1);
    if (n_parts == 6)
      EXPECT_EQ(got, whole);
    else
      EXPECT_TRUE(Json::parse(got)) << seed;
  }
}

TEST(Pieces, AreLetGoAsTheyAreWritten) {
  const auto owner = std::make_shared<int>(1);
  Pieces p;
  p.add_list(1, [owner](size_t, std::string& out) { out += "first"; });
  p.add_list(2, [](size_t, std::string& out) { out += "second"; });
  EXPECT_EQ(owner.use_count(), 2);
  std::string out;
  p.write(3, out);
  EXPECT_EQ(out, "first");
  EXPECT_EQ(owner.use_count(), 1);
  EXPECT_FALSE(p.done());
}

TEST(Pieces, TheWholeIsHeardOnceUnlessItIsTooLong) {
  for (const int64_t most : {9, 10, 11}) {
    Pieces p;
    std::string heard = "nothing";
    p.add("01234").add_list(1, [](size_t, std::string& out) { out += "56789"; });
    p.when_written(most, [&](std::string whole) { heard = std::move(whole); });
    EXPECT_EQ(all_of(std::move(p), 1), "0123456789");
    EXPECT_EQ(heard, most < 10 ? "nothing" : "0123456789");
  }
}

}  // namespace
}  // namespace quire
