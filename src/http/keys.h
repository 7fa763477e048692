// Who may ask, and how much. A key is known by its name and its SHA-256, never by its text; what it may do are scopes,
// how much are limits per minute and under way. The one idea: a limit is a bucket that fills evenly, and what a request
// used is taken out when it is known, so a bucket may be in debt and nothing has to be guessed beforehand.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/sha256.h"
#include "http/message.h"

namespace quire {

struct KeyLimits {  // 0: none
  int64_t requests_per_minute = 0, tokens_per_minute = 0;
  int64_t concurrent = 0;        // sequences under way: each prompt's candidates; a request whose body comes is one
  int64_t tokens_under_way = 0;  // over these, prompts and what answers may come to
};
inline constexpr int kMostKeyWeight = 100;
inline constexpr int64_t kMostDeadlineMs = 86'400'000;  // a day

struct ApiKey {
  std::string name;  // for logs and metrics: 1 to 64 of [A-Za-z0-9_.-]
  Sha256 hash{};
  bool inference = true, admin = false;  // scopes
  KeyLimits limits;
  int64_t deadline_ms = 0;  // of its requests that name none; 0: none
  int weight = 1;           // of its share beside other keys', 1 to kMostKeyWeight
};

// A key given as it is, without limits.
ApiKey plain_key(std::string name, std::string_view text, bool inference, bool admin);
// A key file: {"keys":[{"name","sha256","scopes":["inference","admin"],"requests_per_minute","tokens_per_minute",
// "concurrent","tokens_under_way","weight","deadline_ms"}]}. Fails (Code::invalid) naming the entry and the field.
Result<std::vector<ApiKey>> read_keys(std::string_view json);

// The key that a request carries, as OpenAI's clients send it, or Anthropic's; empty for none.
std::string_view sent_key(const HttpRequest& request);

// What is refused because of a key's limit: a 429, or a 400 where the limit is too small for the request.
struct KeyRefusal {
  HttpError error;
  int64_t retry_after_s = 0;  // 0: as the engine predicts
};

class KeyHolder;

// One request of a key, from its admission to the end of its reply, and what it has under way.
class KeyLease {
 public:
  KeyLease() = default;
  explicit KeyLease(std::shared_ptr<KeyHolder> holder) : holder_(std::move(holder)), n_sequences_(1) {}
  KeyLease(KeyLease&& other) noexcept { swap(other); }
  KeyLease& operator=(KeyLease&& other) noexcept {
    swap(other);
    return *this;
  }
  ~KeyLease();

 private:
  friend class KeyHolder;
  void swap(KeyLease& other) noexcept {
    std::swap(holder_, other.holder_);
    std::swap(n_sequences_, other.n_sequences_);
    std::swap(n_tokens_, other.n_tokens_);
  }

  std::shared_ptr<KeyHolder> holder_;
  int64_t n_sequences_ = 0, n_tokens_ = 0;
};

// A key in use: shared with the sequences that it pays for, which may outlive the server. Any thread.
class KeyHolder : public std::enable_shared_from_this<KeyHolder> {
 public:
  KeyHolder(ApiKey key, uint64_t number, Metrics& metrics);

  const ApiKey& key() const { return key_; }
  uint64_t number() const { return number_; }  // its own of the ring, from 1
  // Admits one request, or says which limit is reached. A refused request counts for nothing.
  std::optional<KeyRefusal> enter(int64_t now_ns, KeyLease& lease);
  // What an admitted request was found to ask for takes the place of the one sequence that it counted as; or says which
  // limit would be passed, and changes nothing.
  std::optional<KeyRefusal> take(int64_t n_sequences, int64_t n_tokens, KeyLease& lease);
  // Tokens that a request was found to have, or has generated. Waits for nobody.
  void charge_prompt(int64_t n);
  void charge_generated(int64_t n);

 private:
  friend class KeyLease;
  struct Bucket {  // holds a minute's worth, full at first
    int64_t per_minute = 0;
    double level = 0;
    int64_t seconds_until_positive() const;
  };
  void fill(int64_t now_ns);  // REQUIRES mu_
  KeyRefusal refusal(std::string_view limit, int64_t value, std::string_view what, Counter& counter) const;

  KeyRefusal under_way(
      std::string_view limit, int64_t value, int64_t n_others, int64_t n_asked, Counter& counter) const;

  const ApiKey key_;
  const uint64_t number_;
  Counter &n_requests_, &n_prompt_, &n_generated_, &limited_requests_, &limited_tokens_, &limited_concurrent_,
      &limited_under_way_;
  std::atomic<int64_t> unpaid_{0}, n_sequences_{0}, n_tokens_{0};
  std::mutex mu_;  // guards what follows; never held by the engine thread
  Bucket requests_, tokens_;
  int64_t filled_ns_ = 0;
};

// All keys of a server; none: nobody is asked for one. Read-only once made, so any thread may look.
class KeyRing {
 public:
  KeyRing(std::vector<ApiKey> keys, Metrics& metrics);
  bool empty() const { return holders_.empty(); }
  // Whose key `sent` is, null for nobody's. Takes the same time for every wrong one of a length.
  std::shared_ptr<KeyHolder> find(std::string_view sent) const { return find(sha256(sent)); }
  std::shared_ptr<KeyHolder> find(const Sha256& hash) const;
  // Whose key this is, into `key`, or why it may not. `admin`: it is the operator's business; `inference`: it needs
  // that scope. Without keys everybody may do everything; where no key is the operator's, any key is.
  std::optional<KeyRefusal> check(const Sha256& hash,
                                  bool admin,
                                  bool inference,
                                  std::shared_ptr<KeyHolder>& key) const;
  // Whether some key has the scope admin: then only such keys open what is the operator's.
  bool has_admin() const { return has_admin_; }

 private:
  std::vector<std::shared_ptr<KeyHolder>> holders_;
  bool has_admin_ = false, has_inference_ = false;
};

}  // namespace quire
