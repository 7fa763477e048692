// Kimi K3: behind the text, which is a section of its own, a section of calls, whose arguments say what they are.
// <|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="NAME" index="1"<|sep|>
// <|open|>argument key="KEY" type="string"<|sep|>VALUE<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<|close|>response<|sep|><|open|>tools<|sep|>",
    .lead = "<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"",
    .between = "<|open|>call tool=\"",
    .tail = "<|close|>tools<|sep|>",
    .short_lead = "<|open|>tools<|sep|><|open|>call tool=\"",  // a reader of responses takes their marks
    .name_end = "\"<|sep|>",
    .id_mark = "\" index=\"",
    .id_pattern = "[0-9]{1,3}",
    .key_begin = "<|open|>argument key=\"",
    .key_end = "\" type=\"string\"<|sep|>",
    .value_end = "<|close|>argument<|sep|>",
    .call_end = "<|close|>call<|sep|>",
    .json_key_end = "\" type=\"*\"<|sep|>",
    .joined = true,
    .entities = true,
};
QR_REGISTER(CallForm, "kimi_k3", kForm);

}  // namespace
}  // namespace quire
