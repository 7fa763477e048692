// See automaton.h.
#include "text/grammar/automaton.h"

#include <algorithm>
#include <unordered_set>

#include "text/utf8.h"

namespace quire::grammar {

namespace {

constexpr size_t kMaxFreeStates = 256;  // looked at to find how many free characters may follow

// Where in a character a byte stands: 0 at its start, 1..3 that many plain continuation bytes to come, 4..7 behind a
// lead byte whose second byte has a range of its own. What a JSON string holds unescaped.
constexpr uint8_t kSpecialLeads[] = {0xE0, 0xED, 0xF0, 0xF4};

int next_phase(int phase, uint8_t b) {
  if (phase == 0) {
    if (b < 0x80) return b >= 0x20 && b != '"' && b != '\\' ? 0 : -1;
    for (int i = 0; i < 4; ++i) {
      if (b == kSpecialLeads[i]) return 4 + i;
    }
    const int n = utf8_length(b);
    return n == 0 ? -1 : n - 1;
  }
  if (phase <= 3) return b >= 0x80 && b <= 0xBF ? phase - 1 : -1;
  const uint8_t lead = kSpecialLeads[phase - 4];
  const SecondByte range = second_byte_range(lead);
  return b >= range.low && b <= range.high ? utf8_length(lead) - 2 : -1;
}

}  // namespace

Automaton::Automaton(std::shared_ptr<const Program> program)
    : program_(std::move(program)),
      rx_(program_->rx),
      lexer_(rx_, program_->net, program_->classes),
      rows_(program_->net, lexer_),
      n_classes_(program_->classes.size()) {
  rx_.set_limits(program_->rx.bytes() + kHardBytes, ~uint64_t{0});
  find_phase_classes();
  clear();
}

void Automaton::find_phase_classes() {
  for (int phase = 0; phase < kPhases; ++phase) {
    std::vector<bool> seen(size_t{n_classes_} * kPhases, false);
    for (unsigned b = 0; b < 256; ++b) {
      const int to = next_phase(phase, static_cast<uint8_t>(b));
      if (to < 0) continue;
      const size_t pair = size_t{program_->classes.of_byte[b]} * kPhases + static_cast<size_t>(to);
      if (!seen[pair]) phase_bytes_[phase].push_back(static_cast<uint8_t>(b));
      seen[pair] = true;
    }
  }
}

void Automaton::clear() {
  overfull_ = false;
  rx_.truncate(program_->rx.size());
  lexer_.clear();
  rows_.clear();
  configs_ = {};
  info_.clear();
  next_.clear();
  free_.clear();
  std::vector<uint32_t> none;
  intern(none, false, 0);
  std::vector<uint32_t> first{rows_.root(), rows_.start(rows_.root())};
  start_ = intern(first, rows_.complete(rows_.root()), static_cast<uint32_t>(rows_.n_items(rows_.root())));
}

size_t Automaton::bytes() const {
  return rx_.bytes() - program_->rx.bytes() + lexer_.bytes() + rows_.bytes() + configs_.bytes() +
         info_.size() * sizeof(Info) + next_.size() * 4 + free_.size();
}

// `entries` are pairs (row, state), sorted here; those from which no byte can follow are dropped.
Config Automaton::intern(std::vector<uint32_t>& entries, bool may_end, uint32_t row_cost) {
  std::vector<std::pair<Row, LexState>> pairs;
  for (size_t i = 0; i < entries.size(); i += 2) {
    if (lexer_.goes_on(entries[i + 1])) pairs.emplace_back(entries[i], entries[i + 1]);
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  std::vector<uint32_t> key{may_end ? 1u : 0u};
  for (const auto& [row, state] : pairs) key.insert(key.end(), {row, state});
  const Config id = configs_.add(key);
  if (id < info_.size()) return id;
  Info info;
  info.may_end = may_end;
  info.cost = 1 + row_cost;
  for (const auto& [row, state] : pairs) {
    info.first = info.first | lexer_.first(state);
    info.has_controls |= lexer_.has_controls(state);
    info.cost += lexer_.width(state);
  }
  info_.push_back(info);
  next_.resize(next_.size() + n_classes_, -1);
  int32_t* next = &next_[size_t{id} * n_classes_];
  for (uint32_t c = 0; c < n_classes_; ++c) {
    const Symbol s = program_->classes.example[c];
    if (!(s < kFirstControl ? info.first.has(static_cast<uint8_t>(s)) : info.has_controls)) next[c] = kDead;
  }
  return id;
}

Config Automaton::make_step(Config c, uint32_t symbol_class) {
  const std::vector<uint32_t> from(configs_[c].begin(), configs_[c].end());
  std::vector<uint32_t> entries;
  for (size_t i = 1; i < from.size(); i += 2) {
    const LexState to = lexer_.step(from[i + 1], symbol_class);
    if (to == Lexer::kDead) continue;
    entries.insert(entries.end(), {from[i], to});
    const std::span<const uint32_t> ends = lexer_.accepted(to);
    if (!ends.empty()) rows_.scan(from[i], ends);
  }
  bool may_end = false;
  uint32_t row_cost = 0;
  if (rows_.gathered()) {
    const Row row = rows_.take();
    may_end = rows_.complete(row);
    row_cost = static_cast<uint32_t>(rows_.n_items(row));
    entries.insert(entries.end(), {row, rows_.start(row)});
  }
  const Config to = intern(entries, may_end, row_cost);
  overfull_ |= bytes() > kHardBytes;
  next_[size_t{c} * n_classes_ + symbol_class] = static_cast<int32_t>(to);
  return to;
}

int Automaton::forced_byte(Config c) {
  const Info& info = info_[c];
  if (info.may_end || info.first.count() != 1) return -1;
  const int byte = info.first.lowest();
  return info.has_controls && n_controls(c).n > 0 ? -1 : byte;
}

int Automaton::forced_control(Config c) {
  if (info_[c].may_end || !info_[c].has_controls || info_[c].first.count() != 0) return -1;
  const auto [n, first] = n_controls(c);
  return n == 1 ? static_cast<int>(first) : -1;
}

// Control tokens that may follow, two at most, and the first of them.
Automaton::Controls Automaton::n_controls(Config c) {
  Controls out;
  for (uint32_t i = 0; i < program_->net.controls.size() && out.n < 2; ++i) {
    if (step_control(c, i) == kDead) continue;
    if (out.n++ == 0) out.first = i;
  }
  return out;
}

int Automaton::free_chars(Config c) {
  int most = 0;
  const std::span<const uint32_t> key = configs_[c];
  for (size_t i = 2; i < key.size(); i += 2) most = std::max(most, free_chars_of(key[i]));
  return most;
}

// What the shape shows; where it shows nothing, breadth first over what characters lead to: the first dead end found
// has the fewest characters before it.
int Automaton::free_chars_of(LexState s) {
  if (s < free_.size() && free_[s] >= 0) return free_[s];
  const int shown = shown_free_chars(s);
  const int answer = shown > 0 ? shown : searched_free_chars(s);
  if (free_.size() <= s) free_.resize(lexer_.size(), -1);
  free_[s] = static_cast<int8_t>(answer);
  return answer;
}

int Automaton::shown_free_chars(LexState s) const {
  int most = 0;
  const std::span<const uint32_t> pairs = lexer_.pairs(s);
  for (size_t i = 1; i < pairs.size(); i += 2) {
    most = std::max(most, rx_.free_chars(pairs[i], program_->net.wide, kMaxFreeChars));
  }
  return most;
}

int Automaton::searched_free_chars(LexState s) {
  struct Node {
    LexState state;
    int phase, chars;
  };
  for (const uint8_t b : phase_bytes_[0]) {
    if (!lexer_.first(s).has(b)) return 0;
  }
  std::vector<Node> queue{{s, 0, 0}};
  std::unordered_set<uint64_t> seen{s * uint64_t{kPhases}};
  int most = kMaxFreeChars;
  for (size_t i = 0; i < queue.size(); ++i) {
    const Node at = queue[i];
    if (at.chars >= most) return most;
    if (queue.size() > kMaxFreeStates) return 0;
    if (at.phase == 0 && i > 0) {
      const int more = shown_free_chars(at.state);
      if (more > 0) {  // no need to go there
        most = std::min(most, at.chars + more);
        continue;
      }
    }
    for (const uint8_t b : phase_bytes_[at.phase]) {
      const LexState to = lexer_.step(at.state, program_->classes.of_byte[b]);
      if (to == Lexer::kDead) return at.chars;
      const int phase = next_phase(at.phase, b);
      const uint64_t key = to * uint64_t{kPhases} + static_cast<uint64_t>(phase);
      if (seen.insert(key).second) queue.push_back({to, phase, at.chars + (phase == 0 ? 1 : 0)});
    }
  }
  return most;
}

}  // namespace quire::grammar
