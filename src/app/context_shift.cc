#include "app/context_shift.h"

#include <charconv>
#include <string_view>

#include "ops/seen_keys.h"

namespace quire {
namespace {

constexpr std::string_view kForm = "sinks=S,window=W";

// The number behind "name=", which is all of `part`.
Result<int> number_of(std::string_view part, std::string_view name, int lo, int hi) {
  const std::string shown = "--context-shift: " + std::string(name);
  const std::string_view digits = part.substr(name.size() + 1);
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && end == digits.data() + digits.size() && value >= lo && value <= hi) return value;
  return fail(Code::invalid, shown + " must be " + std::to_string(lo) + " to " + std::to_string(hi) + ", got \"" +
                                 std::string(digits) + "\"");
}

}  // namespace

void declare_shift_option(CommandLine& line, ModelOptions& options) {
  line.option("--context-shift", options.context_shift,
              "sinks=S,window=W: texts may be longer than the model's context; every token sees the first S and the "
              "last W tokens (such as sinks=4,window=2048); empty: all, up to the context");
}

Result<ContextShift> parse_context_shift(const std::string& text) {
  if (text.empty()) return ContextShift{};
  const std::string_view all = text;
  const size_t comma = all.find(',');
  const bool has_form =
      all.starts_with("sinks=") && comma != std::string_view::npos && all.substr(comma + 1).starts_with("window=");
  if (!has_form) return fail(Code::invalid, "--context-shift must be " + std::string(kForm) + ", got \"" + text + "\"");
  ContextShift out;
  QR_TRY(out.n_sinks, number_of(all.substr(0, comma), "sinks", 0, kMostKept));
  QR_TRY(out.window, number_of(all.substr(comma + 1), "window", 1, 1 << 24));
  return out;
}

}  // namespace quire
