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
      std::string held, events;
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
        told = portion->marks.back().second.told_bytes;
      }
      EXPECT_EQ(events, all.substr(0, all.find("data: end")));
      EXPECT_EQ(held, "data: end\n\ndata: [DONE]\n\n");
      EXPECT_EQ(told, 12);
      EXPECT_EQ(
          so_far.going_on("  {\"prompt\":1}", "t"),
          "  {\"handover\":{\"ticket\":\"t\",\"choices\":[{\"tokens\":[5,17,400],\"told_bytes\":12}]},\"prompt\":1}");
    }
  }
}

TEST(Portions, AmongLinesAMarkIsALine) {
  const std::string lines =
      "{\"a\":\"\\n: handover 1 1\"}\n: handover 5,17 3\n{\"b\":1}\n{\"c\":1}\n: handover 8 4\n{\"d\"";
  const auto portion = read_portion(StreamForm::lines, lines);
  ASSERT_TRUE(portion);
  EXPECT_EQ(portion->events, "{\"a\":\"\\n: handover 1 1\"}\n{\"b\":1}\n{\"c\":1}\n");
  ASSERT_EQ(portion->marks.size(), 2U);
  EXPECT_EQ(portion->marks[0].second.ids, (std::vector<Token>{5, 17}));
  EXPECT_EQ(portion->marks[1].second.ids, (std::vector<Token>{8}));
  EXPECT_EQ(portion->marks[1].second.told_bytes, 4);
  EXPECT_EQ(lines.substr(portion->n_bytes), "{\"d\"");
  EXPECT_EQ(without_marks(StreamForm::lines, lines), portion->events + "{\"d\"");
  EXPECT_FALSE(read_portion(StreamForm::lines, ": handover 5,,7 3\n"));
  EXPECT_EQ(read_portion(StreamForm::lines, ": handover 5 3")->n_bytes, 0U);
}

TEST(Portions, WhatIsNoMarkIsFoundOut) {
  for (const char* mark :
       {": handover 5,,7 3", ": handover 5, 3", ": handover ,5 3", ": handover x 3", ": handover 5", ": handover 5 ",
        ": handover 5 -1", ": handover 5 99999999999999999999", ": handover 99999999999 3", ": handover 5 3 -1",
        ": handover 5 3 4096", ": handover 5 3 1 x", ": handover 5 3 1 2 3", ": handover end", ": handover end,5 3"})
    EXPECT_FALSE(read_portion(StreamForm::events, std::string(mark) + "\n\n")) << mark;
  EXPECT_TRUE(read_portion(StreamForm::events, ": handover 5 3\n"));
  EXPECT_EQ(read_portion(StreamForm::events, "data: : handover 5\n\n")->n_bytes, 0U);
}

TEST(Portions, EachChoiceIsAsFarAsItsOwnMarksSay) {
  const auto portion = read_portion(StreamForm::events,
                                    "data: a\n\n: handover 5,6 2\n\ndata: b\n\n: handover 7 1 2\n\n"
                                    "data: c\n\n: handover 8 3\n\ndata: end\n\n: handover end 4 2\n\n");
  ASSERT_TRUE(portion);
  EXPECT_EQ(portion->events, "data: a\n\ndata: b\n\ndata: c\n\ndata: end\n\n");
  ToldSoFar so_far;
  EXPECT_EQ(so_far.n_bytes(), 0);
  const int64_t foretold = so_far.n_bytes_with(*portion);
  so_far.add(*portion);
  EXPECT_EQ(so_far.n_bytes(), foretold);
  EXPECT_GE(foretold, static_cast<int64_t>(3 * sizeof(MarkedChoice) + 4 * sizeof(Token)));
  EXPECT_EQ(so_far.going_on("{}", "t"), R"({"handover":{"ticket":"t","choices":[{"tokens":[5,6,8],"told_bytes":3},{},)"
                                        R"({"tokens":[7],"told_bytes":4,"over":true}]},})");
  so_far.add(*read_portion(StreamForm::events, ": handover 9 5 0 14\n\n"));
  EXPECT_NE(so_far.going_on("{}", "t").find(R"(],"n_events":14},})"), std::string::npos);
}

TEST(Portions, OnlyWhatSaysMoreIsMore) {
  ToldSoFar so_far;
  const auto says_more = [&so_far](const char* mark) {
    return so_far.add(*read_portion(StreamForm::events, ": handover " + std::string(mark) + "\n\n"));
  };
  EXPECT_FALSE(says_more(" 0"));
  EXPECT_TRUE(says_more("5 0"));
  EXPECT_TRUE(says_more(" 3"));
  EXPECT_FALSE(says_more(" 3"));
  EXPECT_FALSE(says_more(" 2"));
  EXPECT_FALSE(says_more(" 3"));
  EXPECT_FALSE(says_more(" 0 7 9"));
  EXPECT_TRUE(says_more("end 3"));
  EXPECT_FALSE(says_more("end 3"));
  EXPECT_FALSE(says_more(" 3"));
  EXPECT_FALSE(says_more("end 3 0 12"));
}

TEST(Portions, WhatOnlyTheWorkerKnewIsSentOn) {
  const std::string list = R"([{"role":"user","content":"a b: handover 1 1\n"}])";
  const std::string stream = "data: a\n\n: handover past 2 " + list + "\n\ndata: b\n\n: handover 5 1 0 3\n\n";
  const auto portion = read_portion(StreamForm::events, stream);
  ASSERT_TRUE(portion);
  EXPECT_EQ(portion->events, "data: a\n\ndata: b\n\n");
  EXPECT_EQ(portion->past, list);
  EXPECT_EQ(without_marks(StreamForm::events, stream), portion->events);
  ToldSoFar so_far;
  const int64_t foretold = so_far.n_bytes_with(*portion);
  so_far.add(*read_portion(StreamForm::events, stream.substr(0, stream.find("data: b"))));
  EXPECT_TRUE(so_far.any() && so_far.has_past());
  EXPECT_EQ(so_far.going_on("{}", "t"),
            R"({"handover":{"ticket":"t","choices":[],"n_events":2,"past":)" + list + "},}");
  so_far.add(*read_portion(StreamForm::events, stream.substr(stream.find("data: b"))));
  EXPECT_EQ(
      so_far.going_on("{}", "t"),
      R"({"handover":{"ticket":"t","choices":[{"tokens":[5],"told_bytes":1}],"n_events":3,"past":)" + list + "},}");
  EXPECT_EQ(so_far.n_bytes(), foretold);
  for (const char* wrong : {"past", "past ", "past 2", "past x []", "past -1 []", "past 2 {}", "past 2 [", "past []"})
    EXPECT_FALSE(read_portion(StreamForm::events, ": handover " + std::string(wrong) + "\n\n")) << wrong;
}

TEST(Portions, WhatIsSentOnHoldsNoOnesQuotes) {
  ToldSoFar so_far;
  EXPECT_FALSE(so_far.any());
  so_far.add(*read_portion(StreamForm::events, ": handover  0\n\n"));
  EXPECT_TRUE(so_far.any());
  EXPECT_EQ(so_far.going_on("{\"a\":1}", "x\"\\\ny"),
            "{\"handover\":{\"ticket\":\"xy\",\"choices\":[{\"tokens\":[],\"told_bytes\":0}]},\"a\":1}");
  EXPECT_EQ(so_far.going_on("[]", "x"), "");
}

}  // namespace
}  // namespace quire
