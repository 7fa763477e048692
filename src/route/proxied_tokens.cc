// What workers say that they hold of a request's prompt, before one is chosen.
#include <algorithm>
#include <utility>

#include "base/hash128.h"
#include "route/proxied.h"

namespace quire {
namespace {

constexpr int64_t kLeastBytes =
    256;  // of a prompt's text; computing a shorter one takes no longer than to ask about it
constexpr size_t kMostSaltBytes = 256;
constexpr size_t kMostTokens = 1 << 18;  // that are held of a prompt; what is behind them decides nothing

// What a client says of the answer that it wants, not of the prompt.
bool is_of_answer(std::string_view name) {
  static constexpr std::string_view kOfAnswer[] = {"accept-encoding", "last-event-id", "traceparent", "tracestate",
                                                   "x-quire-resumable"};
  return std::ranges::find(kOfAnswer, name) != std::end(kOfAnswer);
}

}  // namespace

// A longer one would be held, and hashed for each worker.
void Proxied::keep_salt(const std::string& cache_salt) {
  if (context_.held_blocks == nullptr || cache_salt.empty()) return;
  salt_too_long_ = cache_salt.size() > kMostSaltBytes;
  if (salt_too_long_) return;
  cache_salt_ = cache_salt;
  named_salt_ = kv_salt(cache_salt);
}

// The number of whose request it is, as the worker sees it.
uint64_t Proxied::asker_at(const Worker& worker) const {
  const std::string& own = context_.worker_key;
  const uint64_t key = context_.sends_key_to(worker.spec) ? hash128(own.data(), own.size(), 1).lo : asker_.tenant;
  if (key == 0 && cache_salt_.empty()) return 0;
  return kv_hash(cache_salt_, key);
}

// Servers of others do not know keys apart, and name the salt as it is.
KvIndex::Sought Proxied::sought_at(const Worker& worker) const {
  if (worker.is_ours.load()) return {worker.id, context_.held_blocks->salt_of(worker.id, asker_at(worker))};
  return {worker.id, named_salt_};
}

// Then looks for a worker. A session that has its place needs nothing of this.
void Proxied::know_tokens() {
  const bool may = context_.held_blocks != nullptr && context_.held_blocks->any_whole() && phase_ == Phase::looking &&
                   !salt_too_long_ && !engine_ && !ask_.pinned && !ask_.blocks.empty();
  const std::string_view path = may ? render_path(request_.path) : std::string_view();
  if (path.empty() || (ask_.session && context_.fleet->knows(*ask_.session))) return look();
  const Asked asked = read_asked(*body_);
  if (asked.has_other_beginning || !context_.fleet->goes_by_tokens(asked.model)) return look();
  if (auto tokens = tokens_in_prompt(asked.prompt); !tokens.empty()) return take_tokens(std::move(tokens));
  if (asked.text_bytes < kLeastBytes) return look();
  const auto worker = context_.fleet->who_may_say(ask_);
  if (worker == nullptr) return look();
  UpstreamRequest question;
  question.to = worker->spec.at;
  question.method = "POST";
  question.target = worker->spec.base + std::string(path);
  question.headers = forwarded_headers(*worker);
  std::erase_if(question.headers, [](const HttpHeader& h) { return is_of_answer(h.name); });
  question.body = body_;
  // Until then the question is what holds this.
  const auto found = [self = shared_from_this()](std::vector<Token>&& tokens) { self->take_tokens(std::move(tokens)); };
  question_ = context_.tokens->ask(worker, std::move(question), reply_, context_.held, found);
}

void Proxied::take_tokens(std::vector<Token>&& tokens) {
  question_ = nullptr;
  const int64_t n_tokens = std::ssize(tokens);
  if (tokens.size() > kMostTokens) tokens.resize(kMostTokens);
  tokens.shrink_to_fit();
  if (phase_ != Phase::looking || tokens.empty() || !tokens_lease_.resize(std::ssize(tokens) * 4)) return look();
  tokens_ = std::move(tokens);
  ask_.prompt_tokens = n_tokens;
  std::vector<KvIndex::Sought> sought;
  for (const auto& worker : context_.fleet->workers()) sought.push_back(sought_at(*worker));
  ask_.held = context_.held_blocks->find(tokens_, sought, context_.clock.now_ns());
  std::ranges::sort(ask_.held, {}, &KvIndex::Hit::worker);
  look();
}

// What it was given it will hold soon.
void Proxied::note_given() {
  if (!tokens_.empty()) context_.held_blocks->expect(sought_at(*worker_), tokens_, context_.clock.now_ns());
}

void Proxied::learn_salt(const std::string& name) {
  if (context_.held_blocks == nullptr || salt_too_long_ || name.size() > kMostSaltBytes) return;
  context_.held_blocks->learn_salt(worker_->id, asker_at(*worker_), kv_salt(name));
}

}  // namespace quire
