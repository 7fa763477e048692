// Masks of several grammars are made on several threads at a time: everybody gets what he gets alone, and a grammar
// behind which nothing may follow is its own request's end.
#include <gtest/gtest.h>

#include "engine/test_model.h"
#include "sample/constraint.h"
#include "text/grammar/regex_grammar.h"

namespace quire {
namespace {

constexpr int kCtx = 100, kRequests = 12;
constexpr Token kEnd = 0;

// Every token but the end is a letter; there is no digit.
std::shared_ptr<const TokenTrie> letters() {
  std::vector<std::string> texts = {"</s>"};
  for (int i = 1; i < kTestVocab; ++i) texts.emplace_back(1, static_cast<char>('A' + i));
  return std::make_shared<const TokenTrie>(std::move(texts), std::vector<Token>{kEnd}, size_t{kTestVocab});
}

std::shared_ptr<const Constraint> constraint(const std::string& regex) {
  static const std::shared_ptr<const TokenTrie> kVocabulary = letters();
  auto made = compile_regex(regex, {});
  QR_CHECK(made.has_value(), made ? "" : made.error().message);
  return std::make_shared<const Constraint>(Constraint{"", "regex", *made, kVocabulary});
}

Request request(int i) {
  static const std::shared_ptr<const Constraint> kAll[] = {constraint("[B-F]{20,60}"), constraint("(GH|HG)*I"),
                                                           constraint("[^B]{3}(JK)+"), nullptr};
  Request out;
  out.prompt = random_tokens(static_cast<uint64_t>(i), 1 + i % 5);
  out.max_tokens = 30;
  out.stop_ids = {kEnd};
  out.sampling.temperature = 1.2F;
  out.sampling.seed = static_cast<uint64_t>(i);
  out.sampling.constraint = kAll[i % 4];
  return out;
}

TEST(EngineMasks, BesideOthersAsAlone) {
  EngineOptions options;
  options.n_ctx = kCtx;
  TestEngine t(options);
  std::vector<std::shared_ptr<Heard>> heard;
  heard.reserve(kRequests);
  for (int i = 0; i < kRequests; ++i) heard.push_back(t.submit(request(i)));
  EXPECT_EQ(t.run(), "");
  for (int i = 0; i < kRequests; ++i) {
    const ExpectedAnswer truth = alone(request(i), kCtx);
    EXPECT_EQ(heard[static_cast<size_t>(i)]->answer, truth) << i;
    EXPECT_FALSE(truth.tokens.empty()) << i;
  }
}

TEST(EngineMasks, WhatCannotGoOnEndsAlone) {
  EngineOptions options;
  options.n_ctx = kCtx;
  TestEngine t(options);
  std::vector<std::shared_ptr<Heard>> heard;
  heard.reserve(kRequests);
  for (int i = 0; i < kRequests; ++i) {
    Request r = request(i);
    if (i % 4 == 0) r.sampling.constraint = constraint("L{" + std::to_string(i % 3 + 1) + "}7");
    heard.push_back(t.submit(std::move(r)));
  }
  EXPECT_EQ(t.run(), "");
  for (int i = 0; i < kRequests; ++i) {
    const Heard& one = *heard[static_cast<size_t>(i)];
    if (i % 4 == 0) {
      EXPECT_EQ(one.answer.finish, Finish::error) << i;
      EXPECT_NE(one.error.find("nothing may follow"), std::string::npos) << one.error;
    } else {
      EXPECT_EQ(one.answer, alone(request(i), kCtx)) << i;
    }
  }
}

}  // namespace
}  // namespace quire
