#include "model/fingerprint.h"

#include <bit>
#include <concepts>
#include <type_traits>

#include "model/weight_loader.h"

namespace quire {
namespace {

// Values one after the other; what has a length says it, so that no two lists of values run into the same bytes.
class Bytes {
 public:
  template <class T>
    requires std::integral<T> || std::is_enum_v<T>
  void add(T value) {
    words_.push_back(static_cast<uint64_t>(value));
  }
  void add(float value) { words_.push_back(std::bit_cast<uint32_t>(value)); }
  void add(double value) { words_.push_back(std::bit_cast<uint64_t>(value)); }
  void add(const std::string& text) { add(hash128(text.data(), text.size(), 0)); }
  void add(const Hash128& hash) {
    words_.push_back(hash.lo);
    words_.push_back(hash.hi);
  }
  template <class T>
  void add(const std::vector<T>& list) {
    add(list.size());
    for (const T& value : list) add(value);
  }
  Hash128 hash() const { return hash128(words_.data(), words_.size() * sizeof(uint64_t), 0); }

 private:
  std::vector<uint64_t> words_;
};

}  // namespace

FingerprintParts fingerprint_parts(const ModelFile& file,
                                   const DecoderConfig& config,
                                   const LoadOptions& options,
                                   const Hash128& content,
                                   uint64_t numerics) {
  FingerprintParts parts;
  parts.arch = file.meta.get_string("general.architecture").value_or("");
  parts.config = config;
  for (const HostWeight& weight : file.tensors) parts.formats.emplace_back(loaded_format(weight, options).name);
  if (options.k_codec != nullptr) parts.k_codec = options.k_codec->name;
  if (options.v_codec != nullptr) parts.v_codec = options.v_codec->name;
  parts.content = content;
  parts.tokenizer = options.tokenizer;
  parts.numerics = numerics;
  parts.shift = options.shift;
  return parts;
}

uint64_t fingerprint(const FingerprintParts& parts) {
  const auto& [arch, config, formats, k_codec, v_codec, content, tokenizer, numerics, shift] = parts;
  Bytes bytes;
  bytes.add(arch);
  each_field(config, [&](const auto& field) { bytes.add(field); });
  bytes.add(formats);
  bytes.add(k_codec);
  bytes.add(v_codec);
  bytes.add(content);
  bytes.add(tokenizer);
  bytes.add(numerics);
  if (shift.is_on()) {
    bytes.add(shift.n_sinks);
    bytes.add(shift.window);
  }
  return bytes.hash().lo;
}

}  // namespace quire
