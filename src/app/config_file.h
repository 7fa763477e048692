// A file of options: `key = value` lines under the options' names without dashes, # comments, values in quotes where
// blanks at the ends matter. Lines before the first [section] are for every command, those of a [command] for that one.
// Pure functions; any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

struct ConfigEntry {
  int line = 0;
  std::string section, key, value;  // section empty: for every command
};
// Code::invalid "line N: …".
Result<std::vector<ConfigEntry>> parse_config(std::string_view text);
// A file of at most kMostConfigBytes. Errors name it: parse_config's and read_text_file's.
Result<std::vector<ConfigEntry>> read_config(const std::string& path);
inline constexpr int64_t kMostConfigBytes = 1 << 20;

// The name that is meant by a misspelt one: at most a third of its letters differ (an inserted, dropped or replaced one
// counts as one). Empty when none is near; the first of several equally near.
std::string nearest(std::string_view name, const std::vector<std::string>& names);

}  // namespace quire
