// Nemotron Nano 2: <TOOLCALL>[{"name": …, "arguments": …}, …]</TOOLCALL>.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<TOOLCALL>",
    .lead = "<TOOLCALL>[",
    .between = ", ",
    .tail = "]</TOOLCALL>",
    .name_key = "name",
    .arguments_key = "arguments",
};
QR_REGISTER(CallForm, "nemotron", kForm);

}  // namespace
}  // namespace quire
