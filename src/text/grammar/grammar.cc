// See grammar.h: what a compiled grammar shares, and the matcher's steps.
#include "text/grammar/grammar.h"

#include <algorithm>
#include <mutex>

#include "base/check.h"
#include "text/grammar/workspace.h"

namespace quire {

using grammar::Automaton;
using grammar::Workspace;

static constexpr const char* kTooAmbiguous = "grammar: too ambiguous to follow";

// Workspaces that no matcher uses now. A few are enough: more at once means more requests than cores.
struct Grammar::Shared {
  static constexpr size_t kMaxIdle = 2;
  static constexpr size_t kMaxIdleBytes = size_t{8} << 20;

  std::shared_ptr<const grammar::Program> program;
  std::mutex mutex;
  std::vector<std::unique_ptr<Workspace>> idle;

  std::unique_ptr<Workspace> take() {
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        std::unique_ptr<Workspace> out = std::move(idle.back());
        idle.pop_back();
        return out;
      }
    }
    return std::make_unique<Workspace>(program);
  }
  void put(std::unique_ptr<Workspace> work) {
    if (work->bytes() > kMaxIdleBytes || work->automaton.failed()) return;
    const std::lock_guard lock(mutex);
    if (idle.size() < kMaxIdle) idle.push_back(std::move(work));
  }
};

Grammar::Grammar(grammar::Program program) : shared_(std::make_shared<Shared>()) {
  shared_->program = std::make_shared<const grammar::Program>(std::move(program));
}
Grammar::~Grammar() = default;

size_t Grammar::bytes() const {
  size_t n = shared_->program->bytes();
  const std::lock_guard lock(shared_->mutex);
  // An idle workspace holds a copy of the program's expressions besides its caches.
  for (const auto& work : shared_->idle) n += work->bytes() + shared_->program->rx.bytes();
  return n;
}

const grammar::Program& Grammar::program() const { return *shared_->program; }
const std::vector<std::string>& Grammar::warnings() const { return shared_->program->warnings; }

Matcher::Matcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> vocabulary)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      work_(grammar_->shared_->take()),
      room_(Automaton::kMaxBytes) {
  if (work_->masks_of != vocabulary_.get()) work_->masks.clear();
  work_->masks_of = vocabulary_.get();
}

Matcher::~Matcher() {
  // A vocabulary that dies could be followed by another at the same address.
  if (vocabulary_.use_count() == 1) work_->masks.clear();
  grammar_->shared_->put(std::move(work_));
}

uint32_t Matcher::now() const { return steps_.empty() ? work_->automaton.start() : steps_.back().config; }
bool Matcher::ended() const { return now() == kEnded; }
bool Matcher::may_end() const { return !ended() && work_->automaton.may_end(now()); }

// Where `id`, or text where id is −1, leads; Code::invalid where it may not come.
Result<uint32_t> Matcher::walk(uint32_t from, Token id, std::string_view bytes) {
  Automaton& a = work_->automaton;
  if (from == kEnded) return fail(Code::invalid, "grammar: something came after the end");
  uint32_t to = from;
  const std::vector<Token>& controls = a.program().net.controls;
  const auto control = id < 0 ? controls.end() : std::find(controls.begin(), controls.end(), id);
  if (control != controls.end()) {
    to = a.step_control(from, static_cast<uint32_t>(control - controls.begin()));
    if (a.failed()) return fail(Code::exhausted, kTooAmbiguous);
    if (to != Automaton::kDead) return to;
    to = from;
  }
  if (id >= 0 && vocabulary_->is_end(id)) {
    if (a.may_end(from)) return kEnded;
    return fail(Code::invalid, "grammar: token " + std::to_string(id) + " ends the answer before it is whole");
  }
  const std::string where = id < 0 ? "this text" : "token " + std::to_string(id);
  if (id >= 0 && (bytes.empty() || bytes.size() > TokenTrie::kMaxTokenBytes)) {
    return fail(Code::invalid, "grammar: " + where + " has no text that may come");
  }
  for (const char c : bytes) {
    to = a.step_byte(to, static_cast<uint8_t>(c));
    if (a.failed()) return fail(Code::exhausted, kTooAmbiguous);
    if (to == Automaton::kDead) return fail(Code::invalid, "grammar: " + where + " may not come here");
  }
  return to;
}

// Caches that are full are emptied, and the way up to here is walked again. Where that alone fills them, they may grow
// by half before the next time, so that an answer is not walked again at each of its tokens.
Status Matcher::make_room() {
  if (work_->automaton.bytes() <= room_) return {};
  QR_TRY_VOID(replay());
  room_ = std::max(Automaton::kMaxBytes, work_->automaton.bytes() / 2 * 3);
  return {};
}

// From where the matcher is; where the automaton fails, once more with empty caches, so that what they held decides
// nothing.
Result<uint32_t> Matcher::walk_again(Token id, std::string_view bytes) {
  QR_TRY_VOID(make_room());
  auto to = walk(now(), id, bytes);
  if (to || to.error().code != Code::exhausted) return to;
  QR_TRY_VOID(replay());
  return walk(now(), id, bytes);
}

Status Matcher::replay() {
  work_->clear();
  uint32_t at = work_->automaton.start();
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    if (step.config == kEnded) continue;
    const size_t end = i + 1 < steps_.size() ? steps_[i + 1].text_from : text_.size();
    const std::string_view text = step.token >= 0
                                      ? std::string_view(vocabulary_->bytes(step.token))
                                      : std::string_view(text_).substr(step.text_from, end - step.text_from);
    QR_TRY(at, walk(at, step.token, text));
    step.config = at;
  }
  return {};
}

Status Matcher::accept(Token id) {
  if (!vocabulary_->known(id)) return fail(Code::invalid, "grammar: there is no token " + std::to_string(id));
  QR_TRY(const uint32_t to, walk_again(id, vocabulary_->bytes(id)));
  steps_.push_back({id, text_.size(), to});
  return {};
}

Status Matcher::accept_text(std::string_view bytes) {
  QR_TRY(const uint32_t to, walk_again(-1, bytes));
  steps_.push_back({-1, text_.size(), to});
  text_ += bytes;
  return {};
}

void Matcher::rollback(size_t n) {
  QR_CHECK(n <= steps_.size(), "rollback of more than was accepted");
  if (n == 0) return;
  text_.resize(steps_[steps_.size() - n].text_from);
  steps_.resize(steps_.size() - n);
}

std::string Matcher::forced_bytes(size_t max_bytes) {
  std::string out;
  if (ended()) return out;
  Automaton& a = work_->automaton;
  for (uint32_t at = now(); out.size() < max_bytes;) {
    const int b = a.forced_byte(at);
    if (b < 0) break;
    at = a.step_byte(at, static_cast<uint8_t>(b));
    if (at == Automaton::kDead || a.failed()) break;
    out.push_back(static_cast<char>(b));
  }
  if (a.failed()) out.clear();
  return out;
}

Token Matcher::forced_control() {
  if (ended()) return -1;
  const int index = work_->automaton.forced_control(now());
  if (index < 0 || work_->automaton.failed()) return -1;
  return work_->automaton.program().net.controls[static_cast<size_t>(index)];
}

bool Matcher::may_be_longer(std::string_view held) {
  return !ended() && work_->may_be_longer(now(), *vocabulary_, held);
}

Status Matcher::fill(std::span<uint32_t> words) {
  QR_TRY_VOID(make_room());
  uint32_t at = now();
  if (const std::vector<uint32_t>* known = work_->masks.find(at)) {
    std::copy(known->begin(), known->end(), words.begin());
    return {};
  }
  bool done = work_->mask(at, *vocabulary_, words, kMaskFuel);
  if (!done && work_->automaton.failed()) {  // once more with empty caches, so that what they held decides nothing
    QR_TRY_VOID(replay());
    at = now();
    std::fill(words.begin(), words.end(), 0);
    done = work_->mask(at, *vocabulary_, words, kMaskFuel);
  }
  if (!done) {
    return fail(Code::exhausted, "grammar: too ambiguous: a mask takes more than " + std::to_string(kMaskFuel) +
                                     " steps, or a state more than its bounds");
  }
  if (work_->automaton.may_end(at)) {
    for (const Token t : vocabulary_->ends()) {
      const auto i = static_cast<size_t>(t);
      if (i < vocabulary_->n_logits()) words[i / 32] |= 1u << (i % 32);
    }
  }
  work_->masks.put(at, words);
  return {};
}

Status Matcher::mask(std::span<uint32_t> words) {
  QR_CHECK(words.size() >= n_words(), "mask: too few words");
  words = words.first(n_words());
  std::fill(words.begin(), words.end(), 0);
  if (ended()) return {};
  Status done = fill(words);
  if (!done) std::fill(words.begin(), words.end(), 0);
  return done;
}

}  // namespace quire
