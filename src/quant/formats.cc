#include "quant/kv_codec.h"
#include "quant/weight_format.h"

namespace quire {

const WeightFormat* find_weight_format(std::string_view name) {
  for (const WeightFormat* format : weight_formats()) {
    if (format->name == name) return format;
  }
  return nullptr;
}

const WeightFormat* find_weight_format(uint32_t ggml_type) {
  for (const WeightFormat* format : weight_formats()) {
    if (format->is_in_gguf() && format->ggml_type == ggml_type) return format;
  }
  return nullptr;
}

const std::byte* HostWeight::rows(int64_t first, int64_t n, std::vector<std::byte>& room) const {
  if (made == nullptr) return data.data() + first * row_bytes();
  room.resize(static_cast<size_t>(n * row_bytes()));
  made->make(first_made + first, n, room.data());
  return room.data();
}

std::vector<std::span<const std::byte>> HostWeight::stored() const {
  return made != nullptr ? made->stored() : std::vector{data};
}

int64_t HostWeight::stored_bytes() const {
  int64_t n = 0;
  for (const auto& part : stored()) n += static_cast<int64_t>(part.size());
  return n;
}

const KvCodec* find_kv_codec(std::string_view keys, std::string_view values) {
  for (const KvCodec* codec : kv_codecs()) {
    if (codec->keys == keys && codec->values == values) return codec;
  }
  return nullptr;
}

const KvCodec* find_kv_codec(std::string_view name) {
  for (const KvCodec* codec : kv_codecs()) {
    if (codec->name == name) return codec;
  }
  return nullptr;
}

}  // namespace quire
