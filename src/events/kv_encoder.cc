#include "events/kv_encoder.h"

#include <cstring>
#include <span>
#include <vector>

#include "base/sha256.h"
#include "events/msgpack_writer.h"

namespace quire {
namespace {

using Blocks = std::span<const KvNews::Block>;

// Whether `next` goes on where `last` ended, or leaves beside it.
bool goes_on(const KvNews::Block& last, const KvNews::Block& next) {
  if (last.stored != next.stored) return false;
  return !next.stored || (next.parent == last.name && next.adapter == last.adapter);
}

std::vector<Blocks> runs_of(Blocks blocks) {
  std::vector<Blocks> out;
  for (size_t begin = 0, end = 0; begin < blocks.size(); begin = end) {
    for (end = begin + 1; end < blocks.size() && goes_on(blocks[end - 1], blocks[end]);) ++end;
    out.push_back(blocks.subspan(begin, end - begin));
  }
  return out;
}

std::string hex_of_number(uint64_t number) {
  const std::string bytes = sequence_bytes(number);
  return hex_of(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
}

}  // namespace

uint64_t KvEncoder::hashed(uint64_t kind, uint64_t a, uint64_t b) const {
  std::array<uint64_t, 7> text{};
  std::memcpy(text.data(), secret_.data(), sizeof(secret_));
  text[4] = kind;
  text[5] = a;
  text[6] = b;
  const Sha256 digest = sha256({reinterpret_cast<const char*>(text.data()), sizeof(text)});
  uint64_t out = 0;
  std::memcpy(&out, digest.data(), sizeof(out));
  return out;
}

uint64_t KvEncoder::hash_of(const Hash128& name) const { return hashed(0, name.lo, name.hi); }

std::string KvEncoder::salt_name(uint64_t salt) const { return hex_of_number(hashed(1, salt, 0)); }

std::string KvEncoder::encode(const KvNews& news, double time_s) const {
  MsgpackWriter out;
  const std::vector<Blocks> runs = runs_of(news.blocks);
  out.array(3);
  out.real(time_s);
  out.array(static_cast<uint32_t>(runs.size()) + (news.all_cleared ? 1 : 0));
  if (news.all_cleared) {
    out.map(1);
    out.text("type");
    out.text("AllBlocksCleared");
  }
  const auto hashes = [&](Blocks run) {
    out.text("block_hashes");
    out.array(static_cast<uint32_t>(run.size()));
    for (const KvNews::Block& block : run) out.count(hash_of(block.name));
  };
  std::span<const Token> tokens(news.tokens);
  for (const Blocks run : runs) {
    const KvNews::Block& first = run.front();
    const bool salted = run.back().salt != 0;  // blocks without a salt come before those that have one
    out.map(!first.stored ? 3 : salted ? 9 : 8);
    out.text("type");
    out.text(first.stored ? "BlockStored" : "BlockRemoved");
    hashes(run);
    out.text("medium");
    out.text("GPU");  // vLLM's word for where the engine computes
    if (!first.stored) continue;
    out.text("parent_block_hash");
    first.parent == Hash128() ? out.nil() : out.count(hash_of(first.parent));
    const size_t n_tokens = run.size() * static_cast<size_t>(block_tokens_);
    out.text("token_ids");
    out.array(static_cast<uint32_t>(n_tokens));
    for (const Token token : tokens.first(n_tokens)) out.integer(token);
    tokens = tokens.subspan(n_tokens);
    out.text("block_size");
    out.integer(block_tokens_);
    out.text("lora_id");
    out.nil();
    out.text("lora_name");
    first.adapter == 0 ? out.nil() : out.text(hex_of_number(first.adapter));
    if (!salted) continue;
    out.text("extra_keys");
    out.array(static_cast<uint32_t>(run.size()));
    for (const KvNews::Block& block : run) {
      if (block.salt == 0) {
        out.nil();
        continue;
      }
      out.array(1);
      out.text(salt_name(block.salt));
    }
  }
  out.integer(0);  // the rank: there is one engine
  return out.take();
}

std::string sequence_bytes(uint64_t number) {
  std::string out;
  for (int i = 7; i >= 0; --i) out += static_cast<char>(number >> (8 * i) & 0xff);
  return out;
}

}  // namespace quire
