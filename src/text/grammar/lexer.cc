// See lexer.h.
#include "text/grammar/lexer.h"

namespace quire::grammar {

SymbolClasses SymbolClasses::of(const RxStore& rx, size_t n_controls) {
  SymbolClasses out;
  out.of_byte = rx.byte_classes();
  std::array<int, 256> renumbered;  // in order of their lowest byte
  renumbered.fill(-1);
  for (size_t b = 0; b < 256; ++b) {
    int& number = renumbered[out.of_byte[b]];
    if (number < 0) {
      number = static_cast<int>(out.example.size());
      out.example.push_back(static_cast<Symbol>(b));
    }
    out.of_byte[b] = static_cast<uint8_t>(number);
  }
  out.n_bytes = out.size();
  for (size_t i = 0; i < n_controls; ++i) out.example.push_back(kFirstControl + static_cast<Symbol>(i));
  return out;
}

Lexer::Lexer(RxStore& rx, const Network& net, const SymbolClasses& classes) : rx_(rx), net_(net), classes_(classes) {
  clear();
}

void Lexer::clear() {
  states_ = {};
  accepts_ = {};
  info_.clear();
  next_.clear();
  intern({});
}

size_t Lexer::bytes() const {
  return states_.bytes() + accepts_.bytes() + info_.size() * sizeof(Info) + next_.size() * 4;
}

LexState Lexer::intern(std::span<const uint32_t> pairs) {
  const uint32_t id = states_.add(pairs);
  if (id < info_.size()) return id;
  Info info;
  std::vector<uint32_t> accepts;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    const Rx rx = pairs[i + 1];
    if (rx_.nullable(rx)) accepts.push_back(pairs[i]);
    info.goes_on |= rx != RxStore::kEmpty;
    info.first = info.first | rx_.first(rx);
    info.has_controls |= rx_.has_controls(rx);
  }
  info.accepts = accepts_.add(accepts);
  info_.push_back(info);
  next_.resize(next_.size() + classes_.size(), -1);
  for (uint32_t c = 0; c < classes_.size(); ++c) {
    const Symbol s = classes_.example[c];
    const bool possible = s < kFirstControl ? info.first.has(static_cast<uint8_t>(s)) : info.has_controls;
    if (!possible) next_[size_t{id} * classes_.size() + c] = kDead;
  }
  return id;
}

LexState Lexer::start(std::span<const uint32_t> lexemes) {
  std::vector<uint32_t> pairs;
  pairs.reserve(lexemes.size() * 2);
  for (const uint32_t l : lexemes) {
    pairs.push_back(l);
    pairs.push_back(net_.lexemes[l]);
  }
  return intern(pairs);
}

LexState Lexer::make_step(LexState s, uint32_t symbol_class) {
  const std::vector<uint32_t> from(states_[s].begin(), states_[s].end());
  std::vector<uint32_t> pairs;
  for (size_t i = 0; i < from.size(); i += 2) {
    const Rx rest = rx_.derive(from[i + 1], classes_.example[symbol_class]);
    if (!rx_.alive(rest)) continue;
    pairs.push_back(from[i]);
    pairs.push_back(rest);
  }
  const LexState to = intern(pairs);
  next_[size_t{s} * classes_.size() + symbol_class] = static_cast<int32_t>(to);
  return to;
}

}  // namespace quire::grammar
