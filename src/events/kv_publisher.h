// The KV events of an engine on their way to subscribers: a PUB socket that says each batch once, and a ROUTER socket
// that says again what it still has. The one idea: the engine's thread hands a batch over and goes on; where a thread
// of ours cannot follow, the batch is dropped but its number is used up, so that every subscriber sees the gap.
// Frames: topic, number (eight bytes, the highest first), payload (kv_encoder.h). Replay: a request is an empty frame
// and a number; what follows is an empty frame, number and payload of each batch from there on that is still held, and
// number −1 without a payload at the end. Number −1 asks for all that there is now (ours alone): one batch, under the
// number of the last that it stands for, and the end. Source: vllm/distributed/kv_events.py of vLLM 0.26.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/metrics.h"
#include "base/result.h"
#include "events/kv_encoder.h"
#include "events/kv_news.h"
#include "events/zmq_socket.h"

namespace quire {

struct KvAll {
  KvNews news;
  uint64_t number = 0;  // of the last batch that it stands for
};

struct KvPublisherOptions {
  std::string address{};         // as libzmq writes it
  std::string replay_address{};  // likewise; empty: nothing is said again
  std::string topic{};           // kv@POD@MODEL
  // What is there now, asked on the publisher's thread; nullopt: it is not known. Empty: it cannot be asked for.
  std::function<std::optional<KvAll>()> all{};
  int block_tokens = 16;
  int64_t queue_bytes = 16 << 20;                            // of news that wait for the thread
  int64_t replay_bytes = 64 << 20, replay_batches = 10'000;  // that can be said again
};

class KvPublisher {
 public:
  // Says that everything is cleared, as number 0. Fails (Code::io, Code::unsupported) naming the address. `metrics`
  // outlives the result.
  static Result<std::unique_ptr<KvPublisher>> start(KvPublisherOptions options, Metrics& metrics);
  ~KvPublisher();  // says what is still queued
  KvPublisher(const KvPublisher&) = delete;
  KvPublisher& operator=(const KvPublisher&) = delete;

  // The next batch; nothing where it is empty. Never waits. One thread.
  void publish(KvNews&& news);
  // A batch that could not be written down: its number is missing. The same thread.
  void lose();
  // The number of the next batch. The same thread.
  uint64_t next_number() const { return next_; }

  // What events call a salt. Any thread.
  std::string salt_name(uint64_t salt) const { return encoder_.salt_name(salt); }

  const std::string& address() const { return address_; }
  const std::string& replay_address() const { return replay_address_; }

 private:
  struct Batch {
    uint64_t number = 0;
    KvNews news;
  };
  struct Sent {
    uint64_t number = 0;
    ZmqFrame payload;
  };

  KvPublisher(KvPublisherOptions options, Metrics& metrics);
  Status open();
  void wake() const;
  void run();
  std::deque<Batch> take_queue(bool& ending);
  void try_send(const Batch& batch);
  void send(const Batch& batch);
  void keep(uint64_t number, const ZmqFrame& payload);
  void answer_one_replay();
  void say_all(const ZmqFrame& peer);
  bool say(const ZmqFrame& peer, uint64_t number, const ZmqFrame& payload);

  const KvPublisherOptions options_;
  const KvEncoder encoder_;
  const ZmqFrame topic_, nothing_;
  Counter &n_sent_, &n_lost_, &n_stored_, &n_removed_, &n_replays_;
  std::unique_ptr<ZmqSocket> pub_, replay_;  // the latter null without its address
  std::string address_, replay_address_;     // that they are bound to
  uint64_t next_ = 0;

  Fd wake_fd_;
  std::mutex mutex_;
  std::deque<Batch> queue_;  // guarded by mutex_
  int64_t queue_bytes_ = 0;  // likewise
  bool ending_ = false;      // likewise

  std::deque<Sent> sent_;  // of the thread: what can be said again
  int64_t sent_bytes_ = 0;
  std::thread thread_;  // last: it uses the others
};

}  // namespace quire
