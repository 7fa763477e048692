#include "text/token_bridge.h"

#include <gtest/gtest.h>

#include <random>

#include "text/encode_behind.h"
#include "text/test_support.h"
#include "text/utf8.h"

namespace quire {
namespace {

constexpr std::string_view kProse =
    "Once upon a time, in a small village by the sea, there lived a fisherman's daughter who couldn't swim. Every "
    "morning "
    "(at 5:30, or 06:15 on Sundays) she'd sit on the pier and count 1234567 waves.\n\n  \"Why don't you learn?\" asked "
    "the old man.\n\tfor (int i = 0; i < 100; ++i) { sum += values[i] * 3.14159; }\n\nLe garçon déjeuna à l'hôtel; "
    "Straße, Übermut. Съешь же ещё этих мягких французских булок. 吾輩は猫である。名前はまだ無い。"
    "🙂👩‍👩‍👧‍👦🇩🇪 ok!   \n    trailing words and https://example.org/a?b=c&d=%20 and then the "
    "end "
    "of "
    "the "
    "story";

std::string bytes_of(const Tokenizer& tokenizer, std::span<const Token> ids) {
  std::string out;
  for (const Token id : ids) tokenizer.append_bytes(id, false, out);
  return out;
}

std::unique_ptr<TokenBridge> bridge_of(const Tokenizer& target, const Tokenizer& draft) {
  auto made = TokenBridge::make({&target, target.n_vocab()}, {&draft, draft.n_vocab()});
  QR_CHECK(made.has_value(), made ? "" : made.error().message);
  return std::move(*made);
}

// A vocabulary of `first`, every byte and an end token. Bytes are written as GPT-2 writes them.
TokenizerSpec byte_spec(const std::vector<std::string>& first, const std::vector<std::string>& merges = {}) {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  spec.tokens = first;
  spec.merges = merges;
  int n_others = 0;
  for (int b = 0; b < 256; ++b) {
    const bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    append_utf8(spec.tokens.emplace_back(), static_cast<char32_t>(plain ? b : 256 + n_others++));
  }
  spec.types.assign(spec.tokens.size(), TokenType::normal);
  spec.tokens.emplace_back("<|end|>");
  spec.types.push_back(TokenType::control);
  spec.eos = static_cast<Token>(spec.tokens.size()) - 1;
  return spec;
}

std::unique_ptr<Tokenizer> tokenizer_of(TokenizerSpec spec) {
  auto made = make_tokenizer(std::move(spec));
  QR_CHECK(made.has_value(), made ? "" : made.error().message);
  return std::move(*made);
}

std::vector<std::filesystem::path> vocabularies() {
  std::vector<std::filesystem::path> out;
  for (const char* name : {"llama-spm", "qwen2", "phi-3", "gpt-2", "falcon", "deepseek-llm", "llama-bpe", "starcoder"})
    out.push_back(shared_dir() / "tokenizers" / "gguf-vocab" / ("ggml-vocab-" + std::string(name) + ".gguf"));
  return out;
}

constexpr size_t kAll = size_t{1} << 24;

// Takes in `tokens`, so many at once, and looks after each time at what must hold whatever the text is.
struct Walk {
  const TokenBridge& bridge;
  BridgedText text;
  std::vector<Token> before;  // ids at the last mark
  size_t n_again = 0;         // ids that became others

  // `gives_back`: the draft has a token for every byte, and the ids are to say the whole text.
  void take(std::span<const Token> context, bool gives_back) {
    const auto n_settled = static_cast<std::ptrdiff_t>(text.n_settled());
    const std::vector<Token> settled(text.ids().begin(), text.ids().begin() + n_settled);
    ASSERT_TRUE(text.take(bridge, context, 0, kAll));
    const std::span<const Token> ids = text.ids();
    ASSERT_TRUE(std::ranges::equal(settled, ids.first(settled.size()))) << "what is settled has changed";
    ASSERT_GE(text.n_same(), settled.size());
    ASSERT_LE(text.n_same(), std::min(before.size(), ids.size()));
    ASSERT_TRUE(std::ranges::equal(std::span(before).first(text.n_same()), ids.first(text.n_same())));
    n_again += before.size() - text.n_same();
    before.assign(ids.begin(), ids.end());
    text.mark();
    if (!gives_back) return;
    const std::string want = said(bridge.target(), context);
    const std::string got = said(bridge.draft(), ids.subspan(bridge.draft_bos() >= 0 ? 1 : 0));
    ASSERT_TRUE(want.starts_with(got)) << got << "\nis no beginning of\n" << want;
    ASSERT_LT(want.size() - got.size(), 4) << "more is held back than a code point";
  }

  static std::string said(const Tokenizer& tokenizer, std::span<const Token> ids) {
    std::string out = bytes_of(tokenizer, ids);
    return tokenizer.strips_leading_space() && out.starts_with(' ') ? out.substr(1) : out;
  }
};

TEST(WholeCodePoints, HoldsBackOnlyWhatMayBecomeOne) {
  const std::string text = "a\xC3\xA9\xF0\x9F\x98\x80";
  for (const auto& [n, whole] :
       std::vector<std::pair<size_t, size_t>>{{1, 1}, {2, 1}, {3, 3}, {4, 3}, {5, 3}, {6, 3}, {7, 7}})
    EXPECT_EQ(whole_code_points(std::string_view(text).substr(0, n)).size(), whole) << n;
  for (const std::string_view never : {"\x80", "a\xFF", "\xC3\xA9\xA9", "\xE0\x80", "\xF5\x80\x80", "\xED\xA0"})
    EXPECT_EQ(whole_code_points(never), never);
  EXPECT_EQ(whole_code_points(""), "");
}

// Two real vocabularies, a text in many scripts, a token at a time and in pieces: at every step the ids say the text,
// and in the end they are those that the draft's tokenizer makes of it in one go.
TEST(TokenBridge, CutsTextAsTheDraftDoesWhateverTheTarget) {
  const auto paths = vocabularies();
  QR_NEED_FILE(paths[0]);
  std::vector<std::unique_ptr<Tokenizer>> all;
  all.reserve(paths.size() + 1);
  for (const auto& path : paths) all.push_back(load_gguf_tokenizer(path));
  std::string text;
  for (int i = 0; i < 4; ++i) text += kProse;
  for (size_t t = 0; t < all.size(); ++t) {
    const std::vector<Token> context = encode(*all[t], text);
    for (const size_t step : {1, 2, 3}) {
      const Tokenizer& draft = *all[(t + step * step) % all.size()];
      SCOPED_TRACE(paths[t].string() + " → " + paths[(t + step * step) % all.size()].string());
      const auto bridge = bridge_of(*all[t], draft);
      EXPECT_FALSE(bridge->by_id());
      Walk walk{*bridge, {}, {}};
      for (size_t n = 0; n < context.size();) {
        n = std::min(n + (step == 3 ? 37 : 1), context.size());
        walk.take(std::span(context).first(n), true);
        if (HasFatalFailure()) return;
      }
      const std::vector<Token> want = encode(draft, text, {.add_special = true});
      EXPECT_TRUE(std::ranges::equal(walk.text.ids(), want));
      if (step != 3) {
        EXPECT_LT(walk.n_again, 2 * want.size()) << "ids become others too often";
      }
    }
  }
}

// The way back: what the draft goes on with is what the target would have written, as far as it is whole.
TEST(TokenBridge, GuessesAreTheTargetsOwnTokens) {
  const auto paths = vocabularies();
  QR_NEED_FILE(paths[0]);
  std::vector<std::unique_ptr<Tokenizer>> all;
  all.reserve(paths.size() + 1);
  for (const auto& path : paths) all.push_back(load_gguf_tokenizer(path));
  const std::string text(kProse);
  for (size_t t = 0; t < all.size(); ++t) {
    const Tokenizer &target = *all[t], &draft = *all[(t + 1) % all.size()];
    SCOPED_TRACE(paths[t].string());
    const auto bridge = bridge_of(target, draft);
    const std::vector<Token> truth = encode(target, text);
    BridgedText at;
    int n_guessed = 0, n_right = 0;
    for (size_t n = 1; n + 12 < truth.size(); ++n) {
      ASSERT_TRUE(at.take(*bridge, std::span(truth).first(n), 0, kAll));
      // A draft that is always right writes the rest as its tokenizer cuts it.
      std::string rest = bytes_of(target, std::span(truth).subspan(n, 12));
      const std::string known = bytes_of(target, std::span(truth).first(n));
      rest.insert(0, known.substr(whole_code_points(known).size()));
      const auto said = encode_behind(draft, "", whole_code_points(rest));
      const std::vector<Token> its = said ? *said : encode(draft, whole_code_points(rest));
      std::vector<Token> guessed;
      EXPECT_TRUE(at.answer(*bridge, std::span(truth).first(n), std::span(its).first(std::min<size_t>(its.size(), 5)),
                            guessed));
      size_t n_same = 0;
      while (n_same < guessed.size() && n + n_same < truth.size() && guessed[n_same] == truth[n + n_same]) ++n_same;
      n_guessed += static_cast<int>(guessed.size());
      n_right += static_cast<int>(n_same);
    }
    EXPECT_GT(n_guessed, 300);
    EXPECT_GT(n_right * 10, n_guessed * 8) << n_right << " of " << n_guessed;
  }
}

// Random bytes, random ids, control tokens, in random pieces; guesses of random ids. Nothing is asked but what always
// holds.
TEST(TokenBridge, HoldsForRandomTokens) {
  const auto paths = vocabularies();
  QR_NEED_FILE(paths[0]);
  std::mt19937 random(11);
  std::vector<std::unique_ptr<Tokenizer>> all;
  all.reserve(paths.size() + 1);
  for (const auto& path : paths) all.push_back(load_gguf_tokenizer(path));
  all.push_back(tokenizer_of(byte_spec({})));
  for (size_t t = 0; t < all.size(); ++t) {
    const Tokenizer &target = *all[t], &draft = *all[(t + 2) % all.size()];
    SCOPED_TRACE(std::to_string(t));
    const auto bridge = bridge_of(target, draft);
    for (int round = 0; round < 12; ++round) {
      std::vector<Token> context;
      if (round % 3 == 0) {
        for (int i = 0; i < 300; ++i)
          context.push_back(static_cast<Token>(random() % static_cast<size_t>(target.n_vocab())));
      } else {
        std::string text;
        for (int i = 0; i < 900; ++i)
          text.push_back(static_cast<char>(round % 3 == 1 ? random() : "ab \n\xC3\xA9"[random() % 6]));
        context = encode(target, text);
        for (int i = 0; i < 4; ++i) context[random() % context.size()] = std::max(target.spec().eos, 0);
      }
      Walk walk{*bridge, {}, {}};
      for (size_t n = 0; n < context.size();) {
        n = std::min(n + 1 + random() % 40, context.size());
        walk.take(std::span(context).first(n), false);
        if (HasFatalFailure()) return;
        std::vector<Token> said, guessed;
        for (int i = 0; i < 5; ++i) said.push_back(static_cast<Token>(random() % static_cast<size_t>(draft.n_vocab())));
        walk.text.answer(*bridge, std::span(context).first(n), said, guessed);
        for (const Token id : guessed) ASSERT_TRUE(id >= 0 && id < target.n_vocab());
      }
    }
  }
}

// Encodes as `inner` and remembers the longest text that it was given.
class Watched final : public Tokenizer {
 public:
  explicit Watched(const Tokenizer& inner) : Tokenizer(inner.spec()), inner_(inner) {}
  Status encode(std::string_view text, EncodeOptions options, std::vector<Token>& out) const override {
    longest = std::max(longest, text.size());
    total += text.size();
    return inner_.encode(text, options, out);
  }
  void append_bytes(Token id, bool special, std::string& out) const override { inner_.append_bytes(id, special, out); }
  std::string decode(std::span<const Token> ids, bool special) const override { return inner_.decode(ids, special); }
  bool strips_leading_space() const override { return inner_.strips_leading_space(); }
  mutable size_t longest = 0, total = 0;

 private:
  const Tokenizer& inner_;
};

// A draft that makes one token of nearly everything: nowhere do two tokenizers agree on a boundary.
TEST(TokenBridge, WorkForATokenDoesNotGrowWithTheText) {
  std::vector<std::string> tokens, merges;
  for (std::string run = "a"; run.size() < 4096; run += run) {
    merges.push_back(run + " " + run);
    tokens.push_back(run + run);
  }
  const auto target = tokenizer_of(byte_spec({})), merging = tokenizer_of(byte_spec(tokens, merges));
  const Watched draft(*merging);
  const auto bridge = bridge_of(*target, draft);
  ASSERT_FALSE(bridge->by_id());
  for (const char* word : {"a", "aaaaaaa ", "ab", " ", "\x80", "\xFF", "a\x80\x80\x80\x80"}) {
    SCOPED_TRACE(word);
    std::string text;
    while (text.size() < 20000) text += word;
    const std::vector<Token> context = encode(*target, text);
    Walk walk{*bridge, {}, {}};
    draft.longest = draft.total = 0;
    for (size_t n = 1; n <= context.size(); ++n) {
      ASSERT_TRUE(walk.text.take(*bridge, std::span(context).first(n), 0, kAll));
    }
    EXPECT_LT(draft.longest, 600);
    EXPECT_LT(draft.total, context.size() * 1500);
    EXPECT_EQ(bytes_of(draft, walk.text.ids()), text);
  }
}

TEST(TokenBridge, ALongPromptComesInSeveralSteps) {
  const auto target = tokenizer_of(byte_spec({})), draft = tokenizer_of(byte_spec({"ab"}, {"a b"}));
  const auto bridge = bridge_of(*target, *draft);
  constexpr size_t kAtOnce = 1000;
  std::string text;
  while (text.size() < 2 * kAtOnce + 10) text += "abba ";
  const std::vector<Token> context = encode(*target, text);
  BridgedText at;
  EXPECT_FALSE(at.take(*bridge, context, 20, kAtOnce));
  const size_t n_public = at.n_public();
  EXPECT_FALSE(at.take(*bridge, context, 20, kAtOnce));
  EXPECT_TRUE(at.take(*bridge, context, 20, kAtOnce));
  EXPECT_TRUE(std::ranges::equal(at.ids(), encode(*draft, text)));
  EXPECT_EQ(at.n_public(), n_public);
  EXPECT_LE(bytes_of(*draft, at.ids().first(n_public)).size(), 20);
}

TEST(TokenBridge, ControlTokensGoOverByTextOrByWhatTheyAreFor) {
  TokenizerSpec ours = byte_spec({}), its = byte_spec({"ab"}, {"a b"});
  const auto control = [](TokenizerSpec& spec, const char* text) {
    spec.tokens.emplace_back(text);
    spec.types.push_back(TokenType::control);
    return static_cast<Token>(spec.tokens.size()) - 1;
  };
  const Token turn = control(ours, "<turn>"), own = control(ours, "<own>");
  const Token begin = control(its, "<s>"), its_turn = control(its, "<turn>");
  ours.tokens[256] = "</s>";  // the end has another text
  its.bos = begin;
  its.add_bos = true;
  const auto target = tokenizer_of(ours), draft = tokenizer_of(its);
  const auto bridge = bridge_of(*target, *draft);
  EXPECT_EQ(bridge->draft_bos(), begin);
  EXPECT_EQ(bridge->to_draft(turn), its_turn);
  EXPECT_EQ(bridge->to_draft(256), its.eos);
  EXPECT_EQ(bridge->to_target(its.eos), 256);
  EXPECT_EQ(bridge->to_draft(own), -1);
  EXPECT_EQ(bridge->to_target(begin), -1);

  BridgedText at;
  std::vector<Token> real = {turn};
  for (const Token id : encode(*target, "ab")) real.push_back(id);
  real.push_back(own);
  real.push_back(turn);
  ASSERT_TRUE(at.take(*bridge, real, 0, kAll));
  std::vector<Token> want = {begin, its_turn};
  for (const Token id : encode(*draft, "ab<own>")) want.push_back(id);
  want.push_back(its_turn);
  EXPECT_TRUE(std::ranges::equal(at.ids(), want));
  EXPECT_EQ(at.n_settled(), want.size());

  std::vector<Token> guessed, said = encode(*draft, "abc");
  EXPECT_TRUE(at.answer(*bridge, real, said, guessed));
  EXPECT_EQ(guessed, encode(*target, "abc"));
  said.push_back(its.eos);
  EXPECT_FALSE(at.answer(*bridge, real, said, guessed)) << "nothing comes behind an end";
  EXPECT_EQ(guessed.back(), 256);
  said.back() = begin;
  EXPECT_FALSE(at.answer(*bridge, real, said, guessed)) << "the target has no such token";
  EXPECT_EQ(guessed, encode(*target, "abc"));
}

// A text begins with what each of the two begins texts with: a token of its own, a mark of turns, nothing.
TEST(TokenBridge, TextsBeginAsTheDraftBeginsThem) {
  TokenizerSpec begins = byte_spec({"ab"}, {"a b"}), turns = byte_spec({}),
                plain = byte_spec({"bc", "ef"}, {"b c", "e f"});
  begins.bos = begins.eos;
  begins.add_bos = true;
  turns.tokens.back() = "<turn>";
  turns.bos = turns.eos;
  TokenizerSpec more_turns = byte_spec({"cd"}, {"c d"});
  more_turns.tokens.back() = "<turn>";
  more_turns.bos = more_turns.eos;
  const auto first = [](const TokenizerSpec& ours, const TokenizerSpec& its) {
    const auto target = tokenizer_of(ours), draft = tokenizer_of(its);
    const auto bridge = bridge_of(*target, *draft);
    std::vector<Token> context = encode(*target, "abcd");
    if (ours.bos >= 0) context.insert(context.begin(), ours.bos);
    BridgedText at;
    EXPECT_TRUE(at.take(*bridge, context, 0, kAll));
    const size_t n_text = encode(*draft, "abcd").size();
    return std::vector<Token>(at.ids().begin(), at.ids().end() - static_cast<std::ptrdiff_t>(n_text));
  };
  EXPECT_EQ(first(turns, begins), (std::vector<Token>{begins.bos}));
  EXPECT_EQ(first(plain, begins), (std::vector<Token>{begins.bos}));
  EXPECT_EQ(first(begins, plain), (std::vector<Token>{plain.eos})) << "the same text";
  EXPECT_EQ(first(turns, plain), (std::vector<Token>{plain.eos})) << "it ends texts, too";
  begins.eos = -1;
  EXPECT_EQ(first(begins, byte_spec({"cd"}, {"c d"})), (std::vector<Token>{257})) << "the same text";
  begins.tokens.back() = "<begin>";
  EXPECT_EQ(first(begins, plain), std::vector<Token>{}) << "the draft begins with nothing";
  EXPECT_EQ(first(turns, more_turns), (std::vector<Token>{more_turns.bos})) << "it is a mark, added or not";
}

TEST(TokenBridge, ACodePointThatHasBegunIsHeldBack) {
  const auto target = tokenizer_of(byte_spec({})), draft = tokenizer_of(byte_spec({"ab"}, {"a b"}));
  const auto bridge = bridge_of(*target, *draft);
  const std::vector<Token> context = encode(*target, "ab\xF0\x9F\x98\x80");
  BridgedText at;
  std::vector<Token> guessed;
  ASSERT_TRUE(at.take(*bridge, std::span(context).first(4), 0, kAll));
  EXPECT_TRUE(std::ranges::equal(at.ids(), encode(*draft, "ab"))) << "two bytes of four";
  const std::vector<Token> said = encode(*draft, "\xF0\x9F\x98\x80!");
  for (size_t n = 1; n <= said.size(); ++n) {
    EXPECT_TRUE(at.answer(*bridge, std::span(context).first(4), std::span(said).first(n), guessed));
    EXPECT_EQ(guessed.empty(), n < 4) << n;
  }
  EXPECT_EQ(guessed, encode(*target, "\x98\x80!"));
  EXPECT_FALSE(at.answer(*bridge, std::span(context).first(4), encode(*draft, "no"), guessed)) << "another one";
  EXPECT_TRUE(guessed.empty());
}

// The same tokenizer, of which one has more tokens, and one another.
TEST(TokenBridge, NearlyTheSameTokensGoOverById) {
  std::vector<std::string> more(60);
  for (size_t i = 0; i < more.size(); ++i) more[i] = "w" + std::to_string(i);
  TokenizerSpec ours = byte_spec(more), its = byte_spec(more);
  its.tokens[300] = "other";
  ours.tokens.emplace_back("<tool>");
  ours.types.push_back(TokenType::control);
  const auto target = tokenizer_of(ours), draft = tokenizer_of(its);
  auto made = TokenBridge::make({target.get(), target->n_vocab() + 7}, {draft.get(), draft->n_vocab() + 100});
  ASSERT_TRUE(made);
  const TokenBridge& bridge = **made;
  ASSERT_TRUE(bridge.by_id());
  const std::vector<Token> context = {3, 300, 299, static_cast<Token>(ours.tokens.size()) - 1, target->n_vocab() + 6,
                                      5};
  BridgedText at;
  ASSERT_TRUE(at.take(bridge, context, 2, kAll));
  ASSERT_EQ(at.ids().size(), context.size());
  for (size_t i = 0; i < context.size(); ++i) {
    EXPECT_TRUE(at.ids()[i] >= 0 && at.ids()[i] < draft->n_vocab());
    if (i == 0 || i == 2 || i == 5) {
      EXPECT_EQ(at.ids()[i], context[i]);
    }
  }
  EXPECT_EQ(at.n_settled(), context.size());
  EXPECT_EQ(at.n_public(), 2);
  std::vector<Token> guessed;
  EXPECT_TRUE(at.answer(bridge, context, std::vector<Token>{7, 8}, guessed));
  EXPECT_EQ(guessed, (std::vector<Token>{7, 8}));
  for (const Token unknown : {Token{300}, Token{draft->n_vocab() + 50}}) {
    EXPECT_FALSE(at.answer(bridge, context, std::vector<Token>{7, unknown, 8}, guessed));
    EXPECT_EQ(guessed, (std::vector<Token>{7}));
  }
}

// A quarter of one's tokens the other has not: by id it could neither read nor say these.
TEST(TokenBridge, ALongerVocabularyGoesOverByText) {
  std::vector<std::string> more(80);
  for (size_t i = 0; i < more.size(); ++i) more[i] = "w" + std::to_string(i);
  const auto shorter = tokenizer_of(byte_spec({})), longer = tokenizer_of(byte_spec(more));
  EXPECT_FALSE(bridge_of(*shorter, *longer)->by_id());
  EXPECT_FALSE(bridge_of(*longer, *shorter)->by_id());
}

TEST(TokenBridge, ADraftHasAllTokensOfItsTokenizer) {
  const auto target = tokenizer_of(byte_spec({})), draft = tokenizer_of(byte_spec({"ab"}, {"a b"}));
  const auto made = TokenBridge::make({target.get(), target->n_vocab() - 1}, {draft.get(), draft->n_vocab() - 1});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "the draft's tokenizer has " + std::to_string(draft->n_vocab()) +
                                      " tokens, its embedding only " + std::to_string(draft->n_vocab() - 1));
}

TEST(TokenBridge, TokensWithoutTextAreRefused) {
  TokenizerSpec spec = byte_spec({});
  const auto whole = tokenizer_of(spec);
  std::ranges::fill(spec.types, TokenType::control);
  const auto silent = tokenizer_of(spec);
  const auto made = TokenBridge::make({whole.get(), 257}, {silent.get(), 257});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "no token of the draft's tokenizer has text");
}

// Nearly: one word is all that it can say, and what it says of other text is another text.
TEST(TokenBridge, ADraftWithHardlyAnyTextGuessesLittleAndHarmsNothing) {
  TokenizerSpec spec = byte_spec({});
  for (size_t i = 0; i < spec.types.size(); ++i) {
    if (i != 'a') spec.types[i] = TokenType::control;
  }
  spec.tokens.insert(spec.tokens.begin(), "<none>");
  spec.types.insert(spec.types.begin(), TokenType::control);
  const auto target = tokenizer_of(byte_spec({"xy"}, {"x y"})), draft = tokenizer_of(spec);
  const auto bridge = bridge_of(*target, *draft);
  EXPECT_FALSE(bridge->by_id());
  const std::vector<Token> context = encode(*target, kProse);
  Walk walk{*bridge, {}, {}};
  for (size_t n = 1; n <= context.size(); ++n) {
    walk.take(std::span(context).first(n), false);
    if (HasFatalFailure()) return;
    std::vector<Token> guessed;
    walk.text.answer(*bridge, std::span(context).first(n), std::vector<Token>{'a' + 1, 'b' + 1, 'a' + 1}, guessed);
    EXPECT_LE(guessed.size(), 1);
  }
}

}  // namespace
}  // namespace quire
