// How weights are stored. A format is one header in quant/weights/ with a struct of static members; CMake generates
// the registry and one kernel translation unit per format and instruction set from the folder, so nothing else lists
// it.
//
// The struct of a format X:
//   kName, kGgmlType           its name on the command line, its number in GGUF (kNoGgmlType where GGUF has it not)
//   kBlock, kBytes             elements and bytes of a block along K
//   kInteger                   products with int8 activations in activation groups of 32 (exact), else with f32
//   kRounded                   those are rounded to BF16 before
//   decode(block, out)         kBlock floats of one stored block
//   encode(in, block)          a block that decodes near to `in`; none: quant/encode.h searches for scales
// and, for the CPU's panels of kPanelRows rows (docs/numerics.md):
//   kPanelBytes                bytes of 16 rows × 32 k
//   load_two<V>(panel, k, out) float formats (kBlock 1 or 32·n): the 16 rows' weights at k, which is even, and at k + 1
// Integer formats: weight = scale · value, or scale · value + min; a scale belongs to a scale group of kScaleGroup
// numbers of a row.
//   kScaleGroup, kMins         32 or 16; whether scale groups have mins
//   kSuper, kPanelScaleBytes   panel blocks whose scales lie together (a super-block), and those scales' bytes
//   pack(rows, panel, scales)  16 stored blocks of kBlock = 32 · kSuper (null: a row of zeros); unpack is its inverse
//   load_quad<V, J>(panel)     64 unsigned bytes, byte 4·r + i = row r, k = 4·J + i
//   kZero, kMax                such a byte is value + kZero and at most kMax
//   Scales<V>(scales)          a super-block's: scale(g), min(g) are 16 rows' of its scale group g
// quant/float_format.h, quant/block_format.h and quant/k_format.h have all of it for the usual kinds.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

inline constexpr int kPanelRows = 16;   // one lane per row
inline constexpr int kPanelDepth = 32;  // K of one panel block; also the activation group

inline constexpr uint32_t kNoGgmlType = 0xffffffffU;

struct WeightFormat {
  std::string_view name;
  uint32_t ggml_type;
  int block;
  int bytes;
  bool integer, rounded;
  bool is_in_gguf() const { return ggml_type != kNoGgmlType; }
  void (*decode)(const std::byte* block, float* out);
  void (*encode)(const float* in, std::byte* block);

  // Bytes of a row of `n` elements. REQUIRES n % block == 0.
  int64_t row_bytes(int64_t n) const { return n / block * bytes; }
};

// Every format, in the order of its file name. Any thread.
std::span<const WeightFormat* const> weight_formats();
const WeightFormat* find_weight_format(std::string_view name);  // nullptr when unknown
const WeightFormat* find_weight_format(uint32_t ggml_type);

// Rows that no tensor of a file holds as they are: what makes them, where they are wanted, out of the tensors that it
// does hold. Immutable; any thread.
class MadeRows {
 public:
  virtual ~MadeRows() = default;
  // What is made of what, in words: two that make different rows of the same bytes have different ones.
  virtual std::string kind() const = 0;
  // The bytes in the file that rows are made of, in an order of their own.
  virtual std::vector<std::span<const std::byte>> stored() const = 0;
  // Column j of the rows is column order()[j] of the weight; empty: they are in order. Integer formats only.
  virtual std::span<const int32_t> order() const { return {}; }
  // Rows [first, first + n), each in blocks of the weight's format, one behind the other at `out`.
  virtual void make(int64_t first, int64_t n, std::byte* out) const = 0;
};

// A tensor as a file holds it; a view into the mapped file, valid as long as the file is.
struct HostWeight {
  std::string name;
  const WeightFormat* format = nullptr;
  std::vector<int64_t> shape;       // outermost first; the last is K, stored in blocks
  std::span<const std::byte> data;  // all rows; empty where they are made
  std::shared_ptr<const MadeRows> made = nullptr;
  int64_t first_made = 0;  // row 0 is this one of `made`

  int64_t n_rows() const {
    int64_t n = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) n *= shape[i];
    return n;
  }
  int64_t n_cols() const { return shape.empty() ? 1 : shape.back(); }
  int64_t row_bytes() const { return format->row_bytes(n_cols()); }
  // Rows [first, first + n), one behind the other: where they lie, or made in `room`, which is kept from call to call
  // and not shared. Valid until `room` changes. Any thread.
  const std::byte* rows(int64_t first, int64_t n, std::vector<std::byte>& room) const;
  std::span<const int32_t> order() const { return made != nullptr ? made->order() : std::span<const int32_t>(); }
  // The ranges of the file that the rows come from, and how many bytes these are.
  std::vector<std::span<const std::byte>> stored() const;
  int64_t stored_bytes() const;
};

}  // namespace quire
