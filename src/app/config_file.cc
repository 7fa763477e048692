#include "app/config_file.h"

#include <algorithm>

#include "app/text_file.h"
#include "base/bounded_reader.h"

namespace quire {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t from = text.find_first_not_of(kBlank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(kBlank) - from + 1);
}

// Levenshtein's distance, where two neighbours that changed places count as one: three rows at a time.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

Result<std::vector<ConfigEntry>> parse_config(std::string_view text) {
  std::vector<ConfigEntry> out;
  std::string section;
  int n_line = 0;
  while (!text.empty()) {
    ++n_line;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[' && line.back() == ']') {
      section = trimmed(line.substr(1, line.size() - 2));
      continue;
    }
    const size_t equals = line.find('=');
    const std::string_view key = trimmed(line.substr(0, equals));
    if (equals == std::string_view::npos || key.empty())
      return fail(Code::invalid, "line " + std::to_string(n_line) + ": no \"key = value\"");
    std::string_view value = trimmed(line.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    out.push_back({n_line, section, std::string(key), std::string(value)});
  }
  return out;
}

Result<std::vector<ConfigEntry>> read_config(const std::string& path) {
  QR_TRY(const std::string text, read_text_file("--config", path, kMostConfigBytes));
  auto entries = parse_config(text);
  if (!entries) return error_within(path, std::move(entries).error());
  return entries;
}

std::string nearest(std::string_view name, const std::vector<std::string>& names) {
  std::string best;
  size_t least = std::max<size_t>(name.size() / 3, 1) + 1;
  for (const std::string& candidate : names) {
    const size_t d = distance(name, candidate);
    if (d < least) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

}  // namespace quire
