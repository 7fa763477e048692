// What a grammar holds to gets the bits that it gets alone: beside others, in chunks, preempted, from the cache, with
// guesses of every kind, whatever else shapes it. And it is a text of the grammar.
#include <gtest/gtest.h>

#include "engine/test_model.h"
#include "engine/test_proposer.h"
#include "engine/test_schedules.h"
#include "sample/constraint.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"
#include "text/grammar/structural_tag.h"
#include "text/parse/call_arguments.h"
#include "text/parse/call_grammar.h"
#include "text/tokenizer.h"

namespace quire {
namespace {

constexpr int kCtx = 160, kRequests = 30;
constexpr Token kEnd = 0;

std::shared_ptr<const TokenTrie> vocabulary() {
  static const auto trie = [] {
    std::vector<std::string> texts = {"</s>", "{",   "}",   "\"", ":",   ",",  "[",     "]",  "a",   "b",
                                      "c",    "d",   " ",   "0",  "1",   "2",  "9",     "-",  ".",   "{\"",
                                      "\":",  "\",", "\"}", "ab", "ba",  "cd", "true",  "fa", "lse", "12",
                                      "\\",   "n",   "\n",  "]}", "a\"", "[1", "\": \""};
    texts.resize(kTestVocab);  // the rest has no text
    return std::make_shared<const TokenTrie>(std::move(texts), std::vector<Token>{kEnd}, size_t{kTestVocab});
  }();
  return trie;
}

// Cuts text into the longest tokens from the left.
class TestTokenizer final : public Tokenizer {
 public:
  TestTokenizer() : Tokenizer(TokenizerSpec{}) {}
  Status encode(std::string_view text, EncodeOptions, std::vector<Token>& out) const override {
    while (!text.empty()) {
      Token best = -1;
      for (Token id = 1; vocabulary()->known(id); ++id) {
        const std::string& bytes = vocabulary()->bytes(id);
        const bool fits = !bytes.empty() && text.starts_with(bytes);
        if (fits && (best < 0 || bytes.size() > vocabulary()->bytes(best).size())) best = id;
      }
      if (best < 0) return fail(Code::invalid, "no token begins so");
      out.push_back(best);
      text.remove_prefix(vocabulary()->bytes(best).size());
    }
    return {};
  }
  void append_bytes(Token id, bool, std::string& out) const override { out += vocabulary()->bytes(id); }
  std::string decode(std::span<const Token> ids, bool special) const override {
    std::string out;
    for (const Token id : ids) append_bytes(id, special, out);
    return out;
  }
  bool strips_leading_space() const override { return false; }
};

// Calls in letters that the vocabulary has: required, or in free text where a mark begins them.
Result<std::shared_ptr<const Grammar>> calls(bool required) {
  static constexpr CallForm kForm{
      .trigger = "[1", .lead = "[1", .between = ", ", .tail = "]", .name_key = "cd", .arguments_key = "d"};
  const Json schema = *Json::parse(R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["cd",true]}},
      "required":["b"],"additionalProperties":false})");
  const CallableTool tools[] = {{"ba", *obeying_arguments(kForm, schema)}, {"cd", any_arguments(kForm, {})}};
  return compile_structural_tag(call_tag(kForm, tools, {.required = required}), {}, {});
}

std::shared_ptr<const Constraint> constraint(int kind) {
  static const auto all = [] {
    std::vector<std::shared_ptr<const Constraint>> out;
    const auto add = [&](Result<std::shared_ptr<const Grammar>> made) {
      QR_CHECK(made.has_value(), made ? "" : made.error().message);
      out.push_back(std::make_shared<const Constraint>(Constraint{"", "regex", *made, vocabulary()}));
    };
    add(compile_json_object({}));
    add(compile_json_schema(R"({"type":"object","properties":{"a":{"type":"string","maxLength":9},"b":{"type":"array",
        "items":{"type":"integer"},"maxItems":3},"c":{"enum":[true,false,12]}},"required":["a","b","c"],
        "additionalProperties":false})",
                            {}, {}));
    add(compile_regex("(ab|cd){2,5}(1|2)*", {}));
    add(compile_regex("[a-d ]{5,60}", {}));
    add(compile_choice(std::vector<std::string>{"abba", "abcd", "a", "true"}, {}));
    add(calls(true));
    add(calls(false));
    return out;
  }();
  return all[static_cast<size_t>(kind) % all.size()];
}

Request request(int i) {
  Request r;
  r.prompt = random_tokens(static_cast<uint64_t>(i % 3), 1 + i * 7 % 60);
  r.max_tokens = 6 + i * 11 % 60;
  r.stop_ids = {kEnd};
  r.sampling.temperature = i % 3 == 0 ? 0.0F : 1.3F;
  r.sampling.seed = static_cast<uint64_t>(i) * 77;
  r.sampling.n_logprobs = i % 4 - 1;
  r.sampling.constraint = i % 6 == 5 ? nullptr : constraint(i % 6 + i / 6);
  if (i % 4 == 1) {
    r.sampling.repetition_penalty = 1.3F;
    r.sampling.frequency_penalty = 0.5F;
  }
  if (i % 5 == 2) r.sampling.dry_multiplier = 0.8F;
  if (i % 6 == 1) r.sampling.bad_words = {{8, 9}, {12, 12}};
  if (i % 6 == 2) r.sampling.min_tokens = 9;
  if (i % 7 == 4) r.sampling.top_p_decay = 0.9F;
  if (i % 7 == 5) r.sampling.logit_bias = {{static_cast<Token>(i % 9), 4.0F, 1.0F}};
  if (i % 7 == 6) r.stop_ids.push_back(13);
  return r;
}

const std::vector<ExpectedAnswer>& truth() {
  static const std::vector<ExpectedAnswer> kAnswers = [] {
    std::vector<ExpectedAnswer> out;
    for (int i = 0; i < kRequests; ++i) {
      Request r = request(i);
      r.max_tokens = std::min(r.max_tokens, kCtx - static_cast<int>(r.prompt.size()));
      out.push_back(alone(r, kCtx));
    }
    return out;
  }();
  return kAnswers;
}

// What the engine has counted when each has the answer that it has alone, twice.
EngineStats run_all(const EngineOptions& options, int n_blocks) {
  const auto proposer = options.max_draft == 0 || !options.proposer.empty()
                            ? nullptr
                            : std::make_shared<ScriptedProposer>(options.max_draft, kTestVocab, 7,
                                                                 [](SeqId id) -> std::span<const Token> {
                                                                   return truth()[(id - 1) % kRequests].tokens;
                                                                 });
  static const TestTokenizer tokenizer;
  TestEngine t(options, TestSetup{.n_blocks = n_blocks, .proposer = proposer, .tokenizer = &tokenizer});
  for (int round = 0; round < 2; ++round) {  // the second time the prompts are in the cache
    std::vector<std::shared_ptr<Heard>> sinks;
    for (int i = 0; i < kRequests; ++i) sinks.push_back(t.submit(request(i)));
    EXPECT_EQ(t.run(), "");
    for (size_t i = 0; i < sinks.size(); ++i)
      EXPECT_EQ(sinks[i]->answer, truth()[i]) << "request " << i << " " << sinks[i]->error;
  }
  EXPECT_EQ(t.engine->snapshot().n_held_blocks, 0);
  return t.engine->stats();
}

TEST(InvarianceConstraints, AsAloneUnderEverySchedule) {
  for (size_t s = 0; s < kTestSchedules.size(); ++s) {
    for (const int max_draft : {0, 1, 5}) {
      SCOPED_TRACE("schedule " + std::to_string(s) + " draft " + std::to_string(max_draft));
      EngineOptions options = kTestSchedules[s].options(kCtx);
      options.max_draft = max_draft;
      options.max_side = ScriptedProposer::kSide;
      run_all(options, kTestSchedules[s].n_blocks);
    }
  }
}

// Of what is forced, by itself and before n-grams, as long as may be and as it pays.
TEST(InvarianceConstraints, ForcedTextAsGuessesChangesNoBit) {
  for (size_t s = 0; s < kTestSchedules.size(); ++s) {
    for (const char* proposer : {"grammar", "grammar,ngram"}) {
      for (const int max_draft : {1, 5, 0}) {
        SCOPED_TRACE("schedule " + std::to_string(s) + " " + proposer + " draft " + std::to_string(max_draft));
        EngineOptions options = kTestSchedules[s].options(kCtx);
        options.proposer = proposer;
        options.max_draft = max_draft;
        options.adapt_draft = max_draft == 0;
        options.draft_rows = s % 2 == 0 ? 0 : 3;
        const EngineStats stats = run_all(options, kTestSchedules[s].n_blocks);
        EXPECT_EQ(stats.n_bad_drafts, 0);
        const auto& [forced, repeated, third, fourth] = stats.drafted_by;
        // As it pays: by what steps took, perhaps never.
        EXPECT_TRUE(forced.n_accepted > 0 || options.adapt_draft);
        EXPECT_LE(forced.n_accepted, forced.n_drafted);
        EXPECT_TRUE(repeated.n_drafts == 0 || proposer != std::string("grammar"));
        EXPECT_EQ(stats.n_drafts, forced.n_drafts + repeated.n_drafts);
        EXPECT_EQ(third.n_drafts + fourth.n_drafts, 0);
      }
    }
  }
}

TEST(InvarianceConstraints, EveryAnswerIsATextOfItsGrammar) {
  int n_whole = 0, n_cut = 0;
  for (int i = 0; i < kRequests; ++i) {
    const Request r = request(i);
    const ExpectedAnswer& answer = truth()[static_cast<size_t>(i)];
    EXPECT_NE(answer.finish, Finish::error) << i;
    if (r.sampling.constraint == nullptr) continue;
    Matcher matcher(r.sampling.constraint->grammar, vocabulary());
    for (const Token id : answer.tokens) EXPECT_TRUE(matcher.accept(id)) << "request " << i;
    EXPECT_TRUE(answer.finish == Finish::length || matcher.may_end()) << "request " << i;
    ++(answer.finish == Finish::stop ? n_whole : n_cut);
  }
  EXPECT_GT(n_whole, 5);
  EXPECT_GT(n_cut, 1) << "max_tokens cuts some";
}

// A grammar that the vocabulary cannot write, one that another rule leaves nothing of.
TEST(InvarianceConstraints, ADeadEndIsItsRequestsError) {
  TestEngine t(kTestSchedules[0].options(kCtx));
  const auto usual = t.submit(request(3));
  Request lacking = request(0);
  auto grammar = compile_regex("aaz", {});
  ASSERT_TRUE(grammar);
  lacking.sampling.constraint =
      std::make_shared<const Constraint>(Constraint{"", "guided_regex", *grammar, vocabulary()});
  const auto dead = t.submit(std::move(lacking));
  Request forbidden = request(0);
  forbidden.sampling.bad_words = {{1}, {19}};
  forbidden.sampling.constraint = constraint(0);
  const auto nothing = t.submit(std::move(forbidden));
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(usual->answer, truth()[3]);
  EXPECT_EQ(dead->answer.finish, Finish::error);
  EXPECT_EQ(dead->answer.tokens, (std::vector<Token>{8, 8}));
  EXPECT_EQ(
      dead->error,
      "the request's own rules end the answer: guided_regex: nothing may follow: the vocabulary lacks what the grammar "
      "wants, or it is a stop id");
  EXPECT_EQ(nothing->answer.finish, Finish::error);
  EXPECT_NE(nothing->error.find("everything is forbidden by regex, bad_words"), std::string::npos) << nothing->error;
}

}  // namespace
}  // namespace quire
