// News of cached blocks as vLLM writes its KV events: a MessagePack array [time, events, rank], each event a map with
// its name under "type". What others may see of a block is its tokens; its name and its salt, which are made of keys,
// are hashed with a secret of this process, so neither can be tried out elsewhere. Immutable: any thread.
// Source: vllm/distributed/kv_events.py of vLLM 0.26.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "events/kv_news.h"

namespace quire {

class KvEncoder {
 public:
  using Secret = std::array<uint64_t, 4>;
  KvEncoder(int block_tokens, const Secret& secret) : block_tokens_(block_tokens), secret_(secret) {}

  // `time_s`: seconds since 1970. Blocks of one path that follow each other are one event.
  std::string encode(const KvNews& news, double time_s) const;
  // What a block is called there.
  uint64_t hash_of(const Hash128& name) const;
  // What a salt is called. REQUIRES it is not 0.
  std::string salt_name(uint64_t salt) const;

 private:
  uint64_t hashed(uint64_t kind, uint64_t a, uint64_t b) const;

  const int block_tokens_;
  const Secret secret_;
};

// As events and replays number their batches: eight bytes, the highest first.
std::string sequence_bytes(uint64_t number);
// The number of such bytes; nullopt where they are not eight.
inline std::optional<uint64_t> sequence_number(std::string_view bytes) {
  if (bytes.size() != sizeof(uint64_t)) return std::nullopt;
  uint64_t out = 0;
  for (const char c : bytes) out = out << 8 | static_cast<unsigned char>(c);
  return out;
}

}  // namespace quire
