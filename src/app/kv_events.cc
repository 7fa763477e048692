#include "app/kv_events.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <new>
#include <utility>

#include "base/log.h"
#include "http/guard.h"
#include "kv/prefix_tree.h"

namespace quire {
namespace {

constexpr size_t kMostPodBytes = 256;
constexpr std::string_view kIpc = "ipc://";

struct Place {
  std::string address;   // as libzmq writes it
  bool is_open = false;  // to others than this machine
};

Result<Place> parse_place(const std::string& option, const std::string& text) {
  if (text.starts_with(kIpc) && text.size() > kIpc.size()) return Place{text, false};
  const size_t colon = text.rfind(':');
  const std::string host = colon == text.npos ? "127.0.0.1" : text.substr(0, colon);
  const std::string_view digits = std::string_view(text).substr(colon == text.npos ? 0 : colon + 1);
  int port = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port < 0 || port > 65535 || host.empty() ||
      host.find('/') != host.npos) {
    return fail(Code::invalid, option + " must be PORT, HOST:PORT or ipc://PATH, got \"" + text + "\"");
  }
  const std::string number = host == "localhost" ? "127.0.0.1" : host;
  return Place{"tcp://" + number + ":" + (port == 0 ? "*" : std::to_string(port)), !is_loopback(host)};
}

std::string machine_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

void declare_kv_event_options(CommandLine& line, KvEventOptions& options) {
  line.option("--kv-events", options.address,
              "publish which blocks the cache has, as vLLM does (ZeroMQ): PORT of this machine, HOST:PORT or "
              "ipc://PATH. They hold the tokens of prompts, and whoever reaches the address reads them");
  line.option("--kv-events-replay", options.replay_address,
              "where subscribers ask for events that they have missed, likewise");
  line.option("--kv-events-pod", options.pod,
              "what the server is called in the events' topic, kv@POD@MODEL; default: the machine's name");
}

Status check_kv_events(const KvEventOptions& options, bool prefix_cache) {
  if (options.pod.size() > kMostPodBytes || options.pod.find('@') != options.pod.npos) {
    return fail(Code::invalid, "--kv-events-pod must be at most " + std::to_string(kMostPodBytes) +
                                   " bytes without @, got \"" + options.pod.substr(0, kMostPodBytes) + "\"");
  }
  if (!options.replay_address.empty()) {
    QR_TRY_VOID(parse_place("--kv-events-replay", options.replay_address));
  }
  if (options.address.empty() && !options.replay_address.empty()) {
    return fail(Code::invalid, "--kv-events-replay " + options.replay_address +
                                   " needs --kv-events: without it there is nothing to say again");
  }
  if (options.address.empty()) return {};
  if (!prefix_cache) return fail(Code::invalid, "--kv-events needs the prefix cache; leave out --no-prefix-cache");
  QR_TRY_VOID(parse_place("--kv-events", options.address));
  return {};
}

Result<std::unique_ptr<KvEvents>> KvEvents::start(const KvEventOptions& options,
                                                  const std::string& model,
                                                  int block_tokens,
                                                  Metrics& metrics) {
  if (options.address.empty()) return nullptr;
  QR_TRY(const Place place, parse_place("--kv-events", options.address));
  KvPublisherOptions publishing;
  publishing.address = place.address;
  bool is_open = place.is_open;
  if (!options.replay_address.empty()) {
    QR_TRY(const Place replay, parse_place("--kv-events-replay", options.replay_address));
    publishing.replay_address = replay.address;
    is_open |= replay.is_open;
  }
  publishing.topic = "kv@" + (options.pod.empty() ? machine_name() : options.pod) + "@" + model;
  publishing.block_tokens = block_tokens;
  std::unique_ptr<KvEvents> out(new KvEvents(block_tokens));
  out->mirrors_ = !publishing.replay_address.empty();
  publishing.all = [events = out.get()] { return events->all(); };
  auto publisher = KvPublisher::start(publishing, metrics);
  if (!publisher) return fail(publisher.error().code, "--kv-events: " + publisher.error().message);
  out->publisher_ = std::move(*publisher);
  const std::string& replay = out->publisher_->replay_address();
  log_info("KV events on " + out->publisher_->address() + (replay.empty() ? "" : ", again on " + replay) + ", topic " +
           publishing.topic);
  if (is_open) log_warn("KV events hold the tokens of prompts, and other machines may read them without a key");
  return out;
}

void KvEvents::stored(const LeavingBlock& block) {
  try {
    news_.tokens.insert(news_.tokens.end(), block.tokens.begin(), block.tokens.end());
    news_.blocks.push_back({block.name, block.parent, block.key.adapter, block.key.salt, true});
  } catch (const std::bad_alloc&) {
    broken_ = true;
  }
}

void KvEvents::removed(const Hash128& name) {
  try {
    news_.blocks.push_back({name, {}, 0, 0, false});
  } catch (const std::bad_alloc&) {
    broken_ = true;
  }
}

// The mirror and the number go on together, so that what somebody is told of all agrees with the batches behind it.
void KvEvents::step_ended() {
  if (news_.empty() && !broken_) return;
  const std::lock_guard lock(mutex_);
  if (std::exchange(broken_, false)) {
    mirror_.miss();
    publisher_->lose();
  } else {
    if (mirrors_) mirror_.apply(news_);
    publisher_->publish(std::move(news_));
  }
  news_ = KvNews();
  number_ = publisher_->next_number() - 1;
}

std::optional<KvAll> KvEvents::all() {
  const std::lock_guard lock(mutex_);
  std::optional<KvNews> news = mirror_.all();
  if (!news) return std::nullopt;
  return KvAll{std::move(*news), number_};
}

}  // namespace quire
