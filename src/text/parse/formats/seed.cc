// Seed-OSS: <seed:tool_call><function=NAME><parameter=KEY>VALUE</parameter>.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<seed:tool_call>",
    .lead = "<seed:tool_call>\n<function=",
    .between = "\n</seed:tool_call>\n<seed:tool_call>\n<function=",
    .tail = "\n</seed:tool_call>",
    .name_end = ">\n",
    .key_begin = "<parameter=",
    .key_end = ">",
    .value_end = "</parameter>",
    .call_end = "</function>",
};
QR_REGISTER(CallForm, "seed", kForm);

}  // namespace
}  // namespace quire
