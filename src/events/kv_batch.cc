#include "events/kv_batch.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "base/hash128.h"
#include "events/msgpack_reader.h"
#include "events/msgpack_writer.h"

namespace quire {
namespace {

// Fields by the order in which arrays have them; maps name them.
enum class Field : uint8_t { hashes, parent, tokens, block_size, lora_id, medium, lora_name, extras, group, none };
struct FieldName {
  std::string_view name;
  Field field;
};
constexpr std::array kNames = {
    FieldName{"block_hashes", Field::hashes}, FieldName{"parent_block_hash", Field::parent},
    FieldName{"token_ids", Field::tokens},    FieldName{"block_size", Field::block_size},
    FieldName{"lora_id", Field::lora_id},     FieldName{"medium", Field::medium},
    FieldName{"lora_name", Field::lora_name}, FieldName{"extra_keys", Field::extras},
    FieldName{"group_idx", Field::group},
};
constexpr std::array kStoredOrder = {Field::hashes, Field::parent,    Field::tokens, Field::block_size, Field::lora_id,
                                     Field::medium, Field::lora_name, Field::extras, Field::group};
constexpr std::array kRemovedOrder = {Field::hashes, Field::medium, Field::group};

class BatchReader {
 public:
  explicit BatchReader(std::string_view payload) : in_(payload) {}

  Status read(const std::function<void(const KvEvent&)>& each) {
    const auto n_parts = in_.take_array();
    if (!n_parts || *n_parts < 2) return wrong("an array of time and events is missing");
    if (!in_.skip()) return wrong("the time is missing");
    const auto n_events = in_.take_array();
    if (!n_events) return wrong("the events are no array");
    for (uint32_t i = 0; i < *n_events; ++i) {
      bool known = false;
      QR_TRY_VOID(read_event(known));
      if (known) each(event_);
    }
    for (uint32_t i = 2; i < *n_parts; ++i)
      if (!in_.skip()) return wrong("it ends too early");
    return in_.is_at_end() ? Status() : wrong("there is something behind it");
  }

 private:
  Status wrong(std::string_view what) const {
    return fail(Code::invalid, "KV events, byte " + std::to_string(in_.at()) + ": " + std::string(what));
  }

  void forget() {
    event_.in_memory = true;
    event_.group = event_.block_tokens = 0;
    event_.hashes.clear();
    event_.tokens.clear();
    event_.extras.clear();
    event_.has_parent = false;
    event_.parent = event_.adapter = 0;
  }

  bool take_kind(std::string_view name) {
    if (name == "BlockStored") event_.kind = KvEvent::Kind::stored;
    if (name == "BlockRemoved") event_.kind = KvEvent::Kind::removed;
    if (name == "AllBlocksCleared") event_.kind = KvEvent::Kind::cleared;
    return name == "BlockStored" || name == "BlockRemoved" || name == "AllBlocksCleared";
  }

  Status read_event(bool& known) {
    forget();
    if (const auto n_pairs = in_.take_map()) {
      QR_TRY_VOID(read_pairs(*n_pairs, known));
    } else if (const auto n_values = in_.take_array()) {
      QR_TRY_VOID(read_values(*n_values, known));
    } else {
      return wrong("an event is neither a map nor an array");
    }
    return known ? check() : Status();
  }

  // Whether the pairs that come next name a kind that is known, wherever its name stands among them. Takes nothing.
  bool find_kind(uint32_t n_pairs) {
    MsgpackReader ahead = in_;
    for (uint32_t i = 0; i < n_pairs; ++i) {
      const auto name = ahead.take_text();
      if (!name) return false;
      if (*name == "type") {
        const auto kind = ahead.take_text();
        return kind && take_kind(*kind);
      }
      if (!ahead.skip()) return false;
    }
    return false;
  }

  // Fields of a kind that is not known mean what they like.
  Status read_pairs(uint32_t n_pairs, bool& known) {
    known = find_kind(n_pairs);
    for (uint32_t i = 0; i < n_pairs; ++i) {
      const auto name = in_.take_text();
      if (!name) return wrong("the name of a field is no text");
      if (*name == "type") {
        if (!in_.take_text()) return wrong("type is no text");
        continue;
      }
      const auto* at = std::find_if(kNames.begin(), kNames.end(), [&](const FieldName& f) { return f.name == *name; });
      QR_TRY_VOID(read_field(!known || at == kNames.end() ? Field::none : at->field));
    }
    return {};
  }

  Status read_values(uint32_t n_values, bool& known) {
    const auto name = n_values > 0 ? in_.take_text() : std::nullopt;
    if (!name) return wrong("an event has no name");
    known = take_kind(*name);
    for (uint32_t i = 0; i + 1 < n_values; ++i) {
      Field field = Field::none;
      if (known && event_.kind == KvEvent::Kind::stored && i < kStoredOrder.size()) field = kStoredOrder[i];
      if (known && event_.kind == KvEvent::Kind::removed && i < kRemovedOrder.size()) field = kRemovedOrder[i];
      QR_TRY_VOID(read_field(field));
    }
    return {};
  }

  Status read_field(Field field) {
    switch (field) {
      case Field::hashes: return read_hashes();
      case Field::parent: return read_parent();
      case Field::tokens: return read_tokens();
      case Field::block_size: return read_count(event_.block_tokens, "block_size");
      case Field::group: return read_count(event_.group, "group_idx");
      case Field::lora_id: return read_adapter(false);
      case Field::lora_name: return read_adapter(true);
      case Field::medium: return read_medium();
      case Field::extras: return read_extras();
      case Field::none: break;
    }
    return in_.skip() ? Status() : wrong("it ends too early");
  }

  // A number, or bytes that stand for one.
  bool take_hash(uint64_t& out) {
    if (const auto number = in_.take_integer()) {
      out = number->bits;
      return true;
    }
    const auto bytes = in_.take_bytes();
    if (bytes) out = kv_hash(*bytes);
    return bytes.has_value();
  }

  Status read_hashes() {
    const auto n = in_.take_array();
    if (!n || *n > kMostKvEventBlocks)
      return wrong("block_hashes is no array of at most " + std::to_string(kMostKvEventBlocks));
    event_.hashes.resize(*n);
    for (uint64_t& hash : event_.hashes)
      if (!take_hash(hash)) return wrong("block_hashes holds what is neither a number nor bytes");
    return {};
  }

  Status read_parent() {
    event_.has_parent = !in_.take_nil();
    return !event_.has_parent || take_hash(event_.parent) ? Status()
                                                          : wrong("parent_block_hash is neither a number nor bytes");
  }

  Status read_tokens() {
    const auto n = in_.take_array();
    if (!n || *n > kMostKvEventTokens)
      return wrong("token_ids is no array of at most " + std::to_string(kMostKvEventTokens));
    event_.tokens.resize(*n);
    for (Token& token : event_.tokens) {
      const auto number = in_.take_integer();
      if (!number || number->bits > static_cast<uint64_t>(std::numeric_limits<Token>::max()))
        return wrong("token_ids holds what is no token");
      token = static_cast<Token>(number->bits);
    }
    return {};
  }

  Status read_count(int64_t& out, const std::string& name) {
    if (in_.take_nil()) return {};
    const auto number = in_.take_integer();
    if (!number || number->bits > static_cast<uint64_t>(kMostKvBlockTokens))
      return wrong(name + " is no number of 0 to " + std::to_string(kMostKvBlockTokens));
    out = static_cast<int64_t>(number->bits);
    return {};
  }

  // The name says more than the number: it is the same in every process.
  Status read_adapter(bool is_name) {
    const auto value = in_.skip();
    if (!value) return wrong("it ends too early");
    const bool is_nil = *value == "\xc0";
    if (!is_nil && (is_name || event_.adapter == 0)) event_.adapter = kv_hash(*value);
    return {};
  }

  Status read_medium() {
    if (in_.take_nil()) return {};
    const auto medium = in_.take_text();
    if (!medium) return wrong("medium is no text");
    event_.in_memory = *medium == "GPU";
    return {};
  }

  Status read_extras() {
    if (in_.take_nil()) return {};
    const auto n = in_.take_array();
    if (!n || *n > kMostKvEventBlocks)
      return wrong("extra_keys is no array of at most " + std::to_string(kMostKvEventBlocks));
    event_.extras.resize(*n);
    for (uint64_t& extra : event_.extras) {
      const auto value = in_.skip();
      if (!value) return wrong("it ends too early");
      const bool is_none = *value == "\xc0" || *value == "\x90";
      extra = is_none ? 0 : kv_hash(*value);
    }
    return {};
  }

  // What lies elsewhere may be told of without its tokens, as vLLM's offloading does.
  Status check() const {
    const size_t n = event_.hashes.size();
    if (event_.kind != KvEvent::Kind::stored || !event_.in_memory || event_.group != 0) return {};
    if (event_.block_tokens < 1) return wrong("block_size is missing");
    if (event_.tokens.size() != n * static_cast<size_t>(event_.block_tokens))
      return wrong(std::to_string(event_.tokens.size()) + " tokens are not those of " + std::to_string(n) +
                   " blocks of " + std::to_string(event_.block_tokens));
    if (!event_.extras.empty() && event_.extras.size() != n)
      return wrong("extra_keys has not one value for each block");
    return {};
  }

  MsgpackReader in_;
  KvEvent event_;
};

}  // namespace

Status read_kv_batch(std::string_view payload, const std::function<void(const KvEvent&)>& each) {
  return BatchReader(payload).read(each);
}

uint64_t kv_hash(std::string_view bytes, uint64_t seed) {
  return std::max<uint64_t>(1, hash128(bytes.data(), bytes.size(), seed).lo);
}

uint64_t kv_salt(std::string_view salt) {
  MsgpackWriter out;
  out.array(1);
  out.text(salt);
  return kv_hash(out.take());
}

}  // namespace quire
