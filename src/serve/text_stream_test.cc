// What the client is told must depend on the tokens alone: any split into takes gives the same text and tokens.
#include "serve/text_stream.h"

#include "base/rng.h"
#include "serve/stop_rule.h"
#include "serve/testing.h"

namespace quire {
namespace {

struct Heard {
  std::string text;
  std::vector<Token> tokens;
  std::vector<int64_t> offsets;
  bool stopped = false;
  bool operator==(const Heard&) const = default;
};

std::shared_ptr<const StopStrings> stops(const std::vector<std::string>& list) {
  return list.empty() ? nullptr : std::make_shared<const StopStrings>(*StopStrings::compile(list));
}

// Takes after each token for which `take(i)` holds, and at the end.
template <class F>
Heard run(const Tokenizer& t, const TextStreamOptions& options, const std::vector<Token>& ids, F take) {
  TextStream stream(t, options);
  Heard out;
  const auto listen = [&] {
    TextPiece d;
    if (!stream.take(d)) return;
    EXPECT_EQ(to_valid_utf8(d.text), d.text);
    out.text += d.text;
    for (const TokenText& token : d.tokens) {
      out.tokens.push_back(token.id);
      out.offsets.push_back(token.text_at);
    }
  };
  for (size_t i = 0; i < ids.size() && !stream.stopped(); ++i) {
    TokenEvent e;
    e.id = ids[i];
    stream.push(e);
    if (take(i)) listen();
  }
  stream.finish();
  listen();
  out.stopped = stream.stopped();
  return out;
}

Heard whole(const Tokenizer& t, const TextStreamOptions& o, const std::vector<Token>& ids) {
  return run(t, o, ids, [](size_t) { return false; });
}

TEST(TextStream, CutsAtTheFirstCompleteStop) {
  const auto t = tiny_tokenizer();
  TextStreamOptions o;
  o.stops = stops({"END", "N"});  // "N" is complete before "END" is
  EXPECT_EQ(whole(*t, o, byte_tokens("one END two")).text, "one E");
  o.stops = stops({"END", "xEND"});  // complete at the same byte: the longest
  EXPECT_EQ(whole(*t, o, byte_tokens("one xEND two")).text, "one ");
  o.stops = stops({"END"});
  EXPECT_EQ(whole(*t, o, byte_tokens("EEND")).text, "E");
  EXPECT_FALSE(whole(*t, o, byte_tokens("no EN D")).stopped);
  EXPECT_EQ(whole(*t, o, byte_tokens("no EN")).text, "no EN");
}

TEST(TextStream, KeepsTheStopWhenAsked) {
  const auto t = tiny_tokenizer();
  TextStreamOptions o;
  o.stops = stops({"END"});
  o.include_stop = true;
  EXPECT_EQ(whole(*t, o, byte_tokens("one END two")).text, "one END");
}

TEST(TextStream, CutsInsideAToken) {
  const auto t = tiny_tokenizer();
  TextStreamOptions o;
  o.stops = stops({"b"});
  o.want_tokens = true;
  const Heard heard = whole(*t, o, {kFirstWord + 1, kFirstWord + 4, kFirstWord + 2});  // " the", "abc", " cat"
  EXPECT_EQ(heard.text, " thea");
  EXPECT_EQ(heard.tokens, (std::vector<Token>{kFirstWord + 1, kFirstWord + 4}));  // "abc" gave the "a"
}

TEST(TextStream, HoldsBackOnlyWhatMayBecomeAStop) {
  const auto t = tiny_tokenizer();
  TextStreamOptions o;
  o.stops = stops({"###"});
  TextStream stream(*t, o);
  TextPiece d;
  const auto after = [&](char c) {
    TokenEvent e;
    e.id = kFirstByte + c;
    stream.push(e);
    stream.take(d);
    return d.text;
  };
  EXPECT_EQ(after('a'), "a");
  EXPECT_EQ(after('#'), "");
  EXPECT_EQ(after('#'), "");
  EXPECT_EQ(after('b'), "##b");
  EXPECT_EQ(after('#'), "");
  stream.finish();
  EXPECT_TRUE(stream.take(d));
  EXPECT_EQ(d.text, "#");
  EXPECT_FALSE(stream.take(d));
}

TEST(TextStream, NeverSplitsACodePoint) {
  const auto t = tiny_tokenizer();
  const std::string text = "a\u00e9\u4e2d\U0001F600z";
  EXPECT_EQ(run(*t, {}, byte_tokens(text), [](size_t) { return true; }).text, text);
  EXPECT_EQ(whole(*t, {}, byte_tokens("\xf0\x9f\x98")).text, "\ufffd");
}

TEST(TextStream, TokensWithoutTextAndUnknownIdsHaveNone) {
  const auto t = tiny_tokenizer();
  TextStreamOptions o;
  o.want_tokens = true;
  const Heard heard = whole(*t, o, {1, kFirstByte + 'a', 100'000, kFirstByte + 'b'});
  EXPECT_EQ(heard.text, "ab");
  EXPECT_EQ(heard.tokens.size(), 4u);
  EXPECT_EQ(heard.offsets, (std::vector<int64_t>{0, 0, 1, 1}));
  o.show_special = true;
  EXPECT_EQ(whole(*t, o, {1, kFirstByte + 'a'}).text, "<s>a");
}

TEST(TextStream, BeginsBehindAnEcho) {
  const auto t = tiny_tokenizer();
  TextStreamOptions o;
  o.stops = stops({"x"});
  o.want_tokens = true;
  TextStream stream(*t, o);
  stream.begin_behind(2);
  TokenEvent e;
  e.id = kFirstByte + 'a';
  stream.push(e);
  TextPiece d;
  ASSERT_TRUE(stream.take(d));
  EXPECT_EQ(d.text, "a");
  EXPECT_EQ(d.tokens[0].text_at, 2);
  EXPECT_FALSE(stream.stopped());
}

// Random tokens over a small alphabet, random stops, random splits.
TEST(TextStream, AnySplitGivesTheSame) {
  const auto t = tiny_tokenizer();
  const std::vector<Token> alphabet = {kFirstByte + 'a',
                                       kFirstByte + 'b',
                                       kFirstWord + 4,
                                       kFirstWord + 5,
                                       kFirstByte + 'c',
                                       kFirstByte + 0xc3,
                                       kFirstByte + 0xa9,
                                       kFirstByte + 0xf0,
                                       kFirstByte + 0x9f,
                                       kFirstWord,
                                       1};
  int n_stopped = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    std::vector<Token> ids;
    const auto pick = [&](auto& from) {
      return from[static_cast<size_t>(rng.between(0, static_cast<int64_t>(from.size()) - 1))];
    };
    for (int64_t i = rng.between(0, 30); i > 0; --i) ids.push_back(pick(alphabet));
    const std::vector<std::string> words = {"abab", "bc", "ca", "\u00e9a", "b\ufffd", " a", "cc", "aaa"};
    std::vector<std::string> list;
    for (int64_t i = rng.between(0, 3); i > 0; --i) list.push_back(pick(words));
    TextStreamOptions o;
    o.stops = stops(list);
    o.include_stop = rng.between(0, 3) == 0;
    o.want_tokens = true;
    const Heard all = whole(*t, o, ids);
    n_stopped += all.stopped ? 1 : 0;
    ASSERT_EQ(run(*t, o, ids, [](size_t) { return true; }), all) << "seed " << seed;
    ASSERT_EQ(run(*t, o, ids, [&](size_t) { return rng.between(0, 2) == 0; }), all) << "seed " << seed;
    for (const std::string& stop : list)
      if (!o.include_stop) {
        ASSERT_EQ(all.text.find(stop), std::string::npos) << "seed " << seed;
      }
  }
  EXPECT_GT(n_stopped, 500);
}

// The rule that the engine steps ends a sequence with the token at which the text is cut.
TEST(StopRule, EndsWithTheTokenThatCutsTheText) {
  const auto t = tiny_tokenizer();
  const auto matcher = stops({"abca", "\u00e9"});
  const std::vector<Token> ids = {kFirstWord + 5, kFirstByte + 'c', kFirstByte + 'c', kFirstByte + 0xc3,
                                  kFirstByte + 0xa9};
  const auto rule = make_stop_rule(matcher, *t, false, 0);
  std::vector<bool> ends;
  ends.reserve(ids.size());
  for (const Token id : ids) ends.push_back(rule->accept(id));
  EXPECT_EQ(ends, (std::vector<bool>{false, false, false, false, true}));
  rule->rollback(4);                    // only "ab" is left
  EXPECT_FALSE(rule->accept(100'000));  // unknown: no text
  EXPECT_FALSE(rule->accept(kFirstByte + 'c'));
  EXPECT_TRUE(rule->accept(kFirstByte + 'a'));
}

}  // namespace
}  // namespace quire
