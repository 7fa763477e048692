#include "text/parse/answer_parts.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(AnswerParts, JoinsWhatMeetsAndKeepsTheOrder) {
  AnswerParts parts;
  parts.add(PartKind::reasoning, "a");
  parts.add(PartKind::reasoning, "");
  parts.add(PartKind::reasoning, "b");
  parts.add(PartKind::text, "c");
  AnswerParts more;
  more.add(PartKind::text, "d");
  more.add(PartKind::reasoning, "e");
  parts.append(more);
  EXPECT_TRUE(more.empty());
  ASSERT_EQ(parts.end() - parts.begin(), 3);
  EXPECT_EQ(parts.begin()[0], (AnswerPart{PartKind::reasoning, "ab"}));
  EXPECT_EQ(parts.begin()[1], (AnswerPart{PartKind::text, "cd"}));
  EXPECT_EQ(parts.joined(PartKind::reasoning), "abe");
  EXPECT_EQ(parts.bytes(), 5);
  EXPECT_TRUE(parts.has(PartKind::text));
}

}  // namespace
}  // namespace quire
