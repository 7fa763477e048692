// Gemma 4: <|tool_call>call:NAME{KEY:VALUE,…}<tool_call|>, one after another, strings between <|"|> and <|"|>.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<|tool_call>",
    .lead = "<|tool_call>call:",
    .between = "<tool_call|><|tool_call>call:",
    .tail = "<tool_call|>",
    .name_end = "{",
    .string_mark = "<|\"|>",
};
QR_REGISTER(CallForm, "gemma4", kForm);

}  // namespace
}  // namespace quire
