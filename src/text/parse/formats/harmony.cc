// gpt-oss: a message of the channel commentary to functions.NAME, with JSON in it; it ends the answer. A reader of
// channels (text/reasoning.h) brings what models write as its header into this form.
#include "text/parse/call_form.h"
#include "text/reasoning.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = kCallMessage,
    .lead = kCallMessage,
    .between = kCallMessage,
    .name_end = "<|message|>",
    .id_mark = " ",
    .behind_name = " <|constrain|>json",
    .channels = true,
};
QR_REGISTER(CallForm, "harmony", kForm);

}  // namespace
}  // namespace quire
