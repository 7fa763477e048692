#include "model/layer_kinds.h"

#include <algorithm>

#include "io/in_quotes.h"

namespace quire {

Result<std::vector<std::string>> layer_kinds(HfFacts& hf,
                                             std::string_view key,
                                             const std::vector<std::string_view>& known,
                                             std::vector<std::string> otherwise) {
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  const MetaValue* value = hf.find(key);
  if (value == nullptr && !otherwise.empty()) return otherwise;
  const auto* kinds = value != nullptr ? std::get_if<std::vector<std::string>>(value) : nullptr;
  if (kinds == nullptr || kinds->size() != static_cast<size_t>(n_layers)) {
    return fail(Code::corrupt, "key " + in_quotes(key) + ": must be a list of " + std::to_string(n_layers) +
                                   " kinds of layers, has " + std::to_string(kinds != nullptr ? kinds->size() : 0));
  }
  for (const std::string& kind : *kinds) {
    if (std::ranges::find(known, kind) != known.end()) continue;
    std::string text = "key " + in_quotes(key) + ": " + in_quotes(kind) + " is not supported; known:";
    for (const std::string_view one : known) text += " " + std::string(one);
    return fail(Code::unsupported, text);
  }
  return *kinds;
}

}  // namespace quire
