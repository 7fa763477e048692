#include "events/kv_publisher.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <utility>

#include "base/secure_random.h"
#include "base/thread.h"

namespace quire {
namespace {

constexpr int kMostUnsent = 10'000;    // batches of a subscriber that reads too slowly
constexpr int64_t kMostAsked = 4'096;  // bytes of a frame that a subscriber sends
constexpr uint64_t kEnd = UINT64_MAX;  // −1

KvEncoder::Secret make_secret() {
  return {secure_random_bits(), secure_random_bits(), secure_random_bits(), secure_random_bits()};
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

KvPublisher::KvPublisher(KvPublisherOptions options, Metrics& metrics)
    : options_(std::move(options)),
      encoder_(options_.block_tokens, make_secret()),
      topic_(std::make_shared<const std::string>(options_.topic)),
      nothing_(std::make_shared<const std::string>()),
      n_sent_(metrics.counter("quire_kv_events_batches_total", "Batches of KV events that were published.")),
      n_lost_(metrics.counter("quire_kv_events_lost_batches_total",
                              "Batches that were not: their numbers are missing, and subscribers see the gap.")),
      n_stored_(metrics.counter("quire_kv_events_blocks_total", "Blocks in them.", {{"event", "stored"}})),
      n_removed_(metrics.counter("quire_kv_events_blocks_total", "Blocks in them.", {{"event", "removed"}})),
      n_replays_(metrics.counter("quire_kv_events_replays_total", "Times that batches were said again.")),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Result<std::unique_ptr<KvPublisher>> KvPublisher::start(KvPublisherOptions options, Metrics& metrics) {
  std::unique_ptr<KvPublisher> out(new KvPublisher(std::move(options), metrics));
  QR_TRY_VOID(out->open());
  KvNews first;
  first.all_cleared = true;
  out->publish(std::move(first));
  out->thread_ = std::thread([publisher = out.get()] { publisher->run(); });
  return out;
}

Status KvPublisher::open() {
  QR_TRY(const std::shared_ptr<ZmqContext> context, ZmqContext::open());
  QR_TRY(pub_, ZmqSocket::open(context, ZmqKind::pub, {kMostUnsent, kMostUnsent, kMostAsked}));
  QR_TRY_VOID(pub_->bind(options_.address));
  address_ = pub_->address();
  if (options_.replay_address.empty()) return {};
  // A replay is queued whole: batches, and the end.
  const auto most = static_cast<int>(options_.replay_batches) + 1;
  QR_TRY(replay_, ZmqSocket::open(context, ZmqKind::router, {most, kMostUnsent, kMostAsked}));
  QR_TRY_VOID(replay_->bind(options_.replay_address));
  replay_address_ = replay_->address();
  return {};
}

KvPublisher::~KvPublisher() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

void KvPublisher::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_fd_.get(), &one, sizeof(one));  // full: it is awake
}

void KvPublisher::publish(KvNews&& news) {
  if (news.empty()) return;
  const uint64_t number = next_++;
  const int64_t bytes = news.bytes();
  bool was_empty = false, taken = false;
  {
    const std::lock_guard lock(mutex_);
    was_empty = queue_.empty();
    if (queue_bytes_ + bytes <= options_.queue_bytes) {
      try {
        queue_.push_back({number, std::move(news)});
        queue_bytes_ += bytes;
        taken = true;
      } catch (const std::bad_alloc&) {
        taken = false;
      }
    }
  }
  if (!taken) n_lost_.add();
  if (taken && was_empty) wake();
}

void KvPublisher::lose() {
  ++next_;
  n_lost_.add();
}

std::deque<KvPublisher::Batch> KvPublisher::take_queue(bool& ending) {
  const std::lock_guard lock(mutex_);
  ending = ending_;
  queue_bytes_ = 0;
  return std::exchange(queue_, {});
}

void KvPublisher::run() {
  set_thread_name("qr-kv-events");
  ZmqSocket* const asked = replay_.get();
  const std::span<ZmqSocket* const> sockets(&asked, asked != nullptr ? 1 : 0);
  for (bool ending = false; !ending;) {
    ZmqSocket::wait(sockets, wake_fd_.get(), -1);
    uint64_t n_wakes = 0;
    [[maybe_unused]] const ssize_t n = ::read(wake_fd_.get(), &n_wakes, sizeof(n_wakes));
    for (const Batch& batch : take_queue(ending)) try_send(batch);
    if (replay_ != nullptr) answer_one_replay();
  }
}

void KvPublisher::try_send(const Batch& batch) {
  try {
    send(batch);
  } catch (const std::bad_alloc&) {
    n_lost_.add();
  }
}

void KvPublisher::send(const Batch& batch) {
  const auto payload = std::make_shared<const std::string>(encoder_.encode(batch.news, wall_seconds()));
  const auto number = std::make_shared<const std::string>(sequence_bytes(batch.number));
  pub_->send(std::array{topic_, number, payload});
  n_sent_.add();
  const auto n_stored = std::ranges::count(batch.news.blocks, true, &KvNews::Block::stored);
  n_stored_.add(static_cast<uint64_t>(n_stored));
  n_removed_.add(batch.news.blocks.size() - static_cast<uint64_t>(n_stored));
  if (replay_ != nullptr) keep(batch.number, payload);
}

void KvPublisher::keep(uint64_t number, const ZmqFrame& payload) {
  sent_.push_back({number, payload});
  sent_bytes_ += static_cast<int64_t>(payload->size());
  while (sent_bytes_ > options_.replay_bytes || std::ssize(sent_) > options_.replay_batches) {
    sent_bytes_ -= static_cast<int64_t>(sent_.front().payload->size());
    sent_.pop_front();
  }
}

bool KvPublisher::say(const ZmqFrame& peer, uint64_t number, const ZmqFrame& payload) {
  const auto numbered = std::make_shared<const std::string>(sequence_bytes(number));
  return replay_->send(std::array{peer, nothing_, numbered, payload});
}

void KvPublisher::say_all(const ZmqFrame& peer) {
  const std::optional<KvAll> all = options_.all ? options_.all() : std::nullopt;
  if (!all) return;
  say(peer, all->number, std::make_shared<const std::string>(encoder_.encode(all->news, wall_seconds())));
}

// One in a turn, so that whoever asks all the time holds no batch up for longer than that. Without memory it is cut
// short, and no end is said.
void KvPublisher::answer_one_replay() try {
  const std::optional<std::vector<std::string>> request = replay_->receive();
  if (!request || request->size() != 3 || !(*request)[1].empty()) return;
  const auto from = sequence_number((*request)[2]);
  if (!from) return;
  n_replays_.add();
  const auto peer = std::make_shared<const std::string>((*request)[0]);
  if (*from == kEnd) say_all(peer);
  for (const Sent& batch : sent_) {
    if (batch.number >= *from && !say(peer, batch.number, batch.payload)) return;
  }
  say(peer, kEnd, nothing_);
} catch (const std::bad_alloc&) {
  return;
}

}  // namespace quire
