#include "http/keys.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace quire {
namespace {

constexpr size_t kMaxNameBytes = 64;
constexpr int64_t kMaxLimit = 1'000'000'000'000;
constexpr double kNsPerMinute = 60e9;

bool is_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), plain);
}

Status read_scopes(const Json& value, ApiKey& key) {
  if (value.as_array() == nullptr || value.as_array()->empty())
    return fail(Code::invalid, "scopes must be a list of \"inference\" and \"admin\"");
  key.inference = key.admin = false;
  for (const Json& scope : *value.as_array()) {
    const std::string* name = scope.as_string();
    if (name != nullptr && *name == "inference")
      key.inference = true;
    else if (name != nullptr && *name == "admin")
      key.admin = true;
    else
      return fail(Code::invalid, "scopes must be a list of \"inference\" and \"admin\", got " + shown(scope.dump()));
  }
  return {};
}

template <class T>
Status read_number(const std::string& field, const Json& value, int64_t most, T& out) {
  const int64_t* n = value.as_int();
  if (n == nullptr || *n < 1 || *n > most)
    return fail(Code::invalid, field + " must be 1 to " + std::to_string(most) + ", got " + shown(value.dump()));
  out = static_cast<T>(*n);
  return {};
}

Status read_field(const std::string& field, const Json& value, ApiKey& key) {
  const std::string* text = value.as_string();
  if (field == "name") {
    if (text == nullptr || !is_name(*text))
      return fail(Code::invalid, "name must be 1 to 64 of letters, digits, _ . -, got " + shown(value.dump()));
    key.name = *text;
    return {};
  }
  if (field == "sha256") {
    const auto hash = text != nullptr ? parse_sha256(*text) : std::nullopt;
    if (!hash) return fail(Code::invalid, "sha256 must be 64 hexadecimal digits: the SHA-256 of the key");
    key.hash = *hash;
    return {};
  }
  if (field == "scopes") return read_scopes(value, key);
  if (field == "requests_per_minute") return read_number(field, value, kMaxLimit, key.limits.requests_per_minute);
  if (field == "tokens_per_minute") return read_number(field, value, kMaxLimit, key.limits.tokens_per_minute);
  if (field == "concurrent") return read_number(field, value, kMaxLimit, key.limits.concurrent);
  if (field == "tokens_under_way") return read_number(field, value, kMaxLimit, key.limits.tokens_under_way);
  if (field == "weight") return read_number(field, value, kMostKeyWeight, key.weight);
  if (field == "deadline_ms") return read_number(field, value, kMostDeadlineMs, key.deadline_ms);
  return fail(Code::invalid, shown(field) + " is no field of a key");
}

Result<ApiKey> read_key(const Json& entry) {
  if (entry.as_object() == nullptr) return fail(Code::invalid, "must be an object");
  ApiKey key;
  for (const auto& [field, value] : *entry.as_object()) QR_TRY_VOID(read_field(field, value, key));
  if (key.name.empty()) return fail(Code::invalid, "name is missing");
  if (entry.find("sha256") == nullptr) return fail(Code::invalid, "sha256 is missing");
  return key;
}

}  // namespace

std::string_view sent_key(const HttpRequest& request) {
  if (const std::string* key = request.header("x-api-key")) return *key;
  constexpr std::string_view kScheme = "bearer ";
  const std::string* field = request.header("authorization");
  if (field == nullptr || field->size() <= kScheme.size()) return {};
  if (!equal_no_case(std::string_view(*field).substr(0, kScheme.size()), kScheme)) return {};
  return std::string_view(*field).substr(kScheme.size());
}

ApiKey plain_key(std::string name, std::string_view text, bool inference, bool admin) {
  return {std::move(name), sha256(text), inference, admin, {}};
}

Result<std::vector<ApiKey>> read_keys(std::string_view json) {
  QR_TRY(const Json file, Json::parse(json));
  const Json* list = file.find("keys");
  if (list == nullptr || list->as_array() == nullptr || list->as_array()->empty())
    return fail(Code::invalid, "a key file is an object with a list \"keys\" of at least one key");
  std::vector<ApiKey> out;
  for (const Json& entry : *list->as_array()) {
    const std::string where = "keys[" + std::to_string(out.size()) + "]: ";
    auto key = read_key(entry);
    if (!key) return fail(Code::invalid, where + key.error().message);
    for (const ApiKey& other : out)
      if (other.name == key->name || same_digest(other.hash, key->hash))
        return fail(Code::invalid, where + "has the name or the sha256 of another key");
    out.push_back(std::move(*key));
  }
  return out;
}

KeyLease::~KeyLease() {
  if (holder_ == nullptr) return;
  holder_->n_sequences_.fetch_sub(n_sequences_);
  holder_->n_tokens_.fetch_sub(n_tokens_);
}

KeyHolder::KeyHolder(ApiKey key, uint64_t number, Metrics& m)
    : key_(std::move(key)),
      number_(number),
      n_requests_(
          m.counter("quire_key_requests_total", "Requests admitted, by the name of their key.", {{"key", key_.name}})),
      n_prompt_(
          m.counter("quire_key_tokens_total", "Tokens of a key's requests.", {{"key", key_.name}, {"kind", "prompt"}})),
      n_generated_(m.counter("quire_key_tokens_total", "", {{"key", key_.name}, {"kind", "generation"}})),
      limited_requests_(m.counter("quire_key_limited_total",
                                  "Requests refused by a limit of their key.",
                                  {{"key", key_.name}, {"limit", "requests_per_minute"}})),
      limited_tokens_(m.counter("quire_key_limited_total", "", {{"key", key_.name}, {"limit", "tokens_per_minute"}})),
      limited_concurrent_(m.counter("quire_key_limited_total", "", {{"key", key_.name}, {"limit", "concurrent"}})),
      limited_under_way_(
          m.counter("quire_key_limited_total", "", {{"key", key_.name}, {"limit", "tokens_under_way"}})) {
  requests_ = {key_.limits.requests_per_minute, static_cast<double>(key_.limits.requests_per_minute)};
  tokens_ = {key_.limits.tokens_per_minute, static_cast<double>(key_.limits.tokens_per_minute)};
}

int64_t KeyHolder::Bucket::seconds_until_positive() const {
  const double per_second = static_cast<double>(per_minute) / 60.0;
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil((1.0 - level) / per_second)));
}

void KeyHolder::fill(int64_t now_ns) {
  const double minutes = filled_ns_ == 0 ? 0.0 : static_cast<double>(now_ns - filled_ns_) / kNsPerMinute;
  filled_ns_ = now_ns;
  tokens_.level -= static_cast<double>(unpaid_.exchange(0));
  for (Bucket* b : {&requests_, &tokens_}) {
    const auto full = static_cast<double>(b->per_minute);
    b->level = std::min(full, b->level + std::max(0.0, minutes) * full);
  }
}

KeyRefusal KeyHolder::refusal(std::string_view limit, int64_t value, std::string_view what, Counter& counter) const {
  counter.add();
  const std::string message = "this key's limit of " + std::to_string(value) + " " + std::string(what) + " (" +
                              std::string(limit) + ") is reached";
  return {{429, message, "rate_limit_error", "", "rate_limit_exceeded"}, 0};
}

KeyRefusal KeyHolder::under_way(
    std::string_view limit, int64_t value, int64_t n_others, int64_t n_asked, Counter& counter) const {
  counter.add();
  const bool counts_tokens = limit == "tokens_under_way";
  const std::string named = "this key's limit of " + std::to_string(value) +
                            (counts_tokens ? " tokens" : " sequences") + " under way (" + std::string(limit) + ")";
  if (n_asked > value) {  // waiting would not help
    const std::string message = named + " is less than the " + std::to_string(n_asked) + " that the request asks for" +
                                (counts_tokens ? ": its prompts and max_tokens, without which the rest of the context "
                                                 "counts"
                                               : "");
    return {{400, message, "invalid_request_error", "", "key_limit_too_small"}, 0};
  }
  const std::string message =
      named + " is reached: " + std::to_string(n_others) + " are, the request asks for " + std::to_string(n_asked);
  return {{429, message, "rate_limit_error", "", "rate_limit_exceeded"}, 0};
}

std::optional<KeyRefusal> KeyHolder::take(int64_t n_sequences, int64_t n_tokens, KeyLease& lease) {
  const KeyLimits& l = key_.limits;
  const std::lock_guard lock(mu_);
  const int64_t n_others = n_sequences_.load() - lease.n_sequences_,
                n_other_tokens = n_tokens_.load() - lease.n_tokens_;
  if (l.concurrent > 0 && n_others + n_sequences > l.concurrent)
    return under_way("concurrent", l.concurrent, n_others, n_sequences, limited_concurrent_);
  if (l.tokens_under_way > 0 && n_other_tokens + n_tokens > l.tokens_under_way)
    return under_way("tokens_under_way", l.tokens_under_way, n_other_tokens, n_tokens, limited_under_way_);
  n_sequences_.fetch_add(n_sequences - lease.n_sequences_);
  n_tokens_.fetch_add(n_tokens - lease.n_tokens_);
  lease.n_sequences_ = n_sequences;
  lease.n_tokens_ = n_tokens;
  return std::nullopt;
}

std::optional<KeyRefusal> KeyHolder::enter(int64_t now_ns, KeyLease& lease) {
  const KeyLimits& l = key_.limits;
  std::lock_guard lock(mu_);
  fill(now_ns);
  if (const int64_t n = n_sequences_.load(); l.concurrent > 0 && n >= l.concurrent)
    return under_way("concurrent", l.concurrent, n, 1, limited_concurrent_);
  if (l.requests_per_minute > 0 && requests_.level < 1) {
    KeyRefusal out = refusal("requests_per_minute", l.requests_per_minute, "requests per minute", limited_requests_);
    out.retry_after_s = requests_.seconds_until_positive();
    return out;
  }
  if (l.tokens_per_minute > 0 && tokens_.level < 1) {
    KeyRefusal out = refusal("tokens_per_minute", l.tokens_per_minute, "tokens per minute", limited_tokens_);
    out.retry_after_s = tokens_.seconds_until_positive();
    return out;
  }
  requests_.level -= 1;
  n_requests_.add();
  n_sequences_.fetch_add(1);
  lease = KeyLease(shared_from_this());
  return std::nullopt;
}

void KeyHolder::charge_prompt(int64_t n) {
  n_prompt_.add(static_cast<uint64_t>(n));
  unpaid_.fetch_add(n, std::memory_order_relaxed);
}

void KeyHolder::charge_generated(int64_t n) {
  n_generated_.add(static_cast<uint64_t>(n));
  unpaid_.fetch_add(n, std::memory_order_relaxed);
}

KeyRing::KeyRing(std::vector<ApiKey> keys, Metrics& metrics) {
  for (ApiKey& key : keys) {
    has_admin_ |= key.admin;
    has_inference_ |= key.inference;
    holders_.push_back(std::make_shared<KeyHolder>(std::move(key), holders_.size() + 1, metrics));
  }
}

std::shared_ptr<KeyHolder> KeyRing::find(const Sha256& hash) const {
  std::shared_ptr<KeyHolder> found;
  for (const auto& holder : holders_)
    if (same_digest(holder->key().hash, hash)) found = holder;
  return found;
}

std::optional<KeyRefusal> KeyRing::check(const Sha256& hash,
                                         bool admin,
                                         bool inference,
                                         std::shared_ptr<KeyHolder>& key) const {
  if (empty() || (!admin && !has_inference_)) return std::nullopt;
  auto found = find(hash);
  if (found == nullptr)
    return KeyRefusal{{401, "a valid key is needed, as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\"",
                       "authentication_error", "", "invalid_api_key"}};
  const bool needs_admin = admin && has_admin_;
  if (needs_admin ? !found->key().admin : inference && !found->key().inference)
    return KeyRefusal{{403, std::string("this key lacks the scope ") + (needs_admin ? "admin" : "inference"),
                       "permission_error", "", "insufficient_scope"}};
  key = std::move(found);
  return std::nullopt;
}

}  // namespace quire
