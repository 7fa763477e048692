// Functionary 3.1: <function=NAME>{…}</function>, one after another.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<function=",
    .lead = "<function=",
    .between = "</function><function=",
    .tail = "</function>",
    .name_end = ">",
};
QR_REGISTER(CallForm, "functionary", kForm);

}  // namespace
}  // namespace quire
