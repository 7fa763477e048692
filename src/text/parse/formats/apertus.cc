// Apertus: <|tools_prefix|>[{NAME: {…}}, …]<|tools_suffix|>, each call an object of its name.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<|tools_prefix|>",
    .lead = "<|tools_prefix|>[{\"",
    .between = "}, {\"",
    .tail = "}]<|tools_suffix|>",
    .name_end = "\": ",
};
QR_REGISTER(CallForm, "apertus", kForm);

}  // namespace
}  // namespace quire
