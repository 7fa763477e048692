// GigaChat 3: one object in a message of its own, behind the mark that ends the text's.
// <|message_sep|>
//
// function call<|role_sep|>
// {"name": …, "arguments": …}
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<|message_sep|>\n\nfunction call<|role_sep|>\n",
    .lead = "<|message_sep|>\n\nfunction call<|role_sep|>\n",
    .between = "<|message_sep|>\n\nfunction call<|role_sep|>\n",
    .text_end = "<|message_sep|>",
    .name_key = "name",
    .arguments_key = "arguments",
};
QR_REGISTER(CallForm, "gigachat3", kForm);

}  // namespace
}  // namespace quire
