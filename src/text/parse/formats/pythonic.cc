// Llama 3.2, Llama 4 and others that are told to write Python: the answer is [NAME(KEY=VALUE, …), …].
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .lead = "[",
    .between = ", ",
    .tail = "]",
    .name_end = "(",
    .call_end = ")",
    .keywords = true,
};
QR_REGISTER(CallForm, "pythonic", kForm);

}  // namespace
}  // namespace quire
