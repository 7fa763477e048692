// What a request gets that does not say: values by the names of request fields, and where each came from. One table for
// all dialects. Const while the server runs.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

struct SamplingDefault {
  std::string field;  // "temperature"
  double value = 0;
  std::string from;  // "option", "generation_config.json"
};

class SamplingDefaults {
 public:
  void set(std::string_view field, double value, std::string_view from) {
    const auto it = find(field);
    if (it != rows_.end()) rows_.erase(it);
    rows_.push_back({std::string(field), value, std::string(from)});
  }
  // `neutral` is what changes nothing: of a field that has no default here.
  double get(std::string_view field, double neutral) const {
    const auto it = find(field);
    return it != rows_.end() ? it->value : neutral;
  }
  const std::vector<SamplingDefault>& rows() const { return rows_; }

  std::optional<uint64_t> seed;  // none: another one for each request

 private:
  std::vector<SamplingDefault>::const_iterator find(std::string_view field) const {
    return std::find_if(rows_.begin(), rows_.end(), [&](const SamplingDefault& row) { return row.field == field; });
  }
  std::vector<SamplingDefault> rows_;  // few
};

}  // namespace quire
