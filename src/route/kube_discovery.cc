#include "route/kube_discovery.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "base/log.h"
#include "base/nanoseconds.h"
#include "http/server_url.h"
#include "http/tls.h"

namespace quire {
namespace {

constexpr std::chrono::milliseconds kSweepEvery{100};
constexpr int64_t kRetryMs = 500, kMostRetryMs = 30'000;  // after a question that failed; twice as long each time
constexpr size_t kMostListBytes = 32 << 20, kMostLineBytes = 4 << 20;
constexpr int64_t kMostFileBytes = 64 << 10;
constexpr const char* kAccount = "/var/run/secrets/kubernetes.io/serviceaccount/";

// Without blanks around it.
Result<std::string> first_word(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string out(kMostFileBytes, '\0');
  in.read(out.data(), kMostFileBytes);
  if (!in.is_open() || in.bad()) return fail(Code::io, path + " cannot be read");
  out.resize(static_cast<size_t>(in.gcount()));
  const size_t begin = std::min(out.find_first_not_of(" \t\r\n"), out.size());
  out = out.substr(begin, out.find_first_of(" \t\r\n", begin) - begin);
  if (out.empty()) return fail(Code::io, path + " is empty");
  return out;
}

std::string words_for(const KubeService& service) { return "route: the pods of " + service.space + "/" + service.name; }

}  // namespace

// A service, and what is known of it. Of one io thread at a time, and of the sweeper while nothing is asked.
struct KubeDiscovery::Watched {
  explicit Watched(KubeService of) : service(std::move(of)), slices(service.port) {}
  const KubeService service;
  KubeSlices slices;
  std::vector<WorkerSpec> workers;  // guarded by mu_
  std::string last_failure;
  std::shared_ptr<Upstream> exchange;  // that is under way
  std::atomic<bool> asked{false};
  bool watches = false;  // what was asked last
  int64_t retry_ms = kRetryMs, ask_at_ns = 0;
};

// One list, or one watch for as long as it lasts.
class KubeDiscovery::Question final : public UpstreamEvents, public std::enable_shared_from_this<Question> {
 public:
  Question(KubeDiscovery& owner, Watched& one, bool watches, RaisedFlag flag)
      : owner_(owner), one_(one), watches_(watches), flag_(std::move(flag)) {}
  void on_head(UpstreamHead&& head) override { status_ = head.status; }
  bool on_body(std::string_view bytes) override {
    held_ += bytes;
    if (watches_ && status_ == 200) take_lines();
    const size_t most = watches_ ? kMostLineBytes : kMostListBytes;
    if (held_.size() > most) failure_ = "it says more than " + std::to_string(most) + " bytes at once";
    if (failure_.empty()) return true;
    const auto self = shared_from_this();  // which the exchange lets go of
    std::exchange(one_.exchange, nullptr)->cancel();
    owner_.ended(one_, failure_);
    return true;
  }
  void on_end(const UpstreamError* error) override {
    if (error != nullptr)
      failure_ = error->message;
    else if (status_ != 200)
      failure_ = "status " + std::to_string(status_) + words_of_refusal();
    else if (!watches_)
      note(one_.slices.list(held_));
    one_.exchange.reset();
    owner_.ended(one_, failure_);
  }

 private:
  void take_lines() {
    size_t begin = 0;
    for (size_t end = held_.find('\n'); end != std::string::npos && failure_.empty(); end = held_.find('\n', begin)) {
      note(one_.slices.change(std::string_view(held_).substr(begin, end - begin)));
      begin = end + 1;
    }
    held_.erase(0, begin);
    if (begin == 0) return;
    owner_.heard(one_);
    if (failure_.empty()) owner_.watched_well(one_);
  }
  void note(const Status& status) {
    if (!status) failure_ = status.error().message;
  }
  std::string words_of_refusal() const {
    const auto body = Json::parse(held_);
    const Json* message = body ? body->find("message") : nullptr;
    return message != nullptr && message->as_string() != nullptr ? ": " + shown(*message->as_string()) : "";
  }

  KubeDiscovery& owner_;
  Watched& one_;
  const bool watches_;
  const RaisedFlag flag_;
  int status_ = 0;
  std::string held_, failure_;
};

Result<KubeApi> kube_api_of_pod() {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr)
    return fail(Code::not_found,
                "this is no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not in the environment");
  const bool v6 = std::string_view(host).find(':') != std::string_view::npos;
  const auto read =
      parse_server_url("https://" + (v6 ? "[" + std::string(host) + "]" : std::string(host)) + ":" + port);
  if (!read) return fail(Code::invalid, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: " + read.error().message);
  const std::string account = kAccount;
  return KubeApi{read->at, account + "ca.crt", account + "token", account + "namespace"};
}

Result<std::unique_ptr<KubeDiscovery>> KubeDiscovery::start(Server& server,
                                                            std::vector<KubeService> services,
                                                            const KubeApi& api,
                                                            Changed changed) {
  UpstreamLimits limits;
  limits.first_byte_ms = 30'000;
  limits.stall_ms = 330'000;  // a watch in which nothing happens ends after 300 s
  QR_TRY(limits.trust, TlsTrust::load(api.ca_file));
  QR_TRY_VOID(first_word(api.token_file));
  std::unique_ptr<KubeDiscovery> out(new KubeDiscovery(server, api, limits, std::move(changed)));
  for (KubeService& service : services) {
    if (service.space.empty()) {
      QR_TRY(service.space, first_word(api.space_file));
    }
    out->watched_.push_back(std::make_shared<Watched>(std::move(service)));
  }
  out->sweeper_ = std::make_unique<Sweeper>(kSweepEvery, [owner = out.get()] { owner->sweep(); });
  return out;
}

KubeDiscovery::KubeDiscovery(Server& server, KubeApi api, UpstreamLimits limits, Changed changed)
    : server_(server), api_(std::move(api)), limits_(std::move(limits)), changed_(std::move(changed)) {}

KubeDiscovery::~KubeDiscovery() = default;

void KubeDiscovery::sweep() {
  for (const auto& one : watched_) {
    if (one->asked.load() || clock_.now_ns() < one->ask_at_ns) continue;
    one->asked.store(true);
    server_.post([this, watched = one.get(), flag = lower_at_end(one->asked, one)] { ask(*watched, flag); });
  }
}

void KubeDiscovery::ask(Watched& one, const RaisedFlag& flag) {
  one.ask_at_ns = clock_.now_ns() + one.retry_ms * kNsPerMs;  // where nobody comes to say better
  const bool watches = !one.slices.version().empty();
  const auto token = first_word(api_.token_file);
  if (!token) return ended(one, token.error().message);
  one.watches = watches;
  UpstreamRequest request;
  request.to = api_.at;
  request.target = watches ? one.service.watch_path(one.slices.version()) : one.service.list_path();
  request.headers = {{"authorization", "Bearer " + *token}, {"accept", "application/json"}};
  one.exchange = ask_upstream(std::move(request), limits_, std::make_shared<Question>(*this, one, watches, flag));
}

void KubeDiscovery::heard(Watched& one) {
  std::vector<WorkerSpec> workers = one.slices.workers();
  const std::lock_guard lock(mu_);
  one.workers = std::move(workers);
  std::vector<WorkerSpec> all;
  for (const auto& each : watched_) all.insert(all.end(), each->workers.begin(), each->workers.end());
  if (all == told_) return;
  told_ = all;
  changed_(all);
}

// A list alone does not count: who may list but not watch would be asked again and again without a pause.
void KubeDiscovery::watched_well(Watched& one) {
  if (!one.last_failure.empty()) log_info(words_for(one.service) + " are known again");
  one.last_failure.clear();
  one.retry_ms = kRetryMs;
}

// A watch that ends well goes on from where it was. After a failure all is listed anew, for what was missed.
void KubeDiscovery::ended(Watched& one, const std::string& why) {
  if (why.empty()) {
    heard(one);
    if (one.watches) watched_well(one);
    one.ask_at_ns = one.watches ? clock_.now_ns() + kRetryMs * kNsPerMs : 0;
  } else {
    if (why != one.last_failure) log_warn(words_for(one.service) + " cannot be asked for: " + why);
    one.slices.forget_version();
    one.ask_at_ns = clock_.now_ns() + one.retry_ms * kNsPerMs;
    one.retry_ms = std::min(2 * one.retry_ms, kMostRetryMs);
    one.last_failure = why;
  }
}

}  // namespace quire
