// Each kind of folder whose weights lie in several tensors: what those are called, and how they become one. A kind is a
// file io/hf_*.cc; which one a folder is says its configuration (io/hf_quantisation.cc). Any thread.
#pragma once
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/config_keys.h"
#include "io/hf_quantisation.h"

namespace quire {

inline constexpr int64_t kMostColumns = int64_t{1} << 20;  // of a quantised weight

// The tensors of a folder by name.
struct TensorPlace {
  const TensorFile* file;
  const SafeTensor* tensor;
  std::string label() const;  // as errors name it: file and tensor
  std::span<const std::byte> bytes() const;
};
using TensorPlaces = std::map<std::string, TensorPlace, std::less<>>;

// One of a weight's tensors, of one of these types and shapes; no shapes: any of two dimensions. `of`: the label of the
// tensor that it belongs to. Errors: Code::not_found, Code::unsupported for a type, Code::corrupt for a shape.
Result<TensorPlace> part_of(const TensorPlaces& places,
                            const std::string& name,
                            std::initializer_list<std::string_view> types,
                            const std::vector<std::vector<int64_t>>& shapes,
                            const std::string& of);

// The same of scales, in any type that a weight format reads.
Result<TensorPlace> scales_of(const TensorPlaces& places,
                              const std::string& name,
                              const std::vector<std::vector<int64_t>>& shapes,
                              const std::string& of);
const WeightFormat* scale_format_of(const TensorPlace& scales);

// A number of a file, as errors show it: with all of its digits.
std::string shown_number(float value);

// Whether `numbers`, of `n` elements with `per` inputs each, is no wider than kMostColumns. Code::unsupported.
Status check_columns(const TensorPlace& numbers, int64_t n, int64_t per = 1);

struct QuantisedKind {
  std::string_view numbers;                          // behind a module's name: the tensor that holds the numbers
  std::string_view type;                             // of it; empty: told when it is read
  std::vector<std::string_view> others;              // the tensors beside it that say how large its numbers are
  int64_t (*numbers_of)(const HfQuantisation& how);  // how many numbers an element of it holds
  // The weight NAME.weight.
  Result<HostWeight> (*assemble)(const HfQuantisation& how, const TensorPlaces& places, const std::string& name);
  std::vector<std::string_view> passed_over = {};  // tensors beside it that change no weight
  std::string_view plain = ".weight";              // behind a module's name: the weight where it is not quantised
};

const QuantisedKind& grouped_kind(GroupedParts::Layout layout);
const QuantisedKind& scaled_kind();
enum class Fp4Folder : uint8_t { mx, nv, modelopt };  // MXFP4 and NVFP4 of compressed-tensors, NVFP4 of ModelOpt
const QuantisedKind& fp4_kind(Fp4Folder folder);
const QuantisedKind& mxfp4_blocks_kind();  // MXFP4 of stacked experts

// What compressed-tensors, bitsandbytes, ModelOpt and BitNet say.
Result<HfQuantisation> read_compressed(const ConfigKeys& keys);
Result<HfQuantisation> read_modelopt(const ConfigKeys& keys);
Result<HfQuantisation> read_bitsandbytes(const ConfigKeys& keys);
Result<HfQuantisation> read_bitnet(const ConfigKeys& keys);
// Rows and columns, two numbers from 1 to kMostColumns. Code::corrupt, also where there is no value.
Result<std::pair<int64_t, int64_t>> read_extents(const Json* value, const std::string& label);
// A group size as the key says it; 0: all columns.
Result<int64_t> read_group_size(const ConfigKeys& keys);
// Two numbers, rows and columns that share a scale, where the key is there.
Status read_block_size(const ConfigKeys& keys, std::string_view name, HfQuantisation& out);

}  // namespace quire
