// Muse: a message to the tool with a block of one call. A reader of messages (text/reasoning.h) brings their headers
// into this form. <atem:function_calls> <atem:invoke name="NAME"> <atem:parameter name="KEY">VALUE</atem:parameter>
// </atem:invoke>
// </atem:function_calls>
#include "text/parse/call_form.h"
#include "text/reasoning.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = kToolMessage,
    .lead = "<|start|>assistant to=tool<|message|><atem:function_calls>\n<atem:invoke name=\"",
    .between =
        "\n</atem:function_calls><|start|>assistant to=tool<|message|><atem:function_calls>\n<atem:invoke name=\"",
    .tail = "\n</atem:function_calls>",
    .name_end = "\">\n",
    .key_begin = "<atem:parameter name=\"",
    .key_end = "\">",
    .value_end = "</atem:parameter>",
    .call_end = "</atem:invoke>",
    .channels = true,
    .recipients = true,
};
static_assert(kForm.lead.starts_with(kToolMessage));
QR_REGISTER(CallForm, "muse", kForm);

}  // namespace
}  // namespace quire
