#include "serve/grammar_cache.h"

#include <new>

namespace quire {

std::shared_ptr<const TokenTrie> GrammarCache::vocabulary() {
  std::call_once(vocabulary_made_, [this] { vocabulary_ = TokenTrie::of(tokenizer_, 0); });
  return vocabulary_;
}

Result<std::shared_ptr<const Grammar>> GrammarCache::get(const GrammarSource& source) {
  const std::string written = source.written();
  std::unique_lock lock(mu_);
  if (const auto entry = find(written)) {
    ++n_found_;
    done_.wait(lock, [&] { return entry->done; });
    if (entry->no_memory) throw std::bad_alloc();
    return entry->grammar;
  }
  const auto entry = std::make_shared<Entry>();
  entry->source = written;
  entries_.push_front(entry);
  try {
    by_source_.emplace(entry->source, entries_.begin());
  } catch (...) {
    entries_.pop_front();
    throw;
  }
  lock.unlock();
  try {
    auto made = compile_grammar(source, tokenizer_, {});
    lock.lock();
    ++n_compiled_;
    finish(*entry, std::move(made));
  } catch (...) {
    // Those who wait fail likewise, those who come later try again.
    if (!lock.owns_lock()) lock.lock();
    entry->no_memory = true;
    finish(*entry, fail(Code::internal, ""));
    forget(*entry);
    throw;
  }
  return entry->grammar;
}

Status GrammarCache::check(const GrammarSource& source, const GrammarLimits& limits) const {
  const auto made = compile_grammar(source, tokenizer_, limits);
  if (!made) return fail(made.error().code, made.error().message);
  return {};
}

// The entry of this source, which is now the one used last; null: there is none.
std::shared_ptr<GrammarCache::Entry> GrammarCache::find(const std::string& source) {
  const auto found = by_source_.find(source);
  if (found == by_source_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  trim();
  return entries_.front();
}

void GrammarCache::finish(Entry& entry, Result<std::shared_ptr<const Grammar>> made) {
  entry.grammar = std::move(made);
  entry.done = true;
  done_.notify_all();
  trim();
}

void GrammarCache::forget(const Entry& entry) {
  const auto found = by_source_.find(entry.source);
  if (found == by_source_.end() || found->second->get() != &entry) return;
  const auto at = found->second;
  by_source_.erase(found);
  entries_.erase(at);
}

// Counted anew each time: grammars grow by what ended answers leave to the next ones.
int64_t GrammarCache::bytes_of(const Entry& entry) {
  size_t n = entry.source.size() + sizeof(Entry) + 128;
  if (entry.done) n += entry.grammar ? (*entry.grammar)->bytes() : entry.grammar.error().message.size();
  return static_cast<int64_t>(n);
}

int64_t GrammarCache::bytes() const {
  int64_t n = 0;
  for (const auto& entry : entries_) n += bytes_of(*entry);
  return n;
}

// REQUIRES mu_.
int64_t GrammarCache::bytes_elsewhere() {
  int64_t n = 0;
  std::erase_if(elsewhere_, [&](const std::weak_ptr<const Grammar>& one) {
    const auto held = one.lock();
    n += held != nullptr ? static_cast<int64_t>(held->bytes()) : 0;
    return held == nullptr;
  });
  return n;
}

bool GrammarCache::no_room_for(const GrammarSource& source) {
  const std::string written = source.written();
  const std::lock_guard lock(mu_);
  return !by_source_.contains(written) && bytes_elsewhere() > most_elsewhere();
}

// What is being compiled stays, and with `keep_last` the one used last whatever it takes.
void GrammarCache::trim(bool keep_last) {
  int64_t held = bytes();
  for (auto at = entries_.end(); at != entries_.begin();) {
    if (held <= max_bytes_ && entries_.size() <= kMaxEntries) return;
    --at;
    if (!(*at)->done || (keep_last && at == entries_.begin())) continue;
    const Entry& entry = **at;
    if (entry.grammar && entry.grammar->use_count() > 1) {
      try {
        elsewhere_.push_back(*entry.grammar);
      } catch (const std::bad_alloc&) {
        return;  // it is kept a while longer
      }
    }
    held -= bytes_of(entry);
    by_source_.erase((*at)->source);
    at = entries_.erase(at);
  }
}

void GrammarCache::sweep() {
  const std::lock_guard lock(mu_);
  trim(false);
}

GrammarCache::Stats GrammarCache::stats() {
  const std::lock_guard lock(mu_);
  return {n_compiled_, n_found_, static_cast<int64_t>(entries_.size()), bytes(), bytes_elsewhere()};
}

}  // namespace quire
