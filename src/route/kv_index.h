// Which worker has which blocks of prompts in its cache, by the workers' own KV events. The one idea: workers call
// their blocks as they like, so a block is known here by a hash of all tokens up to its end, made the same way for
// every worker; what an event names as parent says where a block's tokens go on. So a prompt's tokens find what each
// worker holds of it, whatever engine it is. Beside what a worker said there is what it was given just now and will
// soon say. Bounded: so many blocks in all, of which each worker has an equal share. Any thread; nothing here waits.
// Source of what a second copy of a block means: vllm/v1/core/block_pool.py of vLLM 0.9 to 0.26, and its pull requests
// 45261 (what was found is told of again) and 55092 (only the last copy is told of as removed).
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "events/kv_batch.h"

namespace quire {

class KvIndex {
 public:
  // `secret`: what names of blocks are made with, so that nobody can choose tokens that are taken for others.
  KvIndex(int64_t most_blocks, uint64_t secret) : most_blocks_(most_blocks), secret_(secret) {}

  // These alone are known of from now on.
  void set_workers(std::span<const uint64_t> workers);

  // strange: it goes on from a block that nobody has told of, or its blocks have another size than those before.
  // full: the worker's share of blocks does not do; what of it was taken stays. A worker that is not known: well.
  enum class Taken : uint8_t { well, strange, full };
  Taken take(uint64_t worker, const KvEvent& event);
  // The worker holds nothing.
  void clear(uint64_t worker);
  // Whether what is known of the worker is all; false at first.
  void set_whole(uint64_t worker, bool whole);

  // Of whom a request is, as far as a worker keeps what it computed for some apart from others: what a worker's events
  // have in `extras` for that. `asker`: a number of the key and the salt that the worker is sent, 0: neither.
  void learn_salt(uint64_t worker, uint64_t asker, uint64_t salt);
  // 0 for asker 0; what nobody has learned is a number that no event has.
  uint64_t salt_of(uint64_t worker, uint64_t asker) const;

  struct Sought {
    uint64_t worker = 0, salt = 0;
  };
  struct Hit {
    uint64_t worker = 0;
    int64_t n_tokens = 0;  // of the prompt's beginning, less than all
  };
  // Of whole workers that ever said a block, in the order of `sought`; costs at most kMostSteps, others are left out.
  std::vector<Hit> find(std::span<const Token> tokens, std::span<const Sought> sought, int64_t now_ns);
  // The worker was given this prompt: for kExpectNs it counts as if it held it.
  void expect(const Sought& given, std::span<const Token> tokens, int64_t now_ns);
  static constexpr int64_t kMostSteps = 1 << 16, kExpectNs = 10'000'000'000, kMostExpected = 1 << 12;
  static constexpr int64_t kMostSalts = 1024;  // of a worker; beyond it they are learned anew
  // Blocks of a worker that was told of more often as stored than as removed, the last time as removed: it has another
  // copy, or it does not say so of each. They count as held; beyond this many the oldest does not.
  static constexpr int64_t kMostDoubtful = 1 << 12;
  static constexpr int64_t kWorkerBytes = 56 * kMostExpected + 40 * kMostSalts + 8 * kMostDoubtful;

  bool any_whole() const { return n_whole_.load(std::memory_order_relaxed) > 0; }
  struct State {
    bool whole = false;
    int64_t n_blocks = 0;
  };
  State state(uint64_t worker) const;
  int64_t n_blocks() const;

 private:
  struct Node {
    uint64_t chain = 0, salt = 0;
    uint32_t n_copies = 1;
    uint32_t n_doubts = 0;  // of `doubtful`; 0: it is there
  };
  struct Expected {
    int64_t until_ns = 0;
    std::vector<uint64_t> chains;
  };
  struct Holder {
    std::unordered_map<uint64_t, Node> by_name;       // as the worker calls it
    std::unordered_map<uint64_t, uint32_t> by_chain;  // how many of these
    std::unordered_map<uint64_t, uint64_t> salts;     // by asker
    std::deque<uint64_t> doubtful;                    // names, the oldest first; some of them are so no more
    std::deque<Expected> expected;                    // the soonest to end first
    std::unordered_map<uint64_t, uint32_t> expected_by_chain;
    int64_t n_expected = 0;
    int64_t block_tokens = 0;  // 0: it holds nothing
    bool whole = false;
    bool has(uint64_t chain) const { return by_chain.contains(chain) || expected_by_chain.contains(chain); }
  };
  struct Plain {  // names of a prompt's blocks without a salt
    int64_t block_tokens = 0;
    std::vector<uint64_t> chains;  // the root first
  };

  uint64_t root(int64_t block_tokens, uint64_t adapter) const;
  Taken store(Holder& holder, const KvEvent& event);
  void remove(Holder& holder, const KvEvent& event);
  bool forget_doubtful(Holder& holder);
  void drop(Holder& holder, uint64_t chain);
  // What it held, to be freed without the lock: that takes long where it is much.
  struct Held {
    std::unordered_map<uint64_t, Node> by_name;
    std::unordered_map<uint64_t, uint32_t> by_chain, expected_by_chain;
    std::deque<uint64_t> doubtful;
    std::deque<Expected> expected;
  };
  [[nodiscard]] Held clear(Holder& holder);
  static void expire(Holder& holder, int64_t now_ns);
  const Plain& plain_of(std::vector<Plain>& plains, int64_t block_tokens, std::span<const Token> tokens) const;
  static int64_t walk(
      const Holder& holder, const Plain& plain, uint64_t salt, std::span<const Token> tokens, int64_t& n_steps);

  const int64_t most_blocks_;
  const uint64_t secret_;
  std::atomic<int64_t> n_whole_{0};
  mutable std::mutex mu_;  // guards what follows
  std::unordered_map<uint64_t, Holder> holders_;
  int64_t n_blocks_ = 0;
};

}  // namespace quire
