// MiniCPM 5: <function name="NAME"> with <param name="KEY">; values of several lines, or with a '<', as XML's CDATA.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<function name=\"",
    .lead = "<function name=\"",
    .between = "\n<function name=\"",
    .name_end = "\">",
    .key_begin = "<param name=\"",
    .key_end = "\">",
    .value_end = "</param>",
    .call_end = "</function>",
    .wrap_begin = "<![CDATA[",
    .wrap_end = "]]>",
};
QR_REGISTER(CallForm, "minicpm", kForm);

}  // namespace
}  // namespace quire
