// FireFunction 2: functools[{"name": …, "arguments": …}, …].
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "functools[",
    .lead = "functools[",
    .between = ", ",
    .tail = "]",
    .name_key = "name",
    .arguments_key = "arguments",
};
QR_REGISTER(CallForm, "functools", kForm);

}  // namespace
}  // namespace quire
