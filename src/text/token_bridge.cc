// See token_bridge.h.
#include "text/token_bridge.h"

#include <algorithm>
#include <unordered_map>

#include "text/encode_behind.h"

namespace quire {
namespace {

constexpr int kFewInverse = 64;          // of so many ids one may be another, and they still are the same vocabulary
constexpr size_t kTailBytes = 256;       // a tail that is longer is settled,
constexpr size_t kKeptBytes = 64;        // but for so much
constexpr size_t kBeforeBytes = 16;      // of text in front of what is cut, at least
constexpr size_t kMostCuts = 8;          // places that are tried before a text is cut where it may not be
constexpr size_t kMostBeforeTokens = 8;  // of the target's, in front of what is guessed

std::string text_of(const Tokenizer& tokenizer, Token id, bool special) {
  std::string out;
  if (id >= 0 && id < tokenizer.n_vocab()) tokenizer.append_bytes(id, special, out);
  return out;
}

bool has_text(const Tokenizer& tokenizer) {
  for (Token id = 0; id < tokenizer.n_vocab(); ++id) {
    if (!text_of(tokenizer, id, false).empty()) return true;
  }
  return false;
}

// Of the tokens from `first` on.
int64_t n_with_text(const Tokenizer& tokenizer, Token first) {
  int64_t out = 0;
  for (Token id = first; id < tokenizer.n_vocab(); ++id) out += text_of(tokenizer, id, false).empty() ? 0 : 1;
  return out;
}

bool goes_on(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

// What its texts begin with where they begin with a token of their own.
Token bos_of(const Tokenizer& tokenizer) {
  std::vector<Token> ids;
  const bool made = tokenizer.encode("a", {.add_special = true}, ids).has_value();
  return made && !ids.empty() && ids[0] == tokenizer.spec().bos ? ids[0] : -1;
}

// Control tokens by their text.
std::unordered_map<std::string, Token> controls(const Tokenizer& tokenizer) {
  std::unordered_map<std::string, Token> out;
  for (Token id = 0; id < tokenizer.n_vocab(); ++id) {
    if (text_of(tokenizer, id, false).empty()) out.emplace(text_of(tokenizer, id, true), id);
  }
  out.erase("");
  return out;
}

// The token of `to` that is for what `id` is for in `from`, −1: none.
Token same_role(const Tokenizer& from, Token id, const Tokenizer& to) {
  if (id == from.spec().eos && to.spec().eos >= 0) return to.spec().eos;
  if (from.is_end(id)) return to.spec().eot >= 0 ? to.spec().eot : to.spec().eos;
  return -1;
}

void map_controls(const Tokenizer& from, const Tokenizer& to, std::vector<Token>& out) {
  const auto known = controls(to);
  for (const auto& [text, id] : controls(from)) {
    const auto at = known.find(text);
    out[static_cast<size_t>(id)] = at != known.end() ? at->second : same_role(from, id, to);
  }
}

}  // namespace

Result<std::unique_ptr<TokenBridge>> TokenBridge::make(Side target, Side draft) {
  if (!has_text(*target.tokenizer)) return fail(Code::invalid, "no token of the model's tokenizer has text");
  if (!has_text(*draft.tokenizer)) return fail(Code::invalid, "no token of the draft's tokenizer has text");
  if (draft.tokenizer->n_vocab() > draft.n_ids) {
    return fail(Code::invalid, "the draft's tokenizer has " + std::to_string(draft.tokenizer->n_vocab()) +
                                   " tokens, its embedding only " + std::to_string(draft.n_ids));
  }
  return std::unique_ptr<TokenBridge>(new TokenBridge(target, draft));
}

TokenBridge::TokenBridge(Side target, Side draft)
    : target_(target),
      draft_(draft),
      to_draft_(static_cast<size_t>(std::max(target.n_ids, target.tokenizer->n_vocab())), -1),
      to_target_(static_cast<size_t>(std::max(draft.n_ids, draft.tokenizer->n_vocab())), -1) {
  match_ids();
  if (!by_id_) match_controls();
}

// Where nearly all that have text are the same, ids go over as they are.
void TokenBridge::match_ids() {
  const Tokenizer &ours = target(), &its = draft();
  const int n = std::min({ours.n_vocab(), its.n_vocab(), target_.n_ids, draft_.n_ids});
  const int64_t n_alone = n_with_text(ours, n) + n_with_text(its, n);
  std::vector<Token> others;
  for (Token id = 0; id < n; ++id) {
    if (text_of(ours, id, true) != text_of(its, id, true) || text_of(ours, id, false) != text_of(its, id, false))
      others.push_back(id);
  }
  by_id_ = std::ssize(others) + n_alone <= n / kFewInverse;
  if (!by_id_) return;
  for (Token id = n; id < std::ssize(to_draft_); ++id) others.push_back(id);
  for (Token id = 0; id < n; ++id) to_draft_[static_cast<size_t>(id)] = to_target_[static_cast<size_t>(id)] = id;
  for (const Token id : others) {
    std::vector<Token> made;
    const bool encoded = its.encode(text_of(ours, id, true), {.parse_special = true}, made).has_value();
    to_draft_[static_cast<size_t>(id)] = encoded && !made.empty() && made[0] < draft_.n_ids ? made[0] : 0;
    if (id < n) to_target_[static_cast<size_t>(id)] = -1;
  }
}

void TokenBridge::match_controls() {
  map_controls(target(), draft(), to_draft_);
  map_controls(draft(), target(), to_target_);
  draft_bos_ = bos_of(draft());
  const Token bos = target().spec().bos;
  if (bos >= 0 && to_draft(bos) < 0) to_draft_[static_cast<size_t>(bos)] = draft_bos_;
}

bool BridgedText::take(const TokenBridge& bridge, std::span<const Token> context, size_t n_public, size_t n_most) {
  const size_t end = std::min(context.size(), n_taken_ + n_most);
  if (n_taken_ == end) return end == context.size();
  const size_t n_settled = n_settled_;
  const std::vector<Token> tail(ids_.begin() + static_cast<std::ptrdiff_t>(n_settled), ids_.end());
  if (n_taken_ == 0) {
    // Each begins its texts in its own way.
    const Token bos = bridge.target().spec().bos;
    if (bridge.draft_bos() >= 0) put_control(bridge, bridge.draft_bos());
    if (context[0] == bos && (bridge.draft_bos() >= 0 || bridge.to_draft(bos) < 0)) n_taken_ = 1;
  }
  for (const size_t stop : {std::min(end, n_public), end}) {
    if (n_taken_ < stop) {
      while (n_taken_ < stop) put(bridge, context[n_taken_++]);
      if (!bridge.by_id()) cut_tail(bridge);
    }
    if (n_taken_ <= n_public) n_public_ = n_settled_;
  }
  size_t same = n_settled;
  while (same < ids_.size() && same - n_settled < tail.size() && ids_[same] == tail[same - n_settled]) ++same;
  n_same_ = std::min(n_same_, same);
  return n_taken_ >= context.size();
}

void BridgedText::put(const TokenBridge& bridge, Token id) {
  const Token its = bridge.to_draft(id);
  if (bridge.by_id()) {
    ids_.push_back(its);
    n_settled_ = ids_.size();
  } else if (its >= 0) {
    put_control(bridge, its);
  } else {
    // A control token that the draft has not is the text of its name.
    std::string text = text_of(bridge.target(), id, true);
    if (strips_space_ && bridge.target().strips_leading_space() && text.starts_with(' ')) text.erase(0, 1);
    strips_space_ = strips_space_ && text.empty();
    tail_ += text;
  }
}

// Ends the text before it.
void BridgedText::put_control(const TokenBridge& bridge, Token id) {
  if (!tail_.empty()) {
    ids_.resize(n_settled_);
    const std::vector<Token> cut_ids = cut(bridge, before_, tail_);
    ids_.insert(ids_.end(), cut_ids.begin(), cut_ids.end());
  }
  ids_.push_back(id);
  n_settled_ = ids_.size();
  tail_.clear();
  before_.clear();
  n_held_ = 0;
  begins_ = true;
}

std::vector<Token> BridgedText::cut(const TokenBridge& bridge, std::string_view before, std::string_view text) const {
  if (!begins_ || !before.empty()) {
    if (auto ids = encode_behind(bridge.draft(), before, text)) return std::move(*ids);
  }
  std::vector<Token> ids;
  if (!bridge.draft().encode(text, {}, ids)) ids.clear();  // a hostile file's rules
  return ids;
}

void BridgedText::cut_tail(const TokenBridge& bridge) {
  ids_.resize(n_settled_);
  const std::string_view whole = whole_code_points(tail_);
  n_held_ = tail_.size() - whole.size();
  if (!whole.empty()) {
    const std::vector<Token> ids = cut(bridge, before_, whole);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }
  if (whole.size() > kTailBytes) settle(bridge);
}

// The text of the last of the first n_ids ids, which ends at `end` of tail_.
std::string BridgedText::before(const TokenBridge& bridge, size_t n_ids, size_t end) const {
  size_t begin = end;
  // From a code point on, where one begins there: text need not be UTF-8.
  const auto wants_more = [&](size_t n) { return n < kBeforeBytes || (n < 2 * kBeforeBytes && goes_on(tail_[begin])); };
  while (n_ids > n_settled_ && wants_more(end - begin)) {
    begin -= std::min(begin, text_of(bridge.draft(), ids_[--n_ids], false).size());
  }
  return tail_.substr(begin, end - begin);
}

// Settles ids up to a place behind which the text is cut as it is with all that stands before it; where none is found,
// all the same.
void BridgedText::settle(const TokenBridge& bridge) {
  const size_t n_whole = tail_.size() - n_held_;
  size_t at = n_whole, n_tried = 0, forced_at = n_whole, forced_ids = ids_.size();
  const auto cut_at = [&](size_t n_ids, size_t place) {
    before_ = before(bridge, n_ids, place);
    tail_.erase(0, place);
    n_settled_ = n_ids;
    begins_ = false;
  };
  for (size_t n = ids_.size(); n > n_settled_ + 1 && n_tried < kMostCuts;) {
    at -= std::min(at, text_of(bridge.draft(), ids_[--n], false).size());
    if (n_whole - at < kKeptBytes || at == 0 || goes_on(tail_[at])) continue;
    if (n_tried++ == 0) {
      forced_at = at;
      forced_ids = n;
    }
    const auto ids =
        encode_behind(bridge.draft(), before(bridge, n, at), std::string_view(tail_).substr(at, n_whole - at));
    if (ids && std::ranges::equal(*ids, std::span(ids_).subspan(n))) return cut_at(n, at);
  }
  cut_at(forced_ids, forced_at);
}

bool BridgedText::answer(const TokenBridge& bridge,
                         std::span<const Token> context,
                         std::span<const Token> said,
                         std::vector<Token>& out) const {
  out.clear();
  std::string text;
  Token control = -1;
  bool more = true;
  for (size_t i = 0; i < said.size() && more; ++i) {
    if (bridge.by_id()) {
      const Token id = bridge.to_target(said[i]);
      more = id >= 0 && id < bridge.n_target();
      if (more) out.push_back(id);
      continue;
    }
    const size_t n_before = text.size();
    text += text_of(bridge.draft(), said[i], false);
    more = text.size() > n_before;
    if (!more) control = bridge.to_target(said[i]);
  }
  if (bridge.by_id()) return more;

  const std::string_view held = std::string_view(tail_).substr(tail_.size() - n_held_);
  if (!text.starts_with(held)) return more && held.starts_with(text);
  std::string before;
  size_t n = context.size();
  for (size_t k = 0; n > 0 && k < kMostBeforeTokens; ++k) {
    const std::string part = text_of(bridge.target(), context[--n], false);
    if (part.empty() || (before.size() >= kBeforeBytes && !goes_on(before[0]))) break;
    before.insert(0, part);
  }
  // Whole as far as the code point that the context ends in goes.
  const std::string_view whole = control >= 0 ? std::string_view(text) : whole_code_points(text);
  if (whole.size() > held.size()) {
    if (auto ids = encode_behind(bridge.target(), before, whole.substr(held.size()))) out = std::move(*ids);
  }
  if (control >= 0) out.push_back(control);
  const auto unknown = std::ranges::find_if(out, [&](Token id) { return id >= bridge.n_target(); });
  more = more && unknown == out.end();
  out.erase(unknown, out.end());
  return more;
}

}  // namespace quire
