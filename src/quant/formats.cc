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
    if (format->ggml_type == ggml_type) return format;
  }
  return nullptr;
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
