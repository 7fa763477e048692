// See value_syntax.h.
#include "text/grammar/json_schema/value_syntax.h"

#include "text/grammar/pattern.h"

namespace quire::grammar {

namespace {

constexpr uint32_t kMaxIndent = 64;

// A name is a line without what ends one, and without blanks at its ends; of those that no schema lists, a short one.
#define QR_EDGE "[^\\x00-\\x20\\x7f\"{},:<>]"
#define QR_INNER "[^\\x00-\\x1f\\x7f\"{},:<>]"
constexpr std::string_view kListedName = QR_EDGE "(?:" QR_INNER "*" QR_EDGE ")?";
constexpr std::string_view kOtherName = QR_EDGE "(?:" QR_INNER "{0,62}" QR_EDGE ")?";

}  // namespace

ValueSyntax ValueSyntax::json(RxStore& rx) {
  ValueSyntax out;
  out.quote = rx.byte('"');
  const Rx line = rx.cat(rx.optional(rx.byte('\r')), rx.byte('\n'));
  const Rx indent = rx.alt({rx.repeat(rx.byte(' '), 0, kMaxIndent), rx.repeat(rx.byte('\t'), 0, kMaxIndent)});
  out.space = rx.optional(rx.alt({rx.byte(' '), rx.cat(line, indent)}));
  return out;
}

Result<ValueSyntax> ValueSyntax::marked(RxStore& rx, std::string_view text, Rx mark) {
  ValueSyntax out;
  CharCoder chars(rx, Spelling::utf8);
  out.spelling = Spelling::utf8;
  out.quote = mark;
  out.strings = rx.negate(rx.cat({RxStore::kAny, rx.literal(text), RxStore::kAny}));
  out.bare = true;
  QR_TRY(out.listed_name, compile_pattern(kListedName, PatternMeans::whole_text, chars));
  QR_TRY(out.other_name, compile_pattern(kOtherName, PatternMeans::whole_text, chars));
  return out;
}

}  // namespace quire::grammar
