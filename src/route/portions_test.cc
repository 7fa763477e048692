// Streams that can be gone on with, cut anywhere.
#include "route/portions.h"

#include <gtest/gtest.h>

#include <utility>

namespace quire {
namespace {

const std::string kStream =
    "data: {\"a\":1}\n\n: handover 5,17 3\n\n: handover  3\n\ndata: {\"b\":\": handover 1 2\"}\n\ndata: {}\n\n"
    ": handover 400 12\n\ndata: end\n\ndata: [DONE]\n\n";

TEST(Portions, MarksAreFilteredWhereverTheStreamIsCut) {
  const std::string lines =
      ": handover 1 1\n{\"a\":\": handover 1 2\"}\n: handover 5,17 3\n: handover  3\n::\n: h\n\n{}\n";
  EXPECT_EQ(without_marks(StreamForm::lines, lines), "{\"a\":\": handover 1 2\"}\n::\n: h\n\n{}\n");
  for (const auto& [form, stream] : {std::pair(StreamForm::lines, lines), std::pair(StreamForm::events, kStream)})
    for (size_t first = 0; first <= stream.size(); ++first)
      for (size_t second = first; second <= stream.size(); second += 3) {
        MarkFilter filter(form);
        std::string out = filter.take(stream.substr(0, first));
        out += filter.take(stream.substr(first, second - first));
        out += filter.take(stream.substr(second));
        ASSERT_EQ(out, without_marks(form, stream)) << first << ' ' << second;
      }
}

TEST(Portions, WhatHasAMarkBehindItIsPassedOnWherevertheStreamIsCut) {
  const std::string all =
      "data: {\"a\":1}\n\ndata: {\"b\":\": handover 1 2\"}\n\ndata: {}\n\ndata: end\n\ndata: [DONE]\n\n";
  EXPECT_EQ(without_marks(StreamForm::events, kStream), all);
  for (size_t first = 0; first <= kStream.size(); ++first) {
    for (size_t second = first; second <= kStream.size(); second += 7) {
      std::string held, events, ids;
      int64_t told = 0;
      ToldSoFar so_far;
      for (const auto& piece :
           {kStream.substr(0, first), kStream.substr(first, second - first), kStream.substr(second)}) {
        held += piece;
        const auto portion = read_portion(StreamForm::events, held);
        ASSERT_TRUE(portion);
        held.erase(0, portion->n_bytes);
        events += portion->events;
        if (portion->n_bytes == 0) continue;
        so_far.add(*portion);
        told = portion->told_bytes;
      }
      EXPECT_EQ(events, all.substr(0, all.find("data: end")));
      EXPECT_EQ(held, "data: end\n\ndata: [DONE]\n\n");
      EXPECT_EQ(told, 12);
      EXPECT_EQ(so_far.going_on("  {\"prompt\":1}", "t"),
                "  {\"handover\":{\"ticket\":\"t\",\"tokens\":[5,17,400],\"told_bytes\":12},\"prompt\":1}");
    }
  }
}

TEST(Portions, AmongLinesAMarkIsALine) {
  const std::string lines =
      "{\"a\":\"\\n: handover 1 1\"}\n: handover 5,17 3\n{\"b\":1}\n{\"c\":1}\n: handover 8 4\n{\"d\"";
  const auto portion = read_portion(StreamForm::lines, lines);
  ASSERT_TRUE(portion);
  EXPECT_EQ(portion->events, "{\"a\":\"\\n: handover 1 1\"}\n{\"b\":1}\n{\"c\":1}\n");
  EXPECT_EQ(portion->ids, "5,17,8");
  EXPECT_EQ(portion->told_bytes, 4);
  EXPECT_EQ(lines.substr(portion->n_bytes), "{\"d\"");
  EXPECT_EQ(without_marks(StreamForm::lines, lines), portion->events + "{\"d\"");
  EXPECT_FALSE(read_portion(StreamForm::lines, ": handover 5,,7 3\n"));
  EXPECT_EQ(read_portion(StreamForm::lines, ": handover 5 3")->n_bytes, 0U);
}

TEST(Portions, WhatIsNoMarkIsFoundOut) {
  for (const char* mark : {": handover 5,,7 3", ": handover 5, 3", ": handover ,5 3", ": handover x 3", ": handover 5",
                           ": handover 5 ", ": handover 5 -1", ": handover 5 3 3", ": handover 5 99999999999999999999"})
    EXPECT_FALSE(read_portion(StreamForm::events, std::string(mark) + "\n\n")) << mark;
  EXPECT_TRUE(read_portion(StreamForm::events, ": handover 5 3\n"));
  EXPECT_EQ(read_portion(StreamForm::events, "data: : handover 5\n\n")->n_bytes, 0U);
}

TEST(Portions, WhatIsSentOnHoldsNoOnesQuotes) {
  ToldSoFar so_far;
  EXPECT_FALSE(so_far.any());
  so_far.add(*read_portion(StreamForm::events, ": handover  0\n\n"));
  EXPECT_TRUE(so_far.any());
  EXPECT_EQ(so_far.going_on("{\"a\":1}", "x\"\\\ny"),
            "{\"handover\":{\"ticket\":\"xy\",\"tokens\":[],\"told_bytes\":0},\"a\":1}");
  EXPECT_EQ(so_far.going_on("[]", "x"), "");
}

}  // namespace
}  // namespace quire
