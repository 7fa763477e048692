// KV events of a server: what the engine's thread tells of its blocks, on its way to the publisher. The only place that
// knows both.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "app/command.h"
#include "base/metrics.h"
#include "base/result.h"
#include "events/kv_mirror.h"
#include "events/kv_publisher.h"
#include "kv/block_watcher.h"

namespace quire {

struct KvEventOptions {
  std::string address, replay_address;  // PORT, HOST:PORT or ipc://PATH; empty: none
  std::string pod;                      // empty: the machine's name
};
void declare_kv_event_options(CommandLine& line, KvEventOptions& options);
// What can be known to be wrong at once.
Status check_kv_events(const KvEventOptions& options, bool prefix_cache);

class KvEvents final : public BlockWatcher {
 public:
  // Null where none are wanted. Says in the log where they are, and warns where others than this machine can read them.
  static Result<std::unique_ptr<KvEvents>> start(const KvEventOptions& options,
                                                 const std::string& model,
                                                 int block_tokens,
                                                 Metrics& metrics);

  // What they call blocks under this salt. Any thread.
  std::string salt_name(uint64_t salt) const { return publisher_->salt_name(salt); }

  void stored(const LeavingBlock& block) override;
  void removed(const Hash128& name) override;
  void step_ended() override;

 private:
  explicit KvEvents(int block_tokens) : mirror_(block_tokens) {}
  std::optional<KvAll> all();

  KvNews news_;           // of the engine's thread, as
  bool broken_ = false;   // whether it lacks something
  bool mirrors_ = false;  // somebody can ask for all that there is
  std::mutex mutex_;
  KvMirror mirror_;                         // guarded by mutex_: what batches up to number_ say
  uint64_t number_ = 0;                     // likewise
  std::unique_ptr<KvPublisher> publisher_;  // last: its thread asks for all
};

}  // namespace quire
