#include "http/sse.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace quire {
namespace {

std::string read(std::string_view bytes, size_t cut) {
  SseReader reader;
  std::string out;
  const auto sink = [&](SseEvent&& e) { out += "[" + e.event + "|" + e.id + "|" + e.data + "]"; };
  for (size_t i = 0; i < bytes.size(); i += cut) EXPECT_TRUE(reader.feed(bytes.substr(i, cut), sink));
  return out;
}

TEST(Sse, WritesOneDataLinePerLineOfData) {
  std::string out;
  append_sse_data(out, R"({"a":1})");
  append_sse_data(out, "x\ny\r\nz\rw\n");
  append_sse_data(out, "");
  append_sse_event(out, "er\nror", "7\r", "d");
  append_sse_comment(out, "ping\nevent: x");
  EXPECT_EQ(out,
            "data: {\"a\":1}\n\n"
            "data: x\ndata: y\ndata: z\ndata: w\ndata: \n\n"
            "data: \n\n"
            "event: error\nid: 7\ndata: d\n\n"
            ": ping\n: event: x\n\n");
}

TEST(Sse, PayloadCannotForgeAnEvent) {
  std::string out;
  append_sse_data(out, "a\n\nevent: evil\ndata: b");
  append_sse_event(out, "e\n\ndata: x", "", "c");
  EXPECT_EQ(read(out, 1), "[message||a\n\nevent: evil\ndata: b][edata: x||c]");
}

TEST(Sse, ReaderFollowsTheSpecificationInAnyCut) {
  const std::string stream =
      "\xef\xbb\xbf: comment\r\n\r\ndata: a\r\rdata:b\ndata:  c\n\nid: 1\nevent: x\ndata\n\nretry: 5\nfoo: bar\ndata: "
      "d\n\n"
      "event: dropped\n\ndata: e\n\ndata: unfinished\n";
  const std::string want = "[message||a][message||b\n c][x|1|][message|1|d][message|1|e]";
  for (size_t cut = 1; cut <= stream.size(); ++cut) ASSERT_EQ(read(stream, cut), want) << cut;
}

TEST(Sse, RoundTripsRandomText) {
  Rng rng(7);
  for (int i = 0; i < 300; ++i) {
    std::string data;
    for (int64_t n = rng.between(0, 20); n > 0; --n) data += "ab \n:\\d\xc3"[rng.between(0, 8)];
    std::string out;
    append_sse_data(out, data);
    ASSERT_EQ(read(out, static_cast<size_t>(rng.between(1, 9))), "[message||" + data + "]");
  }
}

TEST(Sse, ReaderIsBounded) {
  SseReader reader(100);
  const auto none = [](SseEvent&&) {};
  EXPECT_TRUE(reader.feed("data: " + std::string(80, 'x') + "\n", none));
  EXPECT_FALSE(reader.feed("data: " + std::string(80, 'x') + "\n", none));
  EXPECT_FALSE(reader.feed("\n", none));
}

}  // namespace
}  // namespace quire
