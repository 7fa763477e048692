// Two vocabularies for models of tests, alike but for some tokens, so that one model can draft for the other over a
// bridge and be right: most ids say the same text, some text is one token here and two there, some tokens are half a
// code point, and some have no text. Test code only.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/token_bridge.h"

namespace quire {

// Cuts text into the longest of its tokens from the left.
class ListTokenizer final : public Tokenizer {
 public:
  explicit ListTokenizer(std::vector<std::string> texts) : Tokenizer(spec_of(texts)), texts_(std::move(texts)) {}
  Status encode(std::string_view text, EncodeOptions, std::vector<Token>& out) const override {
    while (!text.empty()) {
      size_t best = 0;
      for (size_t id = 1; id < texts_.size(); ++id) {
        if (texts_[id].size() > texts_[best].size() && text.starts_with(texts_[id])) best = id;
      }
      if (best == 0) return fail(Code::invalid, "no token begins so");
      out.push_back(static_cast<Token>(best));
      text.remove_prefix(texts_[best].size());
    }
    return {};
  }
  void append_bytes(Token id, bool special, std::string& out) const override {
    if (id != 0) out += texts_[static_cast<size_t>(id)];
    if (id == 0 && special) out += "</s>";
  }
  std::string decode(std::span<const Token> ids, bool special) const override {
    std::string out;
    for (const Token id : ids) append_bytes(id, special, out);
    return out;
  }
  bool strips_leading_space() const override { return false; }

 private:
  static TokenizerSpec spec_of(const std::vector<std::string>& texts) {
    TokenizerSpec out;
    out.tokens = texts;
    out.eos = 0;
    return out;
  }
  const std::vector<std::string> texts_;
};

// The draft has all tokens but the last nine, which have no text: ids go over as they are.
struct FewerTokens {
  static constexpr int kFewer = 96;

  FewerTokens() {
    std::vector<std::string> texts = {""};
    for (char c = '!'; texts.size() < 90; ++c) texts.emplace_back(1, c);
    texts.resize(kFewer);
    draft = std::make_unique<ListTokenizer>(texts);
    texts.resize(105);
    target = std::make_unique<ListTokenizer>(texts);
    bridge = std::move(*TokenBridge::make({target.get(), 105}, {draft.get(), kFewer}));
    QR_CHECK(bridge->by_id());
  }
  std::unique_ptr<Tokenizer> target, draft;
  std::unique_ptr<TokenBridge> bridge;
};

struct TinyBridge {
  // Of as many tokens as TinyShape has.
  TinyBridge() {
    std::vector<std::string> ours = {""};
    for (char c = '!'; ours.size() < 90; ++c) ours.emplace_back(1, c);
    ours.insert(ours.end(), {"\xC3", "\xA9", "\xF0\x9F", "\x98\x80", "", ""});
    std::vector<std::string> its = ours;
    for (const char* text : {"ab", "abc", "12", "(a", "wxy", "==", "\xC3\xA9", "0)", "q!"}) ours.emplace_back(text);
    for (const char* text : {"bc", "abcd", "123", "a)", "xy", "=", "\xF0\x9F\x98\x80", "00", "!q"})
      its.emplace_back(text);
    QR_CHECK(ours.size() == 105 && its.size() == ours.size());
    target = std::make_unique<ListTokenizer>(std::move(ours));
    draft = std::make_unique<ListTokenizer>(std::move(its));
    bridge = std::move(*TokenBridge::make({target.get(), 105}, {draft.get(), 105}));
    QR_CHECK(!bridge->by_id());
  }
  std::unique_ptr<Tokenizer> target, draft;
  std::unique_ptr<TokenBridge> bridge;
};

}  // namespace quire
