// How cached keys and values are stored. A codec is one header in quant/kv/ with a struct of static members; the
// registry and the kernels per instruction set are generated from the folder.
//
// Rows of one head are stored in strips of kStripTokens = 16 tokens. Keys lie transposed, [dim][16], so that one vector
// holds the same component of 16 positions and a dot product needs no horizontal sum; values lie as [16][dim].
//   kName                      its name on the command line
//   row_bytes(dim)             bytes per token and head, of keys and of values
//   k_row_bytes, v_row_bytes   instead, where the two lie in forms of two other codecs, kKeys and kValues
//   put_k/get_k/put_v/get_v    one row to and from a strip, t = position within the strip
//   kForResearch               costs more than a hundredth of perplexity on models that people use (docs/kv.md)
//   kTogether                  1, or 2 where numbers are BF16 and multiplied as pairs that lie side by side
//   kRotatesKeys               what load_k gives is of keys that were rotated (quant/rotation.h): queries are too
//   kRotatesValues             what load_v gives is of values that were rotated as keys: results are rotated back
//   load_k<V>(strip, d)        component d of the strip's 16 keys
//   load_v<V>(strip, t, dim, d)   components d … d+15 of value t
//   key(strip, d)              instead, of pairs: components d and d+1 of 16 keys, d even; 0 behind the last one
//   value(strip, t, dim, d)    instead, of pairs: components d … d+15 of values t and t+1, t even
//   scale_k<V>(strip, dots)    the strip's 16 dot products of what load_k gives, made those of its keys
//   scale_v<V>(strip, p)       weights of the strip's 16 values, made those of what load_v gives
//   kValuesInKeys              values may be the last components of keys, and are stored no second time; then also:
//   values_of_keys(keys, d, n, dim, values)   components d … d+n−1 of a strip of keys as a strip of values of `dim`
//                              components, n ≤ dim, d even; without what scale_v reads, which of `keys` is the same
//   Tail                       a codec that packs whole strips (kPacks): the codec that a strip's rows lie in until
//   then pack_k/pack_v(rows, dim, strip)   instead of put_k/put_v: rows [16][dim] to a strip
// A row of a codec that packs sees the strip that it lies in as Tail has it, and those before it packed: a function of
// its position alone (docs/numerics.md, "Attention").
// scale_k and scale_v are where a codec applies what a row has once: they return what they got where there is no such
// thing. Neither may disturb another lane: those of tokens that are not stored yet hold anything.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace quire {

inline constexpr int kStripTokens = 16;
inline constexpr int kMaxHeadDim = 576;  // components of a key or value at most

struct KvCodec {
  std::string_view name;
  std::string_view keys, values;  // name, or the codecs that keys and values lie in
  bool rounded;                   // queries and weights of values are rounded to BF16 as well
  bool values_in_keys;            // values may be the last components of keys
  bool rotates_keys;              // keys are stored rotated (quant/rotation.h)
  bool for_research;              // costs more than a hundredth of perplexity on models that people use (docs/kv.md)
  int64_t (*k_row_bytes)(int dim);
  int64_t (*v_row_bytes)(int dim);
  std::string_view tail;  // of a codec that packs whole strips: the codec of rows until then; else empty
  void (*put_k)(std::byte* strip, int t, int dim, const float* row);  // null where the codec packs
  void (*get_k)(const std::byte* strip, int t, int dim, float* row);
  void (*put_v)(std::byte* strip, int t, int dim, const float* row);
  void (*get_v)(const std::byte* strip, int t, int dim, float* row);
  // rows [16][dim] to a strip; null where the codec stores rows as they come.
  void (*pack_k)(const float* rows, int dim, std::byte* strip);
  void (*pack_v)(const float* rows, int dim, std::byte* strip);
  bool packs() const { return !tail.empty(); }
};

std::span<const KvCodec* const> kv_codecs();
const KvCodec* find_kv_codec(std::string_view name);                           // nullptr when unknown
const KvCodec* find_kv_codec(std::string_view keys, std::string_view values);  // the same

}  // namespace quire
