// GigaChat 3.1: one object behind a mark.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<|function_call|>",
    .lead = "<|function_call|>",
    .between = "<|function_call|>",
    .name_key = "name",
    .arguments_key = "arguments",
};
QR_REGISTER(CallForm, "gigachat", kForm);

}  // namespace
}  // namespace quire
