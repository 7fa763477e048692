// Llama 3.1 and 3.2: the answer is {"name": …, "parameters": …}; of several, semicolons stand between.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .between = "; ",
    .name_key = "name",
    .arguments_key = "parameters",
};
QR_REGISTER(CallForm, "llama3_json", kForm);

}  // namespace
}  // namespace quire
