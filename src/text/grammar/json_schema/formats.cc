// See formats.h. The patterns are narrow where the RFCs are wide: every string that they admit is of the format, and
// what people write is among them (leap seconds, comments in mail addresses and obsolete forms are not).
#include "text/grammar/json_schema/formats.h"

#include <utility>

namespace quire::grammar {

namespace {

#define QR_DATE                                                         \
  "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"       \
  "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" \
  "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
#define QR_TIME \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define QR_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define QR_IPV4 QR_OCTET "(?:\\." QR_OCTET "){3}"
#define QR_H16 "[0-9A-Fa-f]{1,4}"
#define QR_LS32 "(?:" QR_H16 ":" QR_H16 "|" QR_IPV4 ")"
#define QR_IPV6                                                                                                     \
  "(?:(?:" QR_H16 ":){6}" QR_LS32 "|::(?:" QR_H16 ":){5}" QR_LS32 "|(?:" QR_H16 ")?::(?:" QR_H16 ":){4}" QR_LS32    \
  "|(?:(?:" QR_H16 ":){0,1}" QR_H16 ")?::(?:" QR_H16 ":){3}" QR_LS32 "|(?:(?:" QR_H16 ":){0,2}" QR_H16              \
  ")?::(?:" QR_H16 ":){2}" QR_LS32 "|(?:(?:" QR_H16 ":){0,3}" QR_H16 ")?::" QR_H16 ":" QR_LS32 "|(?:(?:" QR_H16     \
  ":){0,4}" QR_H16 ")?::" QR_LS32 "|(?:(?:" QR_H16 ":){0,5}" QR_H16 ")?::" QR_H16 "|(?:(?:" QR_H16 ":){0,6}" QR_H16 \
  ")?::)"
// A label ends in no hyphen and has none in its third and fourth place (those are reserved).
#define QR_LABEL "(?!..--)[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define QR_HOST "(?=.{1,253}$)" QR_LABEL "(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
#define QR_ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
#define QR_PCHAR(x) "(?:[A-Za-z0-9._~!$&'()*+,;=:@" x "-]|%[0-9A-Fa-f]{2})"
#define QR_NCHAR(x) "(?:[A-Za-z0-9._~!$&'()*+,;=@" x "-]|%[0-9A-Fa-f]{2})"
#define QR_AUTHORITY(x)                                                                                           \
  "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:" x "-]|%[0-9A-Fa-f]{2})*@)?(?:\\[" QR_IPV6 "\\]|(?:[A-Za-z0-9._~!$&'()*+,;=" x \
  "-]|%[0-9A-Fa-f]{2})*)(?::[0-9]{0,5})?"
#define QR_TAIL(x) "(?:\\?(?:" QR_PCHAR(x) "|[/?])*)?(?:#(?:" QR_PCHAR(x) "|[/?])*)?"
#define QR_ABS(x)                                                                                             \
  "[A-Za-z][A-Za-z0-9+.-]*:(?://" QR_AUTHORITY(x) "(?:/" QR_PCHAR(x) "*)*|/(?:" QR_PCHAR(x) "+(?:/" QR_PCHAR( \
      x) "*)*)?|" QR_PCHAR(x) "+(?:/" QR_PCHAR(x) "*)*)" QR_TAIL(x)
#define QR_REL(x) \
  "(?://" QR_AUTHORITY(x) "(?:/" QR_PCHAR(x) "*)*|/(?:" QR_PCHAR(x) "+(?:/" QR_PCHAR(x) "*)*)?|" QR_NCHAR(x) "+" \
  "(?:/" QR_PCHAR(x) "*)*)?" QR_TAIL(x)
#define QR_VARCHAR "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
#define QR_VARSPEC QR_VARCHAR "(?:\\.?" QR_VARCHAR ")*(?::[1-9][0-9]{0,3}|\\*)?"
#define QR_WIDE "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF"

constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    {"date", "^" QR_DATE "$"},
    {"time", "^" QR_TIME "$"},
    {"date-time", "^" QR_DATE "[Tt]" QR_TIME "$"},
    {"duration",
     "^P(?:[0-9]{1,9}W|(?=.)(?:[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|[0-9]{1,9}D)?"
     "(?:T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))?)$"},
    {"email", "^(?=.{3,254}$)" QR_ATOM "{1,32}(?:\\." QR_ATOM "{1,32})*@" QR_LABEL
              "(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$"},
    {"hostname", "^" QR_HOST "$"},
    {"ipv4", "^" QR_IPV4 "$"},
    {"ipv6", "^" QR_IPV6 "$"},
    {"uuid", "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"},
    {"uri", "^" QR_ABS("") "$"},
    {"uri-reference", "^(?:" QR_ABS("") "|" QR_REL("") ")$"},
    {"iri", "^" QR_ABS(QR_WIDE) "$"},
    {"iri-reference", "^(?:" QR_ABS(QR_WIDE) "|" QR_REL(QR_WIDE) ")$"},
    {"uri-template",
     "^(?:[!#$&()*+,\\-./0-9:;=?@A-Z\\[\\]_a-z~\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF]|%[0-9A-Fa-f]{2}|"
     "\\{[+#./;?&]?" QR_VARSPEC "(?:," QR_VARSPEC ")*\\})*$"},
    {"json-pointer", "^(?:/(?:[^~/]|~[01])*)*$"},
    {"relative-json-pointer", "^(?:0|[1-9][0-9]{0,9})(?:#|(?:/(?:[^~/]|~[01])*)*)$"},
};

}  // namespace

std::string_view format_pattern(std::string_view name) {
  for (const auto& [known, pattern] : kFormats) {
    if (known == name) return pattern;
  }
  return {};
}

}  // namespace quire::grammar
