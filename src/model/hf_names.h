// A Hugging Face folder in the vocabulary that architectures speak, GGUF's: an architecture lists what its tensors are
// called there and which facts are its own; what all decoders share is listed once, in hf_names.cc. After translation
// nothing can tell which kind of file a model came from, two things aside: "<arch>.rope.halves" says that the rows of q
// and k lie as halves (GGUF's llama has them permuted into pairs), and tensors are stored as F32, F16 or BF16.
// Pure functions; any thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/model_file.h"

namespace quire {

// What becomes of a tensor that GGUF holds otherwise: fills in shape and data, and format where it is another, whose
// bytes lie in file.owned. `facts`: the folder's, under "hf.". Errors name the tensor by `theirs`.
using Reshape = Status (*)(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);

// "{}" stands for a number, of a layer or of an expert, in both in the same order. Several rules of a list with the
// same `theirs` make several tensors of one.
struct NameRule {
  std::string_view theirs, ours;
  bool plus_one = false;      // the stored value is the factor less one
  Reshape reshape = nullptr;  // null: as it is; it gets a quantised tensor as F32
  bool keeps_rows = false;    // it takes rows as they are: a quantised tensor's too, not as F32
};

// The facts of a folder while they are translated: theirs under "hf.", ours under the architecture's name.
class HfFacts {
 public:
  HfFacts(const Metadata& theirs, Metadata& ours, std::string_view arch)
      : theirs_(theirs), ours_(ours), prefix_(std::string(arch) + ".") {}

  const MetaValue* find(std::string_view key) const { return theirs_.find("hf." + std::string(key)); }
  // Errors about it name the fact that it comes from.
  void set(std::string_view ours, MetaValue value, std::string_view theirs);
  // Copies the first of these facts that is there; false when none is. Errors about `ours` name it (or the first).
  bool copy(std::initializer_list<std::string_view> theirs, std::string_view ours);
  Result<int64_t> get_int(std::string_view key, int64_t lo, int64_t hi) const;
  Result<int64_t> get_int_or(std::string_view key, int64_t lo, int64_t hi, int64_t fallback) const;
  Result<double> get_double(std::string_view key, double lo, double hi) const;
  Result<double> get_double_or(std::string_view key, double lo, double hi, double fallback) const;
  Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  // For configurations that name a window and switch it on elsewhere ("use_sliding_window"), from a layer on
  // ("max_window_layers") where they do not list the kinds of layers.
  Status choose_windows();
  // Code::unsupported unless the fact is absent or one of these.
  Status require(std::string_view key, std::initializer_list<std::string_view> values) const;
  // Likewise where the fact is a bool, or a number.
  Status require_bool(std::string_view key, bool value) const;
  Status require_number(std::string_view key, double value) const;

 private:
  const Metadata& theirs_;
  Metadata& ours_;
  std::string prefix_;
};

struct HfRules {
  std::vector<std::string_view> model_types;  // config.json's "model_type"
  std::vector<NameRule> tensors = {};         // before the common ones
  Status (*facts)(HfFacts&) = nullptr;        // after the common ones
  bool pairs_in_gguf = false;                 // GGUF has this architecture's rows of q and k as pairs, not as halves
  Status (*as_gguf)(ModelFile&) = nullptr;    // makes of a translated folder what else GGUF files of it hold otherwise
  bool lists_parts = false;                   // facts() says which parts a layer has, by "layer_types" or another list
  bool turns_adapters = false;                // PEFT takes its experts' parameters, [n, in, out], for [n, out, in]
  std::vector<std::string_view> state_layers = {};  // kinds of layers that keep a state in place of attention
};

// What a tensor of a folder is called by `rules`; several where one makes several, none where no rule knows it.
struct Renamed {
  std::string name;
  const NameRule* rule;  // of `rules`, or common to all
};
std::vector<Renamed> our_names(std::string_view theirs, const HfRules& rules);

// The folder as `arch` wants it. Tensors without a rule are named in a warning and left out; of quantised ones those
// that a rule reads number by number become F32, in `owned`. Errors name folder and key, or tensor.
Result<ModelFile> translate_hf(const ModelFile& folder, std::string_view arch, const HfRules& rules);

}  // namespace quire
